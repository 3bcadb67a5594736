"""Systems of dpkg: what differs is what `dpkg --verify` reports, and what it does not look at."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.packages.findings import packaged_unchanged
from ext4kit.workspace import Workspace
from tests.packages.making import (
    PROGRAMS,
    call,
    copy_tree,
    deb,
    findings_in,
    image_of,
    install_debs,
    kinds,
    statuses,
)

LINE = re.compile(r"(?:..[5?]......|missing  ) ([ c]) (/.*)")
INFO = "var/lib/dpkg/info"


def verified(root: Path) -> set[tuple[str, str]]:
    """(kind, path) of what `dpkg --verify` reports; configuration files apart."""
    done = subprocess.run(
        ["dpkg", f"--root={root}", "--verify"], capture_output=True, text=True, check=False
    )
    found = set()
    for line in done.stdout.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        kind = "missing" if line.startswith("missing") else "changed"
        found.add(("configured" if match[1] == "c" else kind, match[2]))
    return found


def overwritten(path: Path, data: bytes) -> None:
    """Write over the start of a file in place, and set its times back."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_clean_system_has_no_difference(dpkg_root: Path, tmp_path: Path) -> None:
    with findings_in(image_of(dpkg_root, tmp_path / "image")) as found:
        assert found.is_clean and kinds(found) == verified(dpkg_root) == set()
        states = statuses(found)
    assert {states[f"/usr/bin/{name}"] for name in PROGRAMS} == {"unchanged"}
    assert states["/usr/lib/tiny/hard"] == states["/etc/tiny.conf"] == "unchanged"
    assert states["/usr/bin/link"] == states["/usr/bin"] == "present"


def test_what_dpkg_reports_is_found(dpkg_copy: Path, tmp_path: Path) -> None:
    bin_ = dpkg_copy / "usr/bin"
    overwritten(bin_ / "a", b"PROGRAM")
    (bin_ / "b").unlink()
    (bin_ / "c").write_text("another size of the program\n")
    (bin_ / "g").write_text("program G\n")  # and its hard link
    (dpkg_copy / "etc/tiny.conf").write_text("changed\n")
    expected = verified(dpkg_copy)
    assert len(expected) == 6
    with findings_in(image_of(dpkg_copy, tmp_path / "image")) as found:
        assert kinds(found) == expected
        assert found.check.status_of(b"/usr/bin/d") == "unchanged"
        assert found.check.is_packaged_unchanged(b"/usr/bin/d")
        assert not found.check.is_packaged_unchanged(b"/usr/bin/a")
        assert found.check.owner_of(b"/usr/bin/a") == "tiny 1.0-1"
        assert found.check.owner_of(b"/usr/bin/nothing") is None


def test_some_paths_alone(dpkg_copy: Path, tmp_path: Path) -> None:
    (dpkg_copy / "usr/bin/a").write_text("x")
    (dpkg_copy / "usr/bin/c").chmod(0o4755)
    (dpkg_copy / "bin").symlink_to("usr/bin")
    image = image_of(dpkg_copy, tmp_path / "image")
    paths = [b"/usr/bin/a", b"/bin/b", b"/usr/bin/c", b"/usr/bin/none", b"/etc/tiny.conf"]
    with library.open(image) as opened:
        found = packaged_unchanged(Workspace(opened.filesystem()), paths)
    assert found == {b"/bin/b", b"/etc/tiny.conf"}


def test_what_dpkg_does_not_look_at(dpkg_copy: Path, tmp_path: Path) -> None:
    bin_ = dpkg_copy / "usr/bin"
    content = (bin_ / "a").read_bytes()
    (bin_ / "a").unlink()
    (dpkg_copy / "tmp").mkdir()
    (dpkg_copy / "tmp/a").write_bytes(content)  # the right content, but by a link
    (bin_ / "a").symlink_to("/tmp/a")
    (bin_ / "b").unlink()
    (bin_ / "b").mkdir()
    (bin_ / "c").chmod(0o4755)
    (bin_ / "evil").write_text("x")
    os.mkfifo(bin_ / "fifo")
    (bin_ / "out").symlink_to("/tmp/a")
    (bin_ / "inside").symlink_to("d")
    with findings_in(image_of(dpkg_copy, tmp_path / "image")) as found:
        assert kinds(found) == {
            ("replaced", "/usr/bin/a"), ("replaced", "/usr/bin/b"), ("mode", "/usr/bin/c"),
            ("foreign", "/usr/bin/evil"), ("foreign", "/usr/bin/fifo"), ("foreign", "/usr/bin/out"),
        }  # fmt: skip
        assert not found.check.is_packaged_unchanged(b"/usr/bin/c")


