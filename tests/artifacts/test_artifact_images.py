"""The files of definitions in images, held against counts by hand and against Python's glob."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.artifacts.definitions import load_catalogue
from ext4kit.artifacts.finding import artifact_files, count_files
from ext4kit.artifacts.places import Atlas
from ext4kit.artifacts.root_files import RootFiles
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import FileState
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.selection import Selection
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import make_file_system, mounted, sync
from tests.artifacts import second
from tests.artifacts.trees import DEBIAN, TREES, Tree, write
from tests.conftest import Cli

SIZE = 64 << 20


@pytest.fixture(scope="module")
def image_of(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The image of a tree, made once."""
    made: dict[str, Path] = {}

    def give(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "image"
            _make(TREES[name], made[name])
        return made[name]

    return give


def _make(tree: Tree, image: Path) -> None:
    make_file_system(image, SIZE, ("-t", "ext4", "-J", "size=8"))
    with mounted(image, "defaults") as root:
        tree.make(root)
        sync(root)
        tree.change(root)
        sync(root)


@contextmanager
def opened(image: Path) -> Iterator[Workspace]:
    with library.open(image) as found:
        yield Workspace(found.filesystem())


@pytest.mark.kernel
@pytest.mark.parametrize("name", TREES)
def test_counts_are_those_that_the_definitions_give_by_hand(
    image_of: Callable[[str], Path], name: str
) -> None:
    catalogue = load_catalogue()
    with opened(image_of(name)) as workspace:
        files = artifact_files(workspace, catalogue, catalogue.linux)
        counts = count_files(catalogue.linux, files)
    found = {one.definition.name: (one.live, one.deleted, one.earlier) for one in counts.with_files}
    assert found == TREES[name].counts


@pytest.mark.kernel
@pytest.mark.parametrize("name", TREES)
def test_live_files_of_all_definitions_are_those_that_glob_finds(
    image_of: Callable[[str], Path], name: str
) -> None:
    image = image_of(name)
    with mounted(image, "ro") as root:
        expected = second.live_files(root, TREES[name].homes)
    _compare(image, expected)
    assert sum(map(bool, expected.values())) >= 20


@pytest.mark.kernel
@pytest.mark.heavy
def test_files_and_decoys_for_each_path_of_all_definitions(
    needs_kernel: None, tmp_path: Path
) -> None:
    image, chance = tmp_path / "image", random.Random(7)
    make_file_system(image, 2 * SIZE, ("-t", "ext4", "-N", "40000"))
    with mounted(image, "defaults") as root:
        (root / "usr/lib").mkdir(parents=True)
        (root / "lib").symlink_to("usr/lib")
        (root / "data/run").mkdir(parents=True)
        (root / "run").symlink_to("data/run")
        (root / "var").mkdir()
        (root / "var/run").symlink_to("../run")
        write(root / "etc/passwd", "eve:x:1000:1000::/srv/eve:/bin/sh\n")
        for _, path in sorted({each for some in second.definitions().values() for each in some}):
            for one in second.examples(path, chance):
                _touch(root / one.lstrip("/"))
        sync(root)
        expected = second.live_files(root, ())
    _compare(image, expected)
    empty = {name for name, some in expected.items() if not some}
    assert len(expected) - len(empty) >= 230, sorted(empty)
    assert sum(map(len, expected.values())) > 3500


def _touch(path: Path) -> None:
    """Make a file, unless a file has the place of one of its directories."""
    with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _compare(image: Path, expected: dict[str, set[str]]) -> None:
    """Both ways to find the live files of each definition give what is expected."""
    catalogue = load_catalogue()
    assert expected.keys() == {one.name for one in catalogue.linux}
    counted: dict[str, set[str]] = {name: set() for name in expected}
    selected: dict[str, set[str]] = {name: set() for name in expected}
    with opened(image) as workspace:
        held = workspace.deleted(versions=True, sources=JOURNAL_ONLY)  # for all users of the image
        for file in artifact_files(workspace, catalogue, catalogue.linux):
            for row in file.definitions if file.node.file_state is FileState.LIVE else ():
                counted[catalogue.linux[row].name].add(os.fsdecode(file.node.path))
        for one in catalogue.linux:
            globs = [glob for each in catalogue.members(one) for glob in each.globs]
            places = Atlas(RootFiles(workspace), globs).places
            batches = LiveView(workspace.fs).walk(Selection(places=places))
            selected[one.name].update(os.fsdecode(path) for some in batches for path in some.paths)
        assert held is workspace.deleted(versions=True, sources=JOURNAL_ONLY)
    assert {name: some for name, some in counted.items() if some} == {
        name: some for name, some in expected.items() if some
    }
    assert selected == counted


@pytest.mark.kernel
def test_the_history_of_a_removed_user_comes_back(
    image_of: Callable[[str], Path], ext4kit: Cli, tmp_path: Path
) -> None:
    image, out = image_of("debian"), tmp_path / "out"
    options = ("--artifact", "BashShellHistoryFile", "-o", out)
    done = ext4kit("recover", image, *options)
    assert done.returncode == 0, done.stderr
    written = {path.relative_to(out) for path in (out / "files").rglob("*") if path.is_file()}
    assert written == {Path("files/srv/people/bob/.bash_history")}
    text = (out / "files/srv/people/bob/.bash_history").read_text(encoding="utf-8")
    assert text.startswith("srv/people/bob/.bash_history\n")


@pytest.mark.kernel
def test_every_command_selects_by_artifact(
    image_of: Callable[[str], Path], ext4kit: Cli, tmp_path: Path
) -> None:
    image = image_of("debian")

    def paths(*words: str | Path) -> set[str]:
        done = ext4kit(*words, "--json")
        assert done.returncode == 0, done.stderr
        records = map(json.loads, done.stdout.splitlines())
        return {one["path"] for one in records if one["record"] not in ("summary", "burst")}

    history, keys = ("--artifact", "BashShellHistoryFile"), ("--artifact", "SSHAuthorizedKeysFiles")
    live = {"/root/.bash_history", "/home/alice/.bash_history"}
    bob = "/srv/people/bob/.bash_history"
    key = "/srv/people/bob/.ssh/authorized_keys"
    assert paths("ls", image, "-r", *history) == live
    assert paths("ls", image, "-r", "/home", *history) == {"/home/alice/.bash_history"}
    assert paths("ls", image, "-r", "--view", "deleted", *history) == {bob}
    assert paths("deleted", image, *history) == {bob}
    assert paths("deleted", image, *history, *keys) == {bob, key}
    assert paths("deleted", image, "/srv", *history) == {bob}
    assert paths("deleted", image, "/var", *history) == set()
    assert paths("deleted", image, "--versions", *history) == {bob, "/home/alice/.bash_history"}
    assert paths("timeline", image, "--kind", "deleted", *history) == {bob}
    hits = paths("search", image, "--text", "line 7", "--in", "live,deleted", *history)
    assert hits == {"/root/.bash_history", bob}
    done = ext4kit("extract", image, *history, "-o", tmp_path / "live")
    assert done.returncode == 0, done.stderr
    files = {path for path in (tmp_path / "live/files").rglob("*") if path.is_file()}
    assert {f"/{path.relative_to(tmp_path / 'live/files')}" for path in files} == live
    done = ext4kit("export", image, "--jsonl", "-", *history)
    assert done.returncode == 0, done.stderr
    exported = {json.loads(line)["path"] for line in done.stdout.splitlines()}
    assert exported == {*live, bob}
    logs = ext4kit("logs", image, "--artifact", "LinuxAuthLogs", "--json")
    assert logs.returncode == 0, logs.stderr


@pytest.mark.kernel
def test_the_command_counts_and_lists_what_it_says(
    image_of: Callable[[str], Path], ext4kit: Cli
) -> None:
    image = image_of("debian")
    done = ext4kit("artifacts", image, "--json")
    *records, summary = map(json.loads, done.stdout.splitlines())
    found = {one["name"]: (one["live"], one["deleted"], one["earlier"]) for one in records}
    assert (done.returncode, found) == (0, DEBIAN.counts)
    assert summary["with_files"] == len(DEBIAN.counts)
    done = ext4kit("artifacts", image, "viminfo", "IPTablesRules", "--files", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    files = [one for one in records if one["record"] == "artifact file"]
    assert [(one["path"], one["state"], one["grade"]) for one in files] == [
        ("/srv/people/bob/.viminfo", "deleted", "consistent")
    ]
    assert [one["left_out"] for one in records if one["record"] == "artifact"] == [0, 1]
    shown = ext4kit("artifacts", image, "Viminfo").stdout
    command = f"ext4kit recover {image} --artifact Viminfo -o OUT"
    assert f"`{command}`" in shown
    shown = ext4kit("artifacts", image, "UnixHostsFile").stdout
    assert f"`ext4kit recover {image} --artifact UnixHostsFile --versions -o OUT`" in shown
    shown = ext4kit("artifacts", image, "LinuxWtmp").stdout
    assert f"`ext4kit extract {image} --artifact LinuxWtmp -o OUT`" in shown
