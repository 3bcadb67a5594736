"""The log of a recorded disk: what was durable when, and the images that a power cut can leave.

A write is durable when a flush came after it. Of the writes after the last flush any may be on the
disk and any may not, and of a long one some sectors; of two writes of one block the later stays,
when it is there. That is what the kernel asks of a disk with a write cache, and no more.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sample_images.recipes.ondisk import Disk, Map
from tests.powercut.recording_disk import FLUSH, RECORD

SECTOR = 512
KINDS = {"flush": 3, "prefix": 1, "subset": 4}  # how often each is drawn
TORN = 0.2  # of the writes of several blocks that were under way
MAGIC = bytes.fromhex("c03b3998")
COMMIT = 2
FAST_TAIL, FAST_HEAD = 8, 9  # tags of ext4's fast commits
JOURNAL = 8  # its inode
FEATURES_AT, FAST_COMMIT = 1024 + 92, 0x04  # s_feature_compat, a bit of its second byte


@dataclass(frozen=True, slots=True)
class Event:
    """One write, or a flush (offset FLUSH).

    Attributes:
        time: when it arrived, ns since 1970.
    """

    time: int
    offset: int
    data: bytes

    @property
    def is_flush(self) -> bool:
        """Whether it makes durable what came before."""
        return self.offset == FLUSH


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction, or a fast commit, whose last block was written.

    Attributes:
        tid: as it is stored.
        event: the number of the write with the commit block or the tail.
        begun: when the first of its blocks was written; time: when the last one was.
        fast: it is a fast commit.
    """

    tid: int
    event: int
    begun: int
    time: int
    fast: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """One state that a power cut can leave the disk in.

    Attributes:
        at: the number of events that the kernel had sent.
        kept: the events that are on the disk, durable ones left out.
        torn: of some of them the sectors that are.
        kind: "flush", "commit" (a flush that ends one), "prefix" or "subset".
    """

    at: int
    kept: tuple[int, ...] = ()
    torn: dict[int, tuple[int, ...]] = field(default_factory=dict)
    kind: str = "flush"


