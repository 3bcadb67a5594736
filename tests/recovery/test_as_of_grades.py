"""`extract --as-of` has the grades of `recover`: no foreign byte is in what it calls whole."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sample_images.recipes.machine import make_file_system, mounted, sync, truncate
from sample_images.recipes.score import read_records
from sample_images.recipes.syscalls import Fallocate, fallocate, write_directly, write_mapped
from tests.conftest import Cli
from tests.program import run_program

pytestmark = pytest.mark.kernel
MIB, BLOCK = 1 << 20, 4096
FOREIGN = b"<bytes of another file, written later>"
WHOLE = ("intact", "consistent")
LAYOUTS = {
    "default": (("-t", "ext4", "-J", "size=4"), ""),
    "block_1k": (("-t", "ext4", "-b", "1024", "-J", "size=4"), ""),
    "ext3": (("-t", "ext3", "-J", "size=4"), ""),
    "no_checksums": (("-t", "ext4", "-O", "^metadata_csum", "-J", "size=4"), ""),
    "journaled": (("-t", "ext4", "-J", "size=24"), "data=journal"),
    "inline_data": (("-t", "ext4", "-O", "inline_data", "-J", "size=4"), ""),
    "bigalloc": (("-t", "ext4", "-O", "bigalloc", "-C", "16384", "-J", "size=4"), ""),
    "fast_commit": (("-t", "ext4", "-O", "fast_commit", "-J", "size=4"), ""),
}


@dataclass(slots=True)
class Case:
    """An image, the tree that it held at a moment, and what was extracted of this moment.

    Attributes:
        image: as the kernel left it.
        then: path -> content at the moment.
        moment: as `--as-of` takes it.
    """

    image: Path
    then: dict[str, bytes]
    moment: str
    records: dict[str, dict[str, Any]]
    out: Path
    told: str = ""
    errors: str = ""
    exit_code: int = -1

    def grade(self, path: str) -> str:
        """The grade of a file."""
        return str(self.records[path]["grade"])

    def codes(self, path: str) -> set[str]:
        """The codes of the reasons of a file."""
        return {reason["code"] for reason in self.records[path]["reasons"]}

    def written(self, path: str) -> bytes | None:
        """The extracted bytes of a file, None where there are none."""
        place = self.records[path]["output"]
        return None if place is None else (self.out / place).read_bytes()

    def wrong(self) -> list[str]:
        """What was said or written and is not true."""
        found = []
        for path, true in self.then.items():
            grade, data = self.grade(path), self.written(path)
            if grade in WHOLE and data != true:
                found.append(f"{path} is called {grade}")
            if (data is None) != (grade == "overwritten"):
                found.append(f"{path}: {grade}, and written: {data is not None}")
            if data is not None and FOREIGN in data:
                found.append(f"{path}: {grade} and has bytes of another file")
        counts = Counter(self.grade(path) for path in self.then)
        every = ", ".join(f"{counts[one]:,} {one}" for one in (*WHOLE, "partial", "overwritten")
                          if counts[one])  # fmt: skip
        if self.then and every not in self.told.splitlines():
            found.append(f"{self.told} is not {every}")
        if self.exit_code != any(self.grade(path) not in WHOLE for path in self.then):
            found.append(f"exit code {self.exit_code}")
        return found


class Story:
    """A file system on which something happens before and after a moment."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.folder, self.random = folder, Random(1)
        self.image, options = folder / "image", LAYOUTS[layout]
        make_file_system(self.image, 64 * MIB, options[0])
        self.mount_options = options[1] or "defaults"
        self.then: dict[str, bytes] = {}
        self.moment = ""

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """A mount that is written out at its end."""
        with mounted(self.image, self.mount_options) as root:
            yield root
            sync(root)

    def remember(self, root: Path) -> None:
        """Let all changes be of the past, and take a copy of `/tree`."""
        for name in ("before", "after"):
            sync(root)
            (root / name).write_bytes(b"a transaction of its own")
            sync(root)
            time.sleep(0.02)
        self.moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
        self.then = {
            f"/{path.relative_to(root)}": path.read_bytes()
            for path in sorted((root / "tree").rglob("*"))
            if path.is_file() and not path.is_symlink()
        }
        time.sleep(0.02)

    def fill(self, root: Path, count: int, size: int = 200_000) -> None:
        """Later files: their bytes are not those of any file of the tree."""
        for number in range(count):
            (root / f"later-{number}").write_bytes(FOREIGN * (size // len(FOREIGN)))
        sync(root)

    def extracted(self, ext4kit: Cli) -> Case:
        """What `extract --as-of` makes of the tree."""
        out = self.folder / "out"
        done = ext4kit("extract", self.image, "/tree", "--as-of", self.moment, "-o", out)
        records = {one["path"]: one for one in read_records(out)}
        return Case(self.image, self.then, self.moment, records, out, done.stdout, done.stderr,
                    done.returncode)  # fmt: skip


def grow_tree(story: Story, root: Path, count: int) -> Path:
    """A tree of files of many lengths, with a link, a hole, an empty file and a small one."""
    tree = root / "tree"
    for number in range(count):
        place = tree / f"folder-{number // 20}" / f"file-{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(story.random.randbytes(story.random.choice((3000, 20_000, 70_000))))
    (tree / "empty").write_bytes(b"")
    (tree / "small").write_bytes(b"short")
    (tree / "symlink").symlink_to("folder-0/file-0")
    (tree / "second-name").hardlink_to(tree / "folder-0" / "file-1")
    with (tree / "sparse").open("wb") as stream:
        stream.truncate(20 * BLOCK)
        stream.seek(7 * BLOCK)
        stream.write(story.random.randbytes(3 * BLOCK))
    return tree


@pytest.mark.heavy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_removed_tree_has_the_grades_of_its_recovery(
    layout: str, ext4kit: Cli, tmp_path: Path
) -> None:
    story = Story(tmp_path, layout)
    with story.mounted() as root:
        tree = grow_tree(story, root, 240)
        story.remember(root)
        shutil.rmtree(tree)
        sync(root)
        story.fill(root, 12)
    case = story.extracted(ext4kit)
    assert case.wrong() == []
    grades = Counter(case.grade(path) for path in case.then)
    print(f"\n{layout}: {dict(grades)}")
    assert sum(grades[one] for one in WHOLE) > 60
    assert grades["overwritten"] > 3 or layout == "journaled"
    assert case.grade("/tree/empty") == "intact"
    assert all(case.codes(path) for path in case.then if case.grade(path) != "intact")
    deleted = ext4kit("deleted", case.image, "--sources", "journal", "--json").stdout
    recovered = {
        one["path"]: one["grade"] for one in map(json.loads, deleted.splitlines()) if "path" in one
    }
    if layout == "journaled":  # the copies of the log are better evidence than blocks
        return
    same = [path for path in case.then if recovered.get(path) == case.grade(path)]
    assert len(same) > len(case.then) * 0.9
    assert not [path for path in case.then if case.grade(path) in WHOLE
                and recovered.get(path, case.grade(path)) not in WHOLE]  # fmt: skip


def test_a_tree_of_which_nothing_was_reused_is_whole(ext4kit: Cli, tmp_path: Path) -> None:
    story = Story(tmp_path, "default")
    with story.mounted() as root:
        tree = grow_tree(story, root, 60)
        (tree / "sparse").unlink()  # `recover` doubts a last block without bytes
        story.remember(root)
        shutil.rmtree(tree)
    case = story.extracted(ext4kit)
    assert case.wrong() == []
    assert case.exit_code == 0, case.errors
    assert case.errors.count("error") == 0


Act = Callable[[Path], None]


def _write_in_place(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(BLOCK)
        stream.write(b"new" * 1000)


def _rewrite(path: Path) -> None:
    truncate(path, 0)
    path.write_bytes(b"rewritten" * 9000)


def _punch(path: Path) -> None:
    with path.open("r+b") as stream:
        fallocate(stream.fileno(), Fallocate.PUNCH_HOLE | Fallocate.KEEP_SIZE, BLOCK, 8 * BLOCK)


def _zero(path: Path) -> None:
    with path.open("r+b") as stream:
        fallocate(stream.fileno(), Fallocate.ZERO_RANGE, 0, 8 * BLOCK)


def _collapse(path: Path) -> None:
    with path.open("r+b") as stream:
        fallocate(stream.fileno(), Fallocate.COLLAPSE_RANGE, BLOCK * 4, 4 * BLOCK)


def _append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"appended" * 5000)


def _write_directly_and_set_times(path: Path) -> None:
    before = path.stat()
    handle = os.open(path, os.O_RDWR | os.O_DIRECT)
    write_directly(handle, 2 * BLOCK, b"d" * BLOCK)
    os.close(handle)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _write_mapped_and_set_times(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as stream:
        write_mapped(stream.fileno(), BLOCK + 7, b"m" * 5000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"in its place" * 4000)
    other.replace(path)


def _truncate_and_grow(path: Path) -> None:
    truncate(path, 5000)
    sync(path.parent)
    truncate(path, 30 * BLOCK)


def _write_then_remove(path: Path) -> None:
    _write_in_place(path)
    sync(path.parent)
    path.unlink()


def _set_mode(path: Path) -> None:
    path.chmod(0o600)


ACTS: dict[str, Act] = {
    "nothing": lambda path: None,
    "removed": Path.unlink,
    "mode": _set_mode,
    "moved": lambda path: None if path.rename(path.with_suffix(".moved")) else None,
    "in-place": _write_in_place,
    "rewritten": _rewrite,
    "punched": _punch,
    "zeroed": _zero,
    "collapsed": _collapse,
    "appended": _append,
    "directly": _write_directly_and_set_times,
    "mapped": _write_mapped_and_set_times,
    "replaced": _replace,
    "cut": lambda path: truncate(path, 2 * BLOCK + 9),
    "regrown": _truncate_and_grow,
    "written-and-removed": _write_then_remove,
}


@pytest.mark.parametrize(
    ("layout", "is_filled"),
    [
        ("default", False),
        ("default", True),
        ("block_1k", False),
        ("block_1k", True),
        ("no_checksums", True),
        ("fast_commit", True),
        ("journaled", False),
    ],
)
def test_files_that_changed_later_are_not_taken_for_what_they_were(
    layout: str, is_filled: bool, ext4kit: Cli, tmp_path: Path
) -> None:
    """Each act on files of one extent and of many; then later files take what became free."""
    story = Story(tmp_path, layout)
    with story.mounted() as root:
        tree = root / "tree"
        tree.mkdir()
        for name in ACTS:
            (tree / name).write_bytes(story.random.randbytes(20 * BLOCK + 100))
            with (tree / f"{name}-pieces").open("wb") as stream:
                for piece in range(12):
                    stream.seek(2 * piece * BLOCK)
                    stream.write(story.random.randbytes(BLOCK))
        story.remember(root)
        for name, act in ACTS.items():
            for path in (tree / name, tree / f"{name}-pieces"):
                act(path)
            sync(root)
        if is_filled:
            fill_up(root)
    case = story.extracted(ext4kit)
    assert case.wrong() == []
    print(f"\n{layout}: { {path: case.grade(path) for path in case.then} }")
    assert case.grade("/tree/nothing") == case.grade("/tree/nothing-pieces") == "intact"
    for name in ("in-place", "zeroed", "directly", "mapped", "collapsed"):
        assert case.grade(f"/tree/{name}") not in WHOLE or layout == "journaled"
    assert case.exit_code == (layout != "journaled")
    assert is_filled or case.grade("/tree/replaced") in WHOLE
    doubted = {path for path in case.then if case.grade(path) not in WHOLE}
    told = {line.split(": ")[2] for line in case.errors.splitlines() if ": error: /" in line}
    assert told <= doubted
    assert bool(told) == bool(doubted)


def fill_up(root: Path) -> None:
    """Write until nothing is free, and remove a part again."""
    number = 0
    try:
        while True:
            (root / f"filling-{number}").write_bytes(FOREIGN * 26_000)
            number += 1
    except OSError:
        sync(root)
    for one in range(0, number, 2):
        (root / f"filling-{one}").unlink()
    sync(root)


@pytest.mark.parametrize("layout", ["default", "ext3"])
def test_blocks_of_files_that_came_and_went_are_not_the_earlier_ones(
    layout: str, ext4kit: Cli, tmp_path: Path
) -> None:
    """All that is free was used by files that are deleted by the end; they were committed."""
    story = Story(tmp_path, layout)
    with story.mounted() as root:
        tree = grow_tree(story, root, 120)
        story.remember(root)
        shutil.rmtree(tree)
        sync(root)
        fill_up(root)
        for path in root.glob("filling-*"):
            path.unlink()
    case = story.extracted(ext4kit)
    assert case.wrong() == []
    grades = Counter(case.grade(path) for path in case.then)
    assert grades["overwritten"] > 100


def test_bytes_that_leave_no_record_are_never_called_intact(ext4kit: Cli, tmp_path: Path) -> None:
    """Files that come and go within one transaction: no state of the log maps their blocks."""
    story = Story(tmp_path, "default")
    with story.mounted() as root:
        tree = grow_tree(story, root, 60)
        for number in range(10):  # without a slack
            (tree / f"full-{number}").write_bytes(story.random.randbytes(4 * BLOCK))
        story.remember(root)
        shutil.rmtree(tree)
        sync(root)
        for number in range(40):
            path = root / f"passing-{number}"
            handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
            write_directly(handle, 0, (FOREIGN * 30_000)[: 256 * BLOCK])
            os.close(handle)
            path.unlink()
    case = story.extracted(ext4kit)
    touched = [path for path in case.then if FOREIGN in (case.written(path) or b"")]
    assert touched
    assert not [path for path in touched if case.grade(path) == "intact"]
    whole = {path for path in touched if case.grade(path) in WHOLE}
    assert all("unlogged-reuse" in case.codes(path) for path in whole)
    assert len(whole) < len(touched)  # most show in the last block


def test_a_journal_that_came_round_refuses_the_moment(ext4kit: Cli, tmp_path: Path) -> None:
    story = Story(tmp_path, "block_1k")
    with story.mounted() as root:
        tree = grow_tree(story, root, 30)
        story.remember(root)
        shutil.rmtree(tree)
        for number in range(1200):
            (root / f"round-{number % 50}").write_bytes(FOREIGN)
            sync(root)
    done = ext4kit("extract", story.image, "/tree", "--as-of", story.moment, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "which is later" in done.stderr


def test_cat_writes_what_is_there_and_refuses_what_is_not(ext4kit: Cli, tmp_path: Path) -> None:
    story = Story(tmp_path, "default")
    with story.mounted() as root:
        tree = grow_tree(story, root, 240)
        story.remember(root)
        shutil.rmtree(tree)
        sync(root)
        story.fill(root, 12)
    case = story.extracted(ext4kit)
    seen = set()
    for path in case.then:
        grade = case.grade(path)
        if grade in seen:
            continue
        seen.add(grade)
        done = run_program("cat", case.image, path, "--as-of", case.moment)
        assert done.stdout == (case.written(path) or b"")
        assert done.returncode == (grade not in WHOLE)
        for reason in case.records[path]["reasons"]:
            assert reason["text"].encode() in done.stderr
        viewed = run_program("cat", case.image, f"/{case.moment}{path}", "--view", "as-of")
        assert (viewed.stdout, viewed.returncode) == (done.stdout, done.returncode)
    assert seen >= {"intact", "consistent", "overwritten"}
