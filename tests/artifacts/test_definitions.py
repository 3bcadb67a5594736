"""Definitions and their paths, without a mount."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.artifacts.definitions import Catalogue, load_catalogue
from ext4kit.artifacts.finding import artifact_files, count_files
from ext4kit.artifacts.globs import Glob, Reach, folders_of, regex_of, rest_after
from ext4kit.artifacts.places import MOST_FOLLOWED, MOST_WILD_LINKS, Atlas
from ext4kit.artifacts.root_files import RootFiles
from ext4kit.artifacts.users import MOST_USERS, users_of
from ext4kit.errors import RequestError
from ext4kit.filesystem.live_view import LiveView
from ext4kit.selection import Selection
from ext4kit.workspace import Workspace
from tests.conftest import Cli

OURS = Path(__file__).parents[1] / "fuzz/definitions"
MATCHES = {  # path of a definition: (matched, not matched)
    "/etc/passwd": (
        ["/etc/passwd"], ["/etc/passwd-", "/etc/Passwd", "/etc/passwd/x", "/x/etc/passwd"],
    ),
    "etc/passwd": (["/etc/passwd"], ["etc/passwd"]),
    "/var/log/*.log*": (["/var/log/a.log", "/var/log/.log.1"], ["/var/log/x/a.log"]),
    "/a/?": (["/a/b"], ["/a/", "/a/bc", "/a//"]),
    "/gc.log.[0-9]": (["/gc.log.7"], ["/gc.log.10", "/gcxlog.7", "/gc.log.[0-9]"]),
    "/x/[!a]b": (["/x/cb"], ["/x/ab", "/x//b", "/x/b"]),
    "/a/**": (["/a/b", "/a" + "/b" * 10], ["/a", "/a" + "/b" * 11]),
    "/a/**3": (["/a/b", "/a/b/c/d"], ["/a", "/a/b/c/d/e"]),
    "/**2/hadoop/logs/*": (
        ["/hadoop/logs/x", "/opt/hadoop/logs/x", "/opt/a/hadoop/logs/x"],
        ["/opt/a/b/hadoop/logs/x", "/opt/hadoop/logs/a/x"],
    ),
    "/w/**/c.php": (["/w/c.php", "/w" + "/b" * 10 + "/c.php"], ["/w" + "/b" * 11 + "/c.php"]),
    "/d/**1.txt": (["/d/a.txt", "/d/x/.txt"], ["/d/x/y/a.txt", "/d/a.doc"]),
    "/a{b,c}/(d|e)+.$": (["/a{b,c}/(d|e)+.$"], ["/ab/d"]),
    "/new\nline/*": (["/new\nline/\n"], ["/new"]),
}  # fmt: skip


def parsed(text: str, reach: Reach = Reach.FILE, separator: str = "/") -> Glob:
    glob = Glob.parse(text, reach, separator)
    assert glob is not None
    return glob


def pattern_of(glob: Glob) -> re.Pattern[bytes]:
    fixed = (b"/" + re.escape(name) for name in glob.fixed)
    return re.compile(regex_of([(*fixed, *glob.rest)]), re.DOTALL)


@pytest.mark.parametrize("text", MATCHES)
def test_wildcards_match_as_the_guide_says(text: str) -> None:
    pattern, (matched, others) = pattern_of(parsed(text)), MATCHES[text]
    assert [one for one in matched if not pattern.fullmatch(one.encode())] == []
    assert [one for one in others if pattern.fullmatch(one.encode())] == []


def test_a_separator_stands_for_the_slash() -> None:
    assert parsed(r"\var\log\*", separator="\\") == parsed("/var/log/*")


@pytest.mark.parametrize(
    "text", ["%%environ_windir%%/x", "/a/%%users.homedir%%", "%%users.sid%%/x"]
)
def test_paths_with_variables_that_an_image_does_not_give_are_left_out(text: str) -> None:
    assert Glob.parse(text, Reach.FILE) is None


def test_a_path_or_directory_source_has_what_is_below() -> None:
    path, folder = (pattern_of(parsed("/a/*", each)) for each in (Reach.PATH, Reach.DIRECTORY))
    assert [bool(path.fullmatch(one)) for one in (b"/a", b"/a/b", b"/a/b/c", b"/a/b/c/d")] == [
        False, True, True, True,
    ]  # fmt: skip
    assert [bool(folder.fullmatch(one)) for one in (b"/a", b"/a/b", b"/a/b/c", b"/a/b/c/d")] == [
        False, True, True, False,
    ]  # fmt: skip


def test_what_is_left_of_a_path_after_a_link() -> None:
    path = (b"/var", b"/[^/]+", b"(?:/[^/]+){0,2}", b"/x")
    assert list(folders_of(path)) == [path[:2], path[:3]]
    assert list(rest_after(path, (b"var", b"link"))) == [path[2:]]
    assert set(rest_after(path, (b"var", b"b", b"link"))) == {(b"(?:/[^/]+){0,1}", b"/x")}
    assert list(rest_after(path, (b"usr", b"link"))) == []


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


def test_names_and_aliases_are_found_whatever_their_case(catalogue: Catalogue) -> None:
    assert catalogue.find("linuxauthlogs").name == "LinuxAuthLogs"
    assert catalogue.find("UnixPasswd").name == "UnixPasswdFile"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LinuxAuthLog", "no artifact definition 'LinuxAuthLog'; the nearest are LinuxAuthLogs, "),
        ("rpmdb-of-fedora", "no artifact definition 'rpmdb-of-fedora'; "),
        ("WindowsRunKeys", "the artifact definition WindowsRunKeys is for Windows alone"),
        ("MacOSSafariHistory", "no artifact definition"),
        ("IPTablesRules", "the artifact definition IPTablesRules names no files of an image"),
    ],
)
def test_what_cannot_be_selected_is_one_line_and_exit_2(
    sample: Path, ext4kit: Cli, name: str, text: str
) -> None:
    done = ext4kit("ls", sample, "-r", "--artifact", name)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"ext4kit: {text}")


def test_own_definitions_add_to_and_replace_those_of_the_package(tmp_path: Path) -> None:
    text = (OURS / "ours.yaml").read_text(encoding="utf-8").replace("OurFiles", "LinuxAuthLogs")
    (tmp_path / "mine.yml").write_text(text, encoding="utf-8")
    found = load_catalogue([OURS, tmp_path])
    assert found.find("OurOldGroup").left_out == 1
    assert [one.name for one in found.members(found.find("OurGroup"))] == [
        "OurGroup", "LinuxAuthLogs",
    ]  # fmt: skip
    assert found.find("LinuxAuthLogs").globs == load_catalogue([OURS]).find("OurFiles").globs


BAD = {
    "name: A\ndoc: a\nsources: [": "line 3: ",
    "name: A\ndoc: a\nsources:\n- type: FILE\n  attributes: {paths: ['/[z-a]']}\n": "line 1: ",
    "# One\n---\nname: A\ndoc: a\n": "line 3: ",
    "- a\n- b\n": "line 1: it is no definition",
    "name: A\ndoc: a\nsources: [1]\n": "line 1: ",
    "name: A\ndoc: a\nsources:\n- type: FILE\n  attributes: {paths: [1]}\n": "line 1: 1 is no text",
    "name: 7\ndoc: a\nsources:\n- type: FILE\n  attributes: {paths: [/a]}\n": "line 1: ",
    "name: !!python/object:os.system a": "line 1: ",
    "name: A\ndoc: a\nsupported_os: [Plan9]\nsources:\n- {type: FILE}\n": "line 1: ",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_definition_is_one_line_with_its_place(
    sample: Path, ext4kit: Cli, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    done = ext4kit("artifacts", sample, "--artifact-definitions", tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"ext4kit: {path}, {BAD[text]}")


def test_a_folder_without_definitions_is_an_error(tmp_path: Path) -> None:
    for folder, text in ((tmp_path, "no definitions"), (tmp_path / "none", "could not be read")):
        with pytest.raises(RequestError, match=text):
            load_catalogue([folder])


@pytest.fixture
def image_of(tmp_path: Path) -> Callable[[], Path]:
    """The image of the folder `tree`."""
    (tmp_path / "tree/etc").mkdir(parents=True)

    def give() -> Path:
        path = tmp_path / "image"
        command = [
            "mke2fs",
            "-q",
            "-F",
            "-t",
            "ext4",
            "-d",
            str(tmp_path / "tree"),
            str(path),
            "32M",
        ]
        subprocess.run(command, check=True, capture_output=True)
        return path

    return give


def test_lines_that_no_tool_writes_name_no_users(
    image_of: Callable[[], Path], tmp_path: Path
) -> None:
    lines = [
        b"a:x:1:1::/home/a:/bin/sh", b"b:x:2:2::relative/b:/bin/sh", b"c:x:3:3::/x/../../c:/bin/sh",
        b"d:x:4:4::/home/\xff(.*)$:/bin/sh", b"e:x:5:5::/home/e", b"f:x:no:6::/f:/bin/sh",
        b"g/h:x:7:7::/g:/bin/sh", b"", b"i:x:9:9::/" + b"x" * 5000 + b":/bin/sh", b"\0" * 4096,
        b"j:x:10:10::/" + b"/".join([b"d"] * 100) + b":/bin/sh", b"k:x:11:11:://srv/./k/:/bin/sh",
        b"l:x:12:12::/:/bin/sh",
    ]  # fmt: skip
    (tmp_path / "tree/etc/passwd").write_bytes(b"\n".join(lines))
    with library.open(image_of()) as opened:
        users = users_of(RootFiles(Workspace(opened.filesystem())))
    home = (b"home", b"\xff(.*)$")
    assert users.homes == ((b"home", b"a"), home, (b"srv", b"k"), ())
    assert users.names == (b"a", b"d", b"k", b"l")


def test_a_file_of_many_users_is_bounded(image_of: Callable[[], Path], tmp_path: Path) -> None:
    lines = (f"u{number}:x:{number}:1::/h/{number}:/bin/sh\n" for number in range(60_000))
    (tmp_path / "tree/etc/passwd").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "tree/h/7").mkdir(parents=True)
    (tmp_path / "tree/h/7/.bash_history").touch()
    with library.open(image_of()) as opened:
        workspace, catalogue = Workspace(opened.filesystem()), load_catalogue()
        files = artifact_files(workspace, catalogue, catalogue.linux)
        counts = count_files(catalogue.linux, files)
        found = {one.definition.name: one.live for one in counts.with_files}
        problems = [str(one) for one in workspace.fs.problems]
    assert found["BashShellHistoryFile"] == 1
    assert problems == [f"/etc/passwd: more than {MOST_USERS:,} users: the homes of the others are"
                        " left out"]  # fmt: skip


def test_loops_of_links_end_and_links_of_homes_are_followed(
    image_of: Callable[[], Path], tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "data/people/anna/dots").mkdir(parents=True)
    (tree / "data/people/anna/dots/authorized_keys").touch()
    (tree / "data/people/anna/.ssh").symlink_to("dots")
    (tree / "home").symlink_to("/data/people")
    (tree / "root").symlink_to("root")
    (tree / "var").symlink_to("../../var/..//var")
    (tree / "etc/passwd").write_text("anna:x:1000:1000::/home/anna:/bin/sh\n", encoding="utf-8")
    with library.open(image_of()) as opened:
        workspace, catalogue = Workspace(opened.filesystem()), load_catalogue()
        globs = catalogue.globs("TriageUserConfiguration") + catalogue.globs("TriageSystemLogs")
        places = Atlas(RootFiles(workspace), globs).places
        view = LiveView(workspace.fs).walk(Selection(places=places))
        assert [path for batch in view for path in batch.paths] == [
            b"/data/people/anna/dots/authorized_keys"
        ]


@pytest.mark.heavy
def test_homes_that_are_links_are_followed(image_of: Callable[[], Path], tmp_path: Path) -> None:
    """Users of a directory service are in no passwd file."""
    tree = tmp_path / "tree"
    (tree / "home").mkdir()
    (tree / "data/u1/.ssh").mkdir(parents=True)
    (tree / "data/u1/.ssh/authorized_keys").write_text("key")
    (tree / "home/u1").symlink_to("/data/u1")
    with library.open(image_of()) as opened:
        catalogue = load_catalogue()
        wanted = [catalogue.find("SSHAuthorizedKeysFiles")]
        found = list(artifact_files(Workspace(opened.filesystem()), catalogue, wanted))
    assert [one.node.path for one in found] == [b"/data/u1/.ssh/authorized_keys"]


@pytest.mark.heavy
def test_a_multitude_of_links_is_bounded(image_of: Callable[[], Path], tmp_path: Path) -> None:
    tree, lines = tmp_path / "tree", []
    (tree / "home").mkdir()
    for number in range(300):
        (tree / f"d/{number}/.ssh").mkdir(parents=True)
        (tree / f"d/{number}/.ssh/authorized_keys").touch()
        (tree / f"home/link{number}").symlink_to(f"/d/{number}")
        (tree / f"h/{number}").mkdir(parents=True)
        for name in (".ssh", ".config", ".cache", ".local"):
            (tree / f"h/{number}/{name}").symlink_to(f"/d/{number}/.ssh")
        lines.append(f"u{number}:x:{number}:1::/h/{number}:/bin/sh\n")
    (tree / "etc/passwd").write_text("".join(lines), encoding="utf-8")
    with library.open(image_of()) as opened:
        workspace, catalogue = Workspace(opened.filesystem()), load_catalogue()
        files = artifact_files(workspace, catalogue, catalogue.linux)
        counts = count_files(catalogue.linux, files)
        found = {one.definition.name: one.live for one in counts.with_files}
        problems = {str(one) for one in workspace.fs.problems}
    assert 50 <= found["SSHAuthorizedKeysFiles"] <= 300
    assert problems == {
        f"artifact definitions: only the first {MOST_FOLLOWED:,} paths through symlinks are"
        " followed",
        f"artifact definitions: only {MOST_WILD_LINKS} symlinks in place of wildcards are followed",
        f"artifact definitions: only {MOST_WILD_LINKS} symlinks in place of homes are followed",
    }


def test_definitions_are_not_loaded_without_being_asked_for(sample: Path) -> None:
    code = (
        "import sys; from ext4kit.cli.main import run\n"
        f"run(['ls', '-r', {str(sample)!r}])\n"
        "assert not {'artifacts', 'yaml', 'ext4kit.artifacts.definitions'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