class WriteLog:
    """Everything that was written to a disk, in order.

    Attributes:
        base: the disk before the first write.
        events: writes and flushes.
        journal: the blocks of the log but for its superblock.
    """

    def __init__(self, image: Path, log: Path) -> None:
        self.base = image.read_bytes()
        self.events = list(_events(log.read_bytes()))
        self.fast_commits = bool(self.base[FEATURES_AT + 1] & FAST_COMMIT)
        with Disk(image) as disk:
            self.block_size = disk.block_size
            log_of = disk.map(disk.slot(JOURNAL)) if disk.has_journal else Map([], [])
        self.journal = frozenset(
            block + at
            for logical, block, count, _ in log_of.extents
            for at in range(count)
            if logical + at  # the first is its superblock
        )

    @property
    def begun(self) -> int:
        """When the first write or flush came."""
        return self.events[0].time

    @cached_property
    def flushes(self) -> list[int]:
        """The numbers of the flushes."""
        return [number for number, event in enumerate(self.events) if event.is_flush]

    @cached_property
    def commits(self) -> list[Commit]:
        """Every commit, in the order in which they were written."""
        found, begun = [], 0
        for number, event in enumerate(self.events):
            for block in self._journal_blocks(event):
                begun = begun or event.time
                tid, fast = _commit_in(block, self.fast_commits)
                if tid:
                    found.append(Commit(tid, number, begun, event.time, fast))
                    begun = 0
        return found

    def _journal_blocks(self, event: Event) -> Iterator[bytes]:
        """The blocks of a write that are in the log, its superblock left out."""
        if event.is_flush or event.offset % self.block_size:
            return
        first = event.offset // self.block_size
        for at in range(len(event.data) // self.block_size):
            if first + at in self.journal:
                yield event.data[at * self.block_size : (at + 1) * self.block_size]

    def durable(self, at: int) -> int:
        """How many of the first `at` events are sure to be on the disk: up to the last flush."""
        place = bisect_left(self.flushes, at)
        return self.flushes[place - 1] + 1 if place else 0

    def on_disk(self, cut: Cut) -> list[Commit]:
        """The commits that this cut leaves on the disk."""
        durable, kept = self.durable(cut.at), set(cut.kept)
        return [one for one in self.commits if one.event < durable or one.event in kept]

    def image(self, cut: Cut) -> bytes:
        """The disk as this cut leaves it."""
        disk, durable = bytearray(self.base), self.durable(cut.at)
        for number in [*range(durable), *cut.kept]:
            event = self.events[number]
            if number in cut.torn and number >= durable:
                for sector in cut.torn[number]:
                    data = event.data[sector * SECTOR : (sector + 1) * SECTOR]
                    _put(disk, event.offset + sector * SECTOR, data)
            elif not event.is_flush:
                _put(disk, event.offset, event.data)
        return bytes(disk)

    def save(self, path: Path) -> None:
        """Write the events as the recording disk does."""
        with path.open("xb") as file:
            for event in self.events:
                file.write(RECORD.pack(event.time, event.offset, len(event.data)) + event.data)

    # -- cuts -----------------------------------------------------------------------------

    def at_flush(self, flush: int) -> Cut:
        """The power goes right behind a flush."""
        return Cut(flush + 1)

    def behind(self, commit: Commit) -> Cut:
        """The power goes when a commit has just become durable."""
        place = bisect_left(self.flushes, commit.event)
        return Cut(self.flushes[place] + 1, kind="commit")

    def prefix(self, at: int) -> Cut:
        """All that was sent is on the disk."""
        return Cut(at, tuple(self._waiting(at)), kind="prefix")

    def subset(self, at: int, chance: random.Random) -> Cut:
        """Of what was sent after the last flush each write is there or not, as chance has it."""
        share = chance.choice((0.2, 0.5, 0.8))
        kept = [number for number in self._waiting(at) if chance.random() < share]
        commits = {one.event for one in self.commits}
        torn = {
            number: self._sectors(number, chance)
            for number in kept
            if number not in commits and chance.random() < TORN
            and len(self.events[number].data) > self.block_size
        }  # fmt: skip
        return Cut(at, tuple(kept), torn, "subset")

    def _waiting(self, at: int) -> Iterator[int]:
        return (n for n in range(self.durable(at), at) if not self.events[n].is_flush)

    def _sectors(self, number: int, chance: random.Random) -> tuple[int, ...]:
        sectors = range(len(self.events[number].data) // SECTOR)
        return tuple(one for one in sectors if chance.random() < 0.5)

    def cuts(
        self, chance: random.Random, count: int, kinds: Mapping[str, int] = KINDS
    ) -> list[Cut]:
        """So many cuts: at flushes, within what is between them, and with parts of it.

        Args:
            chance: draws them.
            count: how many.
            kinds: how often each kind is drawn.
        """
        found = []
        between = [n for n, event in enumerate(self.events) if not event.is_flush]
        for _ in range(count):
            kind = chance.choices(list(kinds), list(kinds.values()))[0]
            if kind == "flush":
                found.append(self.at_flush(chance.choice(self.flushes)))
            elif kind == "commit":
                found.append(self.behind(chance.choice(self.commits)))
            elif kind == "prefix":
                found.append(self.prefix(chance.choice(between) + 1))
            else:
                found.append(self.subset(chance.choice(between) + 1, chance))
        return found


def _commit_in(block: bytes, fast_commits: bool) -> tuple[int, bool]:
    """(tid, whether it is a fast commit) of a block that ends one; 0 for any other."""
    if block.startswith(MAGIC):
        kind = int.from_bytes(block[4:8], "big")
        return (int.from_bytes(block[8:12], "big") if kind == COMMIT else 0), False
    return (_fast_tail(block) if fast_commits else 0), True


def _fast_tail(block: bytes) -> int:
    """The tid in the tail of a fast commit, when the block reads as a row of its tags."""
    at = 0
    while at + 4 <= len(block):
        tag = int.from_bytes(block[at : at + 2], "little")
        length = int.from_bytes(block[at + 2 : at + 4], "little")
        if not 1 <= tag <= FAST_HEAD or at + 4 + length > len(block):
            return 0
        if tag == FAST_TAIL:
            return int.from_bytes(block[at + 4 : at + 8], "little")
        at += 4 + length
    return 0


def _events(raw: bytes) -> Iterable[Event]:
    at = 0
    while at < len(raw):
        time, offset, length = RECORD.unpack_from(raw, at)
        at += RECORD.size
        yield Event(time, offset, raw[at : at + length])
        at += length


def _put(disk: bytearray, offset: int, data: bytes) -> None:
    disk[offset : offset + len(data)] = data
