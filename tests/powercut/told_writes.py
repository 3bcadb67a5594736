"""A random history on a recorded disk: every act with its time, every life with its end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sample_images.recipes import machine, syscalls
from sample_images.recipes.history_acts import Acts
from sample_images.recipes.history_book import Book, Key, Life, Version
from sample_images.recipes.history_layouts import LAYOUTS, Layout
from sample_images.recipes.machine import check
from tests.powercut.recording_disk import recording_disk
from tests.powercut.write_log import Commit, Cut, WriteLog

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
MILD = {  # what is written once, and sent only when it is committed too
    *("create", "unlink", "link", "make_folder", "remove_folder", "remove_tree", "make_link"),
    *("fsync", "sync", "commit", "change_mode"),
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

    def awake(self, begun: int, open_at_cut: dict[Key, set[str]]) -> None:
        """Files that the kernel shows after a cut are not removed; those without a name went."""
        linked = {(life.number, life.generation) for life in self.book.tree.values()}
        for key in linked & set(self.ends):
            del self.ends[key]
            open_at_cut.pop(key, None)
        span = Span(begun, time.time_ns())
        for key in open_at_cut:
            self.ends[key].freed = span
        self.names[self.operation] = "awake"
        self._note(begun)

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
        before: the cut that it goes on from, None for a new file system.
        open_at_cut: what may be right of files that were open without a name at that cut.
    """

    layout: Layout
    seed: int
    log: WriteLog
    book: Book
    spans: dict[int, Span]
    names: dict[int, str]
    ends: dict[Key, End]
    before: Moment | None = None
    open_at_cut: dict[Key, set[str]] = field(default_factory=dict)

    def made(self, life: Life) -> Span:
        """When a life began."""
        return self.spans[life.versions[0].operation]


class Moment:
    """What is known to be on an image.

    Attributes:
        now: the time of the last write that can be on it.
        commits: those on it.
    """

    def __init__(self, told: Told, cut: Cut) -> None:
        self.told = told
        self.now = told.log.events[cut.at - 1].time
        self._own = told.log.on_disk(cut)
        earlier: list[Commit] = told.before.commits if told.before else []
        self.commits: list[Commit] = [*earlier, *self._own]

    def _earlier(self, act: Span) -> Moment | None:
        """The cut that decided about an act, when it was an earlier one."""
        before = self.told.before
        return before if before and act.begun < self.told.log.begun else None

    def is_in(self, act: Span) -> bool:
        """Whether what was done is sure to be on the image."""
        earlier = self._earlier(act)
        if earlier:
            return earlier.is_in(act)
        return any(act.done < commit.begun for commit in self._own)

    def is_out(self, act: Span) -> bool:
        """Whether what was done is sure not to be on it."""
        earlier = self._earlier(act)
        if earlier:
            return earlier.is_out(act)
        if not self.told.log.journal:
            return act.begun > self.now
        return all(act.begun > commit.time for commit in self._own)

    def lives(self, key: Key, life: Life) -> bool | None:
        """Whether a file has a name on the image; None where that cannot be told."""
        made, end = self.told.made(life), self.told.ends.get(key)
        if self.is_out(made):
            return False
        if end is None or self.is_out(end.unlinked):
            return True if self.is_in(made) else None
        return False if self.is_in(end.unlinked) else None

    def exact(self, key: Key, life: Life) -> set[str]:
        """The digests that are exact for a file that is removed here."""
        end = self.told.ends.get(key)
        if key in self.told.open_at_cut:
            return self.told.open_at_cut[key]
        if end is not None and end.freed is not None and not self.is_out(end.freed):
            return {life.versions[-1].sha256}
        since = max((commit.begun for commit in self.commits), default=0)
        later = {v.sha256 for v in life.versions if since <= v.time <= self.now}
        return later | {v.sha256 for v in _at(life, since)}

    def previous(self, key: Key, life: Life) -> set[str]:
        """The digests of what it held at the last commit before its removal."""
        end = self.told.ends.get(key)
        if end is None:
            return set()
        removed = end.freed or end.unlinked
        before = [commit for commit in self.commits if commit.time < removed.begun]
        return {v.sha256 for v in _held(life, before[-1])} if before else set()


