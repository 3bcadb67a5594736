"""Every view shows what the command of its kind finds, under stable identities."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.live_view import LiveNode, LiveView
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.recovery import find_deleted, is_written
from ext4kit.recovery.file_versions import find_versions
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.selection import Selection
from ext4kit.views import VIEW_NAMES
from ext4kit.views.deleted import _place
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace
from sample_images import intrusion
from tests.conftest import Cli, Images
from tests.program import run_program

SAMPLES = ("rm_rf_tree", "power_cut", "ext3", "removed_on_5_10", "orphan_file")


@pytest.fixture(params=SAMPLES)
def workspace(request: pytest.FixtureRequest, unpacked: Images) -> Iterator[Workspace]:
    """The only file system of a sample."""
    with library.open(unpacked(request.param).image) as image:
        yield Workspace(image.filesystem())


def _walked(view: View) -> list[Node]:
    return [node for some in view.walk() for node in some.nodes]


def _below(node: Node) -> Iterator[Node]:
    """What `children` gives, all the way down."""
    for each in node.children():
        yield each
        if each.kind == "directory":
            yield from _below(each)


def _digest(node: Node) -> str | None:
    content = node.content()
    return None if content is None else hashlib.sha256(content.open().read()).hexdigest()


def test_the_live_view_is_the_walk_of_the_file_system(workspace: Workspace) -> None:
    entries = {entry.path: entry for entry in workspace.fs.walk("/")}
    nodes = _walked(open_view(workspace, "live"))
    assert [node.path for node in nodes] == list(entries)[1:]
    assert sorted(node.path for node in _below(open_view(workspace, "live").root)) == sorted(
        path for path in entries if path != b"/"
    )
    assert all(node.inode == entries[node.path].inode for node in nodes)


def test_the_deleted_view_has_what_recover_would_write(workspace: Workspace) -> None:
    found = find_deleted(workspace.fs)
    nodes = [node for node in _walked(open_view(workspace, "deleted")) if node.grade]
    expected, shown = Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()
    for file in found:
        content = file.content() if is_written(file) else None
        digest = content and hashlib.sha256(content.open().read()).hexdigest()
        expected[file.number, file.generation, file.first_block, file.grade, digest] += 1
    for node in nodes:
        file = node.file  # type: ignore[attr-defined]
        shown[file.number, file.generation, file.first_block, node.grade, _digest(node)] += 1
    carved = {key for key in expected if key[2] is not None}
    assert carved <= set(shown)
    assert {key for key in expected if key not in carved} <= set(shown)
    known = {file.path for file in found if file.path and file.first_block is None}
    assert known <= {node.path for node in nodes}


def test_the_deleted_view_has_the_truth(unpacked: Images) -> None:
    built = unpacked("rm_rf_tree")
    truth = json.loads(built.truth.read_text())
    with library.open(built.image) as image:
        view = open_view(Workspace(image.filesystem()), "deleted")
        for one in truth["files"]:
            if one["state"] == "deleted" and one.get("sha256"):
                exact = base64.b64decode(one.get("path_bytes", "")) or one["path"].encode()
                node = view.lookup(b"/" + exact)
                assert _digest(node) == one["sha256"], one["path"]


def test_live_and_deleted_files_stand_side_by_side(workspace: Workspace) -> None:
    every = {node.path for node in _walked(open_view(workspace, "all"))}
    live = {node.path for node in _walked(open_view(workspace, "live"))}
    deleted = {node.path for node in _walked(open_view(workspace, "deleted"))}
    assert live <= every
    assert {path for path in deleted if path not in live} <= every
    view = open_view(workspace, "all")
    for node in _walked(open_view(workspace, "deleted")):
        if node.path not in live or node.kind == "directory":
            continue
        assert view.lookup(node.path + b"~2").grade == node.grade


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["live", "deleted", "all", "unattached", "unallocated"])
def test_each_node_is_found_by_its_path_with_the_same_identity(
    workspace: Workspace, name: str
) -> None:
    nodes = _walked(open_view(workspace, name))
    again = open_view(Workspace(workspace.fs), name)
    assert [str(again.lookup(node.path).id) for node in nodes] == [str(one.id) for one in nodes]
    names = Counter(str(node.id) for node in nodes if node.id.state != "live")
    assert not [one for one, count in names.items() if count > 1 and ":carved" not in one]
    numbers = {node.id.number for node in nodes}
    assert len(numbers) == len({node.id for node in nodes if node.id.state != "live"}) + len(
        {node.id.inode for node in nodes if node.id.state == "live"}
    )


def test_versions_are_those_that_the_command_lists(workspace: Workspace) -> None:
    view = open_view(workspace, "versions")
    files = [node for node in _walked(open_view(workspace, "live")) if node.kind == "file"][:4]
    for file in files:
        found = find_versions(workspace.fs, file.path, ALL_SOURCES - {SearchSource.RUNS})
        nodes = list(view.lookup(file.path).children())
        assert [node.name for node in nodes] == [b"%d" % one.number for one in found]
        assert [node.inode for node in nodes] == [one.inode for one in found]


def test_earlier_times_are_what_as_of_gives(workspace: Workspace) -> None:
    view = open_view(workspace, "as-of")
    listed = list(view.root.children())
    for moment in listed[-3:]:
        name = moment.path.decode()
        tree = {node.path[len(moment.path) :] for node in _below(view.lookup(moment.path))}
        node = view.lookup(moment.path)
        assert isinstance(node, LiveNode)
        assert tree == {entry.path for entry in node.fs.walk("/")} - {b"/"}, name
        by_number = view.lookup(f"/tid-{node.fs.as_of}")
        assert by_number.id == node.id
    with pytest.raises(RequestError, match="no such file"):
        view.lookup("/1999-01-01T00:00/etc")
    with pytest.raises(RequestError, match="no such file"):
        view.lookup("/not a time")


def test_times_are_listed_from_the_first_whose_root_can_be_read(tmp_path: Path) -> None:
    image = intrusion.unpack(tmp_path)
    done = run_program("journal", "list", image, "--json").stdout.splitlines()
    records = [one for one in map(json.loads, done) if one["record"] == "transaction"]
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        readable = []
        for record in records:
            fs = workspace.as_of(record["transaction"]).fs
            with suppress(Ext4kitError):
                assert fs.entries(ROOT)
                readable.append(record["commit_time_iso"])
        assert 0 < len(readable) < len(records)
        listed = open_view(workspace, "as-of").root.children()
        assert [node.name.decode() for node in listed] == readable


def test_unallocated_runs_are_blocks_that_the_bitmap_frees(unpacked: Images) -> None:
    built = unpacked("rm_rf_tree")
    done = subprocess.run(["dumpe2fs", built.image], capture_output=True, text=True, check=True)
    free: set[int] = set()
    for line in done.stdout.splitlines():
        if line.strip().startswith("Free blocks:") and "-" in line + "-" and line[0] == " ":
            for part in line.partition(":")[2].split(","):
                first, _, last = part.strip().partition("-")
                if first:
                    free.update(range(int(first), int(last or first) + 1))
    raw = Path(built.image).read_bytes()
    with library.open(built.image) as image:
        fs = image.filesystem()
        size = fs.superblock.block_size
        shown: set[int] = set()
        for node in _walked(open_view(Workspace(fs), "unallocated")):
            start, end = map(int, node.name.decode().removeprefix("block-").split("-"))
            shown.update(range(start, end + 1))
            content = node.content()
            assert content is not None
            assert content.open().read() == raw[start * size : (end + 1) * size]
    assert shown <= free
    assert all(not any(raw[block * size : (block + 1) * size]) for block in free - shown)


def test_a_batch_has_the_runs_of_its_files(workspace: Workspace) -> None:
    for name in ("live", "deleted"):
        for batch in open_view(workspace, name).walk():
            runs = batch.runs()
            for row, node in enumerate(batch.nodes):
                content = node.content() if node.kind == "file" else None
                if content is None or content.runs is None:
                    continue
                own = runs.take(runs.owner == row)
                assert own.physical.tolist() == content.runs.physical.tolist()
                assert own.length.tolist() == content.runs.length.tolist()


def test_a_selection_holds_in_every_view(workspace: Workspace) -> None:
    wanted = Selection(types=frozenset({"file"}), owners=(0,))
    for name in ("live", "deleted", "all"):
        view = open_view(workspace, name)
        chosen = [node for some in view.walk(wanted) for node in some.nodes]
        every = _walked(view)
        expected = [node for node in every if node.kind == "file" and node.uid == 0]
        assert [node.path for node in chosen] == [node.path for node in expected]


def test_files_and_folders_of_one_path_are_all_there() -> None:
    index: dict[bytes, dict[bytes, int | None]] = {b"": {}}
    paths = [(b"/a", False), (b"/a/b", False), (b"/a", True), (b"/a", True), (b"/a~2", False),
             (b"/c/d/e", False), (b"/c", True), (b"//", False), (b"/", False)]  # fmt: skip
    _place(index, [(row, path, is_folder) for row, (path, is_folder) in enumerate(paths)])
    rows = sorted(row for names in index.values() for row in names.values() if row is not None)
    assert rows == list(range(len(paths)))
    assert index[b""][b"a"] == 2, "the directory has the path of its files"
    assert all(folder.rpartition(b"/")[2] in index[folder.rpartition(b"/")[0]]
               for folder in index if folder)  # fmt: skip


def test_a_folder_within_itself_is_not_entered_twice() -> None:
    root = Folder(NodeId("x"), b"/", fill=lambda: [again])
    again = Folder(NodeId("x"), b"/again", fill=lambda: [again])
    assert [node.path for node in _walked(View(root))] == [b"/again"]


def test_a_directory_that_contains_itself_ends(unpacked: Images) -> None:
    with library.open(unpacked("rm_rf_tree").image) as image:
        fs = image.filesystem()
        view = View(LiveView(fs).root)  # not by columns
        assert len(_walked(view)) == len(list(fs.walk("/"))) - 1
        assert isinstance(fs, FileSystem)
        assert LiveNode.of(fs, b"", ROOT, None).path == b"/"


def test_a_view_that_is_not_there_is_named(workspace: Workspace) -> None:
    with pytest.raises(RequestError, match="there are: live, deleted"):
        open_view(workspace, "tomorrow")


@pytest.mark.heavy
@pytest.mark.parametrize("view", VIEW_NAMES)
def test_the_commands_read_each_view(unpacked: Images, ext4kit: Cli, view: str) -> None:
    words = unpacked("rm_rf_tree").image, "--view", view
    listed = ext4kit("ls", *words, "-r")
    assert listed.returncode == 0, listed.stderr
    lines = ext4kit("ls", *words, "-r", "--json").stdout.splitlines()
    assert len(lines) == len(listed.stdout.splitlines())
    files = [one for one in map(json.loads, lines) if one["type"] == "file" and one["size"]]
    for one in files[:3]:
        stat = ext4kit("stat", words[0], one["path"], *words[1:])
        assert stat.returncode == 0
        assert str(one["size"]) in stat.stdout


def test_cat_writes_a_deleted_file(unpacked: Images, tmp_path: Path, ext4kit: Cli) -> None:
    built = unpacked("rm_rf_tree")
    ext4kit("recover", built.image, "-o", tmp_path / "out")
    lines = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    chosen = [one for one in map(json.loads, lines) if one["sha256"] and one["path"]][:5]
    for one in chosen:
        done = run_program("cat", built.image, one["path"], "--view", "deleted")
        assert done.returncode == 0
        assert hashlib.sha256(done.stdout).hexdigest() == one["sha256"]