def test_diversions_overrides_and_names(dpkg_root: Path, tmp_path: Path) -> None:
    root = copy_tree(dpkg_root, tmp_path / "root")
    tree = tmp_path / "tree"
    (tree / "usr/share/names").mkdir(parents=True)
    for raw in (b"b\xe4\xff", b"back\\slash", b"two  blanks"):
        Path(os.fsdecode(os.fsencode(tree / "usr/share/names") + b"/" + raw)).write_bytes(raw)
    command = ["dpkg-divert", f"--root={root}", "--local", "--rename"]
    subprocess.run([*command, "--divert", "/usr/bin/a.real", "/usr/bin/a"],
                   check=True, capture_output=True)  # fmt: skip
    (root / "etc/passwd").write_text("root:x:0:0:::\nman:x:6:12:::\n")
    (root / "etc/group").write_text("root:x:0:\nman:x:12:\n")
    for mode, name in (("4711", "b"), ("0700", "c")):
        subprocess.run(["dpkg-statoverride", f"--root={root}", "--update", "--add", "root", "root",
                        mode, f"/usr/bin/{name}"], check=True, capture_output=True)  # fmt: skip
    install_debs(root, deb(tmp_path, "names", tree))
    (root / "usr/bin/c").chmod(0o755)
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == {("mode", "/usr/bin/c")}
        assert found.check.status_of(b"/usr/bin/a.real") == "unchanged"
        assert found.check.status_of(b"/usr/share/names/b\xe4\xff") == "unchanged"
    Path(os.fsdecode(os.fsencode(root) + b"/usr/share/names/b\xe4\xff")).write_text("x")
    (root / "usr/bin/a.real").write_text("x")
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert {path for kind, path in kinds(found) if kind == "changed"} == {
            "/usr/bin/a.real", os.fsdecode(b"/usr/share/names/b\xe4\xff"),
        }  # fmt: skip


def test_paths_lead_through_links_of_directories(dpkg_root: Path, tmp_path: Path) -> None:
    root = copy_tree(dpkg_root, tmp_path / "root")
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/old").write_text("as before the merge of /usr\n")
    (root / "bin").symlink_to("usr/bin")
    install_debs(root, deb(tmp_path, "old", tree))
    assert (root / "usr/bin/old").exists()
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == set()
        for path in (b"/bin/old", b"/usr/bin/old", b"/bin/a"):
            assert found.check.status_of(path) == "unchanged"
    (root / "usr/bin/old").write_text("changed")
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == {("changed", "/usr/bin/old")}


def test_a_root_inside_a_root(dpkg_copy: Path, tmp_path: Path) -> None:
    (dpkg_copy / "usr/bin/a").write_text("x")
    (tmp_path / "outer/srv").mkdir(parents=True)
    (dpkg_copy).rename(tmp_path / "outer/srv/jail")
    image = image_of(tmp_path / "outer", tmp_path / "image")
    with findings_in(image, b"/srv/jail") as found:
        assert kinds(found) == {("changed", "/usr/bin/a")}
    with findings_in(image) as found:
        assert not found.database.packages


def test_configuration_tells_dpkg_what_not_to_install(dpkg_root: Path, tmp_path: Path) -> None:
    root = copy_tree(dpkg_root, tmp_path / "root")
    (root / "etc/dpkg/dpkg.cfg.d").mkdir(parents=True)
    rules = "path-exclude=/usr/bin/[ab]\npath-exclude /x\npath-include=/usr/bin/a\n"
    (root / "etc/dpkg/dpkg.cfg.d/rules").write_text(rules)
    for name in "abc":
        (root / "usr/bin" / name).unlink()
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == {("missing", "/usr/bin/a"), ("missing", "/usr/bin/c")}


def test_a_mount_point_without_its_file_system(dpkg_copy: Path, tmp_path: Path) -> None:
    (dpkg_copy / "etc/fstab").write_text("# x\nUUID=1 / ext4\nUUID=2 /usr/lib/tiny ext4 ro\n")
    for name in ("empty", "hard"):
        (dpkg_copy / "usr/lib/tiny" / name).unlink()
    with findings_in(image_of(dpkg_copy, tmp_path / "image")) as found:
        assert kinds(found) == set()
        assert found.check.status_of(b"/usr/lib/tiny/hard") == "elsewhere"


def test_distroless_records(dpkg_copy: Path, tmp_path: Path) -> None:
    folder = dpkg_copy / "var/lib/dpkg"
    (folder / "status.d").mkdir()
    text = (folder / "status").read_text()
    (folder / "status.d/tiny").write_text(text)
    (folder / INFO.rpartition("/")[2] / "tiny.md5sums").rename(folder / "status.d/tiny.md5sums")
    (folder / "status").unlink()
    (dpkg_copy / "usr/bin/a").write_text("x")
    with findings_in(image_of(dpkg_copy, tmp_path / "image")) as found:
        assert ("changed", "/usr/bin/a") in kinds(found)
        assert found.check.status_of(b"/usr/bin/b") == "unchanged"


# ------------------------------------------------------------------------------ doubtful lists


def doubts(image: Path) -> set[tuple[str, str]]:
    with findings_in(image) as found:
        return {(os.fsdecode(one.path), one.found) for one in found.each if one.kind == "list"}