def _at(life: Life, time: int) -> list[Version]:
    """What a life held at a time, in a list; an empty one before it began."""
    return [version for version in life.versions if version.time < time][-1:]


def _held(life: Life, commit: Commit) -> list[Version]:
    return [*_at(life, commit.begun), *_at(life, commit.time)]


def tell(layout: Layout, seed: int, operations: int, folder: Path, mild: bool = False) -> Told:
    """Tell one history on a new file system in `folder`, which then has its log of writes too.

    Args:
        layout: what is made and how it is mounted.
        seed: of what happens; when the kernel writes is its own affair.
        operations: acts, in two mounts.
        folder: for the image, as it was made, and its log.
        mild: with the acts of `MILD` alone.
    """
    image = folder / f"{layout.name}-{seed}.img"
    machine.make_file_system(image, layout.size, layout.options)
    acts = TimedActs(
        image.with_suffix(".mnt"), layout, random.Random(f"{layout.name} {seed}"), mild
    )
    log = _recorded(image, acts, operations, lambda: None)
    return Told(layout, seed, log, acts.book, acts.spans, acts.names, acts.ends)


def go_on(told: Told, cut: Cut, operations: int, folder: Path, mild: bool = False) -> Told:
    """The same file system after a cut: replayed by the kernel and used again.

    What the cut took away leaves the history, so that nothing can be judged there any more.

    Raises:
        machine.MachineError: the kernel does not mount it.
    """
    image, before = folder / f"{told.layout.name}-{told.seed}-on.img", Moment(told, cut)
    image.write_bytes(told.log.image(cut))
    if not told.log.journal:
        check(image)
    chance = random.Random(f"{told.layout.name} {told.seed} on")
    acts = TimedActs(image.with_suffix(".mnt"), told.layout, chance, mild)
    acts.book, acts.operation = told.book, max(told.spans)
    acts.spans, acts.names, acts.ends = told.spans, told.names, told.ends
    open_at_cut = dict(told.open_at_cut)
    log = _recorded(image, acts, operations, lambda: _wake(acts, before, open_at_cut))
    parts = acts.book, acts.spans, acts.names, acts.ends, before, open_at_cut
    return Told(told.layout, told.seed, log, *parts)


def _recorded(image: Path, acts: TimedActs, operations: int, first: Callable[[], None]) -> WriteLog:
    """Let acts happen in some mounts of a recorded disk, and something before them."""
    log = image.with_suffix(".log")
    acts.root.mkdir()
    try:
        with recording_disk(image, image.with_suffix(".disk"), log) as device:
            for number in range(MOUNTS):
                machine.mount(device, acts.root, _mount_options(acts.layout))
                try:
                    if not number:
                        first()
                    for _ in range(operations // MOUNTS):
                        acts.act()
                finally:
                    acts.let_all_go()
                    machine.unmount(acts.root)
    finally:
        acts.root.rmdir()
    return WriteLog(image, log)


def _wake(acts: TimedActs, before: Moment, open_at_cut: dict[Key, set[str]]) -> None:
    """Take the tree as the kernel shows it after a cut, and forget what never came to pass."""
    acts.operation += 1
    begun, lives = time.time_ns(), acts.book.lives
    for key, life in lives.items():
        if life.kind == "file" and key not in open_at_cut:
            end = acts.ends.get(key)
            if end is not None and (end.freed is None or before.is_out(end.freed)):
                open_at_cut[key] = before.exact(key, life)
            life.versions[1:] = [one for one in life.versions[1:] if one.time <= before.now]
    acts.look_again()
    acts.awake(begun, open_at_cut)


def _mount_options(layout: Layout) -> str:
    own = layout.mount_options
    has_log = layout is not NO_LOG
    timer = "commit=600" if has_log and "commit=" not in own else ""
    return ",".join(filter(None, (STEADY, timer, own)))
