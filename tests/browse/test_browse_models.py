"""What the browser is made of, without a screen: rows, moments, filters, readers, bookmarks."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from ext4kit.browse.background import Cancelled, ReaderThread, Task
from ext4kit.browse.commands import shell_line
from ext4kit.browse.filters import FileFilter
from ext4kit.browse.slider import Moments, column_of, histogram, position_in, track
from ext4kit.browse.tree import FolderEntries, OpenFolder, TreeRoot, TreeRows, listing_of
from ext4kit.errors import OutputError, RequestError
from ext4kit.filesystem.view import Folder, Node, NodeId
from ext4kit.opening import Image, open_image
from ext4kit.output.bookmarks import append_bookmark, bookmark, read_bookmarks
from ext4kit.units import Moment
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace
from tests.conftest import Images

NAMES = [b"a", b"b", b"c"]


@pytest.fixture
def opened(unpacked: Images) -> Iterator[Image]:
    with open_image(unpacked("rm_rf_tree").image) as image:
        yield image


def _noting(order: list[str], text: str) -> Callable[[Workspace], None]:
    """Work that notes when it is done."""
    return lambda _workspace: order.append(text)


def folder(path: bytes, names: list[bytes]) -> Folder:
    """A directory of empty directories."""
    return Folder(NodeId("live", detail=path.decode()), path, fill=lambda: [
        folder(path.rstrip(b"/") + b"/" + name, []) for name in names])  # fmt: skip


@dataclass
class _Reader:
    """A reader that is let go by a test."""

    began: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def work(self, _workspace: Workspace) -> str:
        self.began.set()
        self.go_on.wait(10)
        return "done"


def test_lines_of_open_directories_are_between_their_neighbours() -> None:
    tree = TreeRows((TreeRoot("/", "/"), TreeRoot("x", "other")))
    root = tree.row(0)
    assert root is not None
    top = tree.open(root)
    assert tree.row(1) is not None
    assert tree.row(1).message == "reading ..."  # type: ignore[union-attr]
    top.node = folder(b"/", NAMES)
    top.fill(listing_of(top.node), [])
    second = tree.row(2)
    assert second is not None
    inner = tree.open(second)
    inner.fill(listing_of(folder(b"/b", NAMES)), ["error: bad"])
    labels = [tree.row(line).label for line in range(len(tree))]  # type: ignore[union-attr]
    assert labels == ["/", "a", "b", "error: bad", "a", "b", "c", "c", "other"]
    assert [tree.line(inner, row) for row in range(3)] == [4, 5, 6]
    assert tree.find("C", 7) == 7
    assert tree.find("C", 8) == 6
    assert tree.find("c", 6, is_forward=False) == 7
    tree.close(second)
    assert len(tree) == 5
    assert tree.row(5) is None


def test_a_listing_of_columns_has_the_names_and_nodes_of_the_view(opened: Image) -> None:
    workspace = Workspace(opened.filesystem())
    for name in ("live", "all"):
        view = open_view(workspace, name)
        waiting: list[Node] = [view.root]
        while waiting:
            node = waiting.pop()
            found, wanted = listing_of(node), list(node.children())
            nodes = [found.node(row) for row in range(len(found))]
            assert [each.name for each in nodes] == [each.name for each in wanted]
            assert [(each.id, each.path) for each in nodes] == [
                (each.id, each.path) for each in wanted
            ]
            assert [found.is_directory(row) for row in range(len(found))] == [
                each.kind == "directory" for each in wanted
            ]
            assert [found.find(each.name) for each in wanted] == list(range(len(wanted)))
            waiting += [each for each in wanted if each.kind == "directory"]


def test_a_name_that_is_not_there_is_not_found() -> None:
    found = listing_of(folder(b"/", NAMES))
    assert isinstance(found, FolderEntries)
    assert [found.find(name) for name in (b"", b"aa", b"z")] == [None] * 3
    assert OpenFolder().count == 0


def test_positions_and_columns_of_the_slider_agree() -> None:
    for count in (1, 2, 7, 80, 1000):
        for width in (1, 2, 80):
            columns = [column_of(position, count, width) for position in range(count)]
            assert columns == sorted(columns)
            assert columns[-1] == width - 1
            assert position_in(width - 1, count, width) in (count - 1, 0)
    assert track(0, 3, 5, is_plain=True) == "O----"
    assert track(2, 3, 5, is_plain=True) == "----O"


def test_a_histogram_shows_the_highest_full_and_any_event() -> None:
    counts = np.array([0, 1, 1000, 0])
    assert histogram(counts, 4, is_plain=False) == " ▁█ "
    assert histogram(counts, 4, is_plain=True) == " .@ "


def test_a_time_is_the_last_commit_before_it() -> None:
    moments = Moments(np.array([5, 6, 9]), np.array([10, 20, 30]))
    assert [moments.position_at(Moment(time)) for time in (5, 10, 29, 30, 99)] == [0, 0, 1, 3, 3]
    assert [moments.transaction(position) for position in range(4)] == [5, 6, 9, None]
    assert moments.position_of(6) == 1
    assert moments.position_of(7) is None


@pytest.mark.parametrize(
    "text", ["grade:best", "type:thing", "kind:things", "name:(", "since", "other:1", "x"]
)
def test_a_wrong_filter_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        FileFilter.parse(text)


def test_a_filter_says_its_options() -> None:
    found = FileFilter.parse("deleted grade:intact,partial type:file,dir since:2h")
    assert found.is_of_deleted
    assert found.options == ["--grade", "intact,partial", "--type", "file", "--type", "dir",
                             "--deleted-since", "2h"]  # fmt: skip


def test_what_is_urgent_goes_first_and_the_rest_in_order(opened: Image) -> None:
    reader, first = ReaderThread("test", opened.filesystem), _Reader()
    order: list[str] = []
    one = reader.ask(first.work, Task("long"))
    assert first.began.wait(10)
    assert reader.is_busy
    later = [reader.ask(_noting(order, f"task {number}"), Task("t")) for number in range(2)]
    urgent = reader.ask(_noting(order, "urgent"))
    first.go_on.set()
    one.result(10)
    for each in (urgent, *later):
        each.result(10)
    assert order == ["urgent", "task 0", "task 1"]
    assert reader.close()


def test_a_task_is_cancelled_at_its_next_step_or_before_it_starts(opened: Image) -> None:
    reader = ReaderThread("test", opened.filesystem)
    task, waiting = Task("long"), Task("later")
    began = threading.Event()

    def work(_workspace: Workspace) -> None:
        while True:
            began.set()
            task.progress(1, 2)

    running = reader.ask(work, task)
    assert began.wait(10)
    second = reader.ask(lambda _ws: None, waiting)
    waiting.cancel()
    task.cancel()
    for each in (running, second):
        with pytest.raises(Cancelled):
            each.result(10)
    assert task.text == "long 50 %"
    assert reader.close()
    assert reader.ask(lambda _ws: None).cancelled()


def test_bookmarks_are_appended_whole_and_read_back(opened: Image, tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    path.write_bytes(b'{"record": "other"}\nno json\n{"record": "book')  # cut off
    node = Node(NodeId("deleted", 12, 7), b"/a\xff")
    for note in ("one", "two\nlines \u2603"):
        append_bookmark(path, bookmark(node, node.path, "files", 4, note, "disk.img"), ())
    found = list(read_bookmarks(path))
    assert [each["note"] for each in found] == ["one", "two\nlines \u2603"]
    assert (found[0]["id"], found[0]["transaction"]) == ("deleted:12-7", 4)
    assert all(json.loads(line) for line in path.read_bytes().splitlines()[3:])
    assert list(read_bookmarks(tmp_path / "none")) == []
    with pytest.raises(OutputError):
        append_bookmark(tmp_path, bookmark(node, b"/", "files", None, "", ""), ())
    with pytest.raises(RequestError):
        append_bookmark(path, bookmark(node, b"/", "files", None, "", ""), (path,))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told() -> None:
    record = bookmark(Node(NodeId("live"), b"/a"), b"/a", "files", None, "", "")
    with pytest.raises(OutputError, match="not saved"):
        append_bookmark(Path("/dev/full"), record, ())


@pytest.mark.parametrize(
    "name", [b"plain", b"two words", b"it's", b"a\\b", b"\x1b[31m", b"\xff'\\", b"a\nb", b"$(x)`",
             "right\u202egpj".encode(), "\u2603".encode(), b"-o", b"*?[a]"]
)  # fmt: skip
def test_a_shell_reads_the_words_as_they_are(name: bytes) -> None:
    line = shell_line([os.fsdecode(name)])
    done = subprocess.run(["bash", "-c", f"printf %s -- {line}" if name == b"-o" else
                           f"printf %s {line}"], capture_output=True, check=True)  # fmt: skip
    assert done.stdout.removeprefix(b"--") == name
    assert line.isprintable()
    if name.isascii() and line[0] != "$":
        assert shlex.split(line) == [name.decode()]