def set_ctime(image: Path, path: str, seconds: int) -> None:
    """Set the time of the last change of an inode, which the kernel gives nobody."""
    subprocess.run(["debugfs", "-w", "-R", f"set_inode_field {path} ctime @{seconds}", str(image)],
                   check=True, capture_output=True)  # fmt: skip


@pytest.fixture(scope="module")
def several(dpkg_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of a system with several packages, whose records all changed at one time."""
    folder = tmp_path_factory.mktemp("several")
    root = copy_tree(dpkg_root, folder / "root")
    made = []
    for number in range(6):
        tree = folder / f"tree{number}"
        (tree / "usr/share/p").mkdir(parents=True)
        (tree / f"usr/share/p/{number}").write_text("x")
        made.append(deb(folder, f"p{number}", tree))
    install_debs(root, *made)
    image = image_of(root, folder / "image")
    assert doubts(image) == set()
    return image


@pytest.fixture
def many(several: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    call("cp", "--sparse=always", several, tmp_path / "image")
    return tmp_path / "image"


@pytest.mark.parametrize(
    ("names", "shift", "expected"),
    [
        (("p1.md5sums",), 3600, "changed later than the other files of the package's record"),
        (("p1.md5sums", "p1.list"), 3600, "changed after dpkg last wrote its status"),
        (("p1.list",), -3600, "changed later than the other files of the package's record"),
        (("p1.md5sums",), 30, ""),
        ((), 0, ""),
    ],
)
def test_times_of_lists(many: Path, names: tuple[str, ...], shift: int, expected: str) -> None:
    for name in names:
        set_ctime(many, f"/{INFO}/{name}", int(time.time()) + shift)
    found = doubts(many)
    assert {text for _, text in found} == ({expected} if expected else set())
    if expected and shift > 0:
        assert {path for path, _ in found} == {f"/{INFO}/{name}" for name in names}


def test_a_time_at_which_the_log_has_no_run(many: Path, tmp_path: Path) -> None:
    now = int(time.time())
    start, run = now - 30 * 86_400, now + 3 * 86_400
    lines = [
        time.strftime("%Y-%m-%d %H:%M:%S status installed x:all 1\n", time.gmtime(each))
        for each in (start, now, run)
    ]
    log = tmp_path / "log"
    log.write_text("".join(lines))
    commands = f"mkdir /var/log\nwrite {log} /var/log/dpkg.log\n"
    subprocess.run(["debugfs", "-w", "-f", "-", str(many)], input=commands.encode(), check=True,
                   capture_output=True)  # fmt: skip
    set_ctime(many, "/var/lib/dpkg/status", run)
    assert doubts(many) == set()
    for name in ("list", "md5sums"):
        set_ctime(many, f"/{INFO}/p1.{name}", now + 86_400)
    assert {text for _, text in doubts(many)} == {"changed at a time at which dpkg.log has no run"}


def test_deleted_lists(dpkg_copy: Path, tmp_path: Path) -> None:
    (dpkg_copy / INFO / "tiny.md5sums").unlink()
    image = image_of(dpkg_copy, tmp_path / "image")
    reason = "a package with files has no digests"
    assert doubts(image) == {(f"/{INFO}/tiny.md5sums", reason)}
    (dpkg_copy / INFO / "tiny.list").unlink()
    image = image_of(dpkg_copy, tmp_path / "image")
    reason = "an installed package has no list of files"
    assert (f"/{INFO}/tiny.list", reason) in doubts(image)


@pytest.mark.parametrize("compression", ["gzip", "xz", "none"])
def test_archives_in_the_cache_of_apt(dpkg_root: Path, tmp_path: Path, compression: str) -> None:
    root = copy_tree(dpkg_root, tmp_path / "root")
    tree = tmp_path / "tree"
    subprocess.run(["dpkg-deb", "-R", dpkg_root.parent / "tiny_1.0-1_all.deb", tree], check=True)
    cache = root / "var/cache/apt/archives"
    cache.mkdir(parents=True)
    target = cache / "tiny_1.0-1_all.deb"
    subprocess.run(["dpkg-deb", f"-Z{compression}", "-b", tree, target],
                   check=True, capture_output=True)  # fmt: skip
    assert doubts(image_of(root, tmp_path / "image")) == set()
    (root / "usr/bin/a").write_text("evil")
    md5 = subprocess.run(["md5sum", "usr/bin/a"], cwd=root, capture_output=True, text=True,
                         check=True).stdout  # fmt: skip
    sums = root / INFO / "tiny.md5sums"
    lines = [md5.strip() if line.endswith("usr/bin/a") else line
             for line in sums.read_text().splitlines()]  # fmt: skip
    sums.write_text("\n".join(lines) + "\n")
    image = image_of(root, tmp_path / "image")
    with findings_in(image) as found:
        assert found.check.status_of(b"/usr/bin/a") == "unchanged"  # the list says so
    assert {path for path, text in doubts(image) if "archive" in text} == {"/usr/bin/a"}
