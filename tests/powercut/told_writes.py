"""A random history on a recorded disk: every act with its time, every life with its end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes import machine, syscalls
from sample_images.recipes.history_acts import Acts
from sample_images.recipes.history_book import Book, Key, Life
from sample_images.recipes.history_layouts import LAYOUTS, Layout
from tests.powercut.recording_disk import recording_disk
from tests.powercut.write_log import WriteLog

NO_LOG = Layout("no_journal", ("-t", "ext4", "-b", "4096", "-N", "512", "-O", "^has_journal"))
NAMES = (
    *("default", "ext3", "no_metadata_csum", "block_1k", "data_journal", "writeback"),
    *("fast_commit", "quick_commits", "small_log", "ext3_1k", "inline_data"),
)
CUT_LAYOUTS: dict[str, Layout] = {
    **{name: LAYOUTS[name] for name in NAMES},
    NO_LOG.name: NO_LOG,
}
STEADY = "noatime,noinit_itable"
PAUSE = 0.4  # seconds, where a timer commits
MOUNTS = 2
MILD = {  # nothing is written over, resized, held open, or given another time
    *("create", "unlink", "rename", "link", "make_folder", "remove_folder", "remove_tree"),
    *("make_link", "fsync", "sync", "commit", "flush", "flush_all", "save_over", "change_mode"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """When something began and was done, ns since 1970."""

    begun: int
    done: int


@dataclass(slots=True)
class End:
    """How a life ended.

    Attributes:
        unlinked: when its last name went.
        freed: when nobody had it open any more; None as long as somebody has.
    """

    unlinked: Span
    freed: Span | None = None


class TimedActs(Acts):
    """Acts that note when each of them happened and whose life it ended.

    Attributes:
        spans: of each act, by its number; names: what it was.
        ends: of every file that has no name any more.
    """

    def __init__(self, root: Path, layout: Layout, chance: random.Random, mild: bool) -> None:
        super().__init__(root, layout, chance)
        self._weighted.append((self.flush_all, 3))
        if layout.name == "quick_commits":
            self._weighted.append((self.wait, 4))
        self._weighted = [
            (self._named(act), weight)
            for act, weight in self._weighted
            if not mild or act.__name__ in MILD
        ]
        self.spans: dict[int, Span] = {}
        self.names: dict[int, str] = {}
        self.ends: dict[Key, End] = {}

    def _named(self, act: Callable[[], None]) -> Callable[[], None]:
        def named() -> None:
            self.names[self.operation] = act.__name__
            act()

        return named

    def act(self) -> None:
        """One thing happens, and is written down with its time."""
        begun = time.time_ns()
        super().act()
        self._note(begun)

    def let_all_go(self) -> None:
        """All held files are closed."""
        self.operation += 1
        begun = time.time_ns()
        super().let_all_go()
        self._note(begun)

    def _note(self, begun: int) -> None:
        span = self.spans[self.operation] = Span(begun, time.time_ns())
        linked = {id(life) for life in self.book.tree.values()}
        open_still = {id(life) for _, life in self.held}
        for key, life in self.book.lives.items():
            if life.kind == "file" and id(life) not in linked:
                end = self.ends.setdefault(key, End(span))
                if end.freed is None and id(life) not in open_still:
                    end.freed = span

    def flush_all(self) -> None:
        """The bytes of all files go to the disk, as when the kernel's flusher wakes."""
        for path in self.book.of_kind("file"):
            handle = os.open(self.path(path), os.O_RDWR | os.O_NOFOLLOW)
            try:
                syscalls.flush(handle)
            finally:
                os.close(handle)

    def wait(self) -> None:
        """Time goes by."""
        time.sleep(PAUSE)


@dataclass(frozen=True, slots=True)
class Told:
    """A history, every write of it, and what is known of its files.

    Attributes:
        spans: when each act happened; names: what it was.
        ends: of the files that were removed.
    """

    layout: Layout
    seed: int
    log: WriteLog
    book: Book
    spans: dict[int, Span]
    names: dict[int, str]
    ends: dict[Key, End]

    def made(self, life: Life) -> Span:
        """When a life began."""
        return self.spans[life.versions[0].operation]


def tell(layout: Layout, seed: int, operations: int, folder: Path, mild: bool = False) -> Told:
    """Tell one history on a new file system in `folder`, which then has its log of writes too.

    Args:
        layout: what is made and how it is mounted.
        seed: of what happens; when the kernel writes is its own affair.
        operations: acts, in two mounts.
        folder: for the image, as it was made, and its log.
        mild: with the acts of `MILD` alone.
    """
    image, root, log = (folder / f"{layout.name}-{seed}.{end}" for end in ("img", "mnt", "log"))
    chance = random.Random(f"{layout.name} {seed}")
    machine.make_file_system(image, layout.size, layout.options)
    root.mkdir()
    acts = TimedActs(root, layout, chance, mild)
    with recording_disk(image, image.with_suffix(".disk"), log) as device:
        for _ in range(MOUNTS):
            machine.mount(device, root, _mount_options(layout))
            try:
                for _ in range(operations // MOUNTS):
                    acts.act()
            finally:
                acts.let_all_go()
                machine.unmount(root)
    root.rmdir()
    return Told(layout, seed, WriteLog(image, log), acts.book, acts.spans, acts.names, acts.ends)


def _mount_options(layout: Layout) -> str:
    own = layout.mount_options
    has_log = layout is not NO_LOG
    timer = "commit=600" if has_log and "commit=" not in own else ""
    return ",".join(filter(None, (STEADY, timer, own)))
