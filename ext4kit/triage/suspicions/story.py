"""The story of a file that a rule matched: what happened to the file, in order of time.

Each step has the time in the inode itself and the commit time of the transaction that shows the
step, as far as these are known.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.history import TID_ON_DISK
from ext4kit.journal.epochs import epochs_of
from ext4kit.parsers.inode import InodeTable, parse_inodes
from ext4kit.timeline import EventKind, Timeline
from ext4kit.timeline.events import CODE, KINDS, NO_VALUE
from ext4kit.units import NANOSECONDS

STEPS = 100  # maximum steps of one story; a log file that is written all day has thousands
_COPIES_AT_ONCE = 1024
_WORDS = {
    EventKind.CREATED: "made", EventKind.DIRECTORY_MADE: "made", EventKind.LINKED: "linked",
    EventKind.RENAMED: "renamed", EventKind.MOVED: "moved", EventKind.MODE: "mode changed",
    EventKind.OWNER: "owner changed", EventKind.SIZE: "written", EventKind.CONTENT: "written",
    EventKind.TRUNCATED: "truncated", EventKind.XATTR: "attribute changed",
    EventKind.ACL: "ACL changed", EventKind.FLAGS: "flags changed", EventKind.TIMES: "times set",
    EventKind.ORPHAN_ADDED: "unlinked while open", EventKind.UNLINKED: "unlinked",
    EventKind.DELETED: "deleted", EventKind.DIRECTORY_REMOVED: "deleted",
}  # fmt: skip
_CODES = np.array(sorted(CODE[kind] for kind in _WORDS))
_WITH_MTIME = ("written", "truncated", "emptied")

Instance = tuple[int, int]  # inode number and generation


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of a story.

    Attributes:
        what: what happened, in a word or two.
        time: time in the inode (creation, deletion, or last change as of that commit), ns; None if
            unknown.
        commit: commit time of the first transaction that shows the step, ns; None if none shows it.
        transaction: stored tid, None for none.
        exact: False where the step may have happened in an earlier transaction that the journal no
            longer has.
    """

    what: str
    time: int | None
    commit: int | None = None
    transaction: int | None = None
    exact: bool = True


Story = tuple[StoryStep, ...]


def find_stories(timeline: Timeline, instances: set[Instance]) -> dict[Instance, Story]:
    """The steps of some inodes that the journal shows, oldest first, at most `STEPS` per inode."""
    events, history = timeline.events, timeline.history
    if history is None or not instances:
        return {}
    wanted = np.unique(np.array([number for number, _ in instances], np.int64))
    rows = np.flatnonzero(np.isin(events.number, wanted) & np.isin(events.kind, _CODES))
    chosen = events.take(rows)
    commits = timeline.commits.times_of(chosen.order).tolist()
    columns = (chosen.kind, chosen.number, chosen.generation, chosen.order, chosen.exact,
               chosen.old, chosen.new)  # fmt: skip
    kept: dict[Instance, list[tuple[StoryStep, int]]] = {}
    values = zip(*(column.tolist() for column in columns), strict=True)
    for row, (kind, number, generation, order, exact, old, new) in enumerate(values):
        if (number, generation) not in instances:
            continue
        story = kept.setdefault((number, generation), [])
        what = _word(KINDS[kind], old, new)
        if story and story[-1][0].what == what:
            continue
        if len(story) == STEPS:
            del story[STEPS // 2]
        commit = None if commits[row] < 0 else commits[row]
        tid = order % (1 << 32) if order < TID_ON_DISK else None
        story.append((StoryStep(what, None, commit, tid, exact), row))
    times = _inode_times(timeline, rows, [pair for story in kept.values() for pair in story])
    return {
        instance: tuple(
            StoryStep(step.what, times.get(row), step.commit, step.transaction, step.exact)
            for step, row in story
        )
        for instance, story in kept.items()
    }


def _word(kind: EventKind, old: int, new: int) -> str:
    if kind is EventKind.MODE and old != NO_VALUE and new & ~old & (stat.S_ISUID | stat.S_ISGID):
        return "setuid" if new & ~old & stat.S_ISUID else "setgid"
    if kind is EventKind.TRUNCATED and new == 0:
        return "emptied"
    return _WORDS[kind]


def _inode_times(
    timeline: Timeline, rows: Int64s, steps: list[tuple[StoryStep, int]]
) -> dict[int, int | None]:
    """Row of `rows` -> time of the step, as in the copy of its inode in the journal."""
    history, fs = timeline.history, timeline.fs
    assert history is not None
    places = np.array(sorted(row for _, row in steps), np.int64)
    chosen = timeline.events.take(rows[places])
    number = chosen.number.astype(np.int64)
    block, offset = fs.inode_location(number)
    tag = history.newest_copies(block, chosen.order)  # the event may be from another block
    is_known = (tag >= 0) & (chosen.order >= epochs_of(fs, history).first_of_layout)
    is_known &= history.log.tags.order[tag] == chosen.order
    words = {row: step.what for step, row in steps}
    found: dict[int, int | None] = {}
    known = np.flatnonzero(is_known)
    for start in range(0, len(known), _COPIES_AT_ONCE):
        part = known[start : start + _COPIES_AT_ONCE]
        tags, copy = np.unique(tag[part], return_inverse=True)
        data = history.log.read_copies(tags)
        columns = offset[part][:, None] + np.arange(fs.superblock.inode_size)
        inodes = parse_inodes(data[copy[:, None], columns], number[part], fs.superblock)
        same = (inodes.generation == chosen.generation[part]).tolist()
        for at, place in enumerate(places[part].tolist()):
            found[place] = _time_of(words[place], inodes, at) if same[at] else None
    return found


def _time_of(what: str, inodes: InodeTable, row: int) -> int | None:
    """The time in an inode that is the time of a step; None if it is not stored."""
    if what == "made":
        return int(inodes.crtime[row]) or None
    if what == "deleted":
        time = int(inodes.dtime[row]) * NANOSECONDS
        return time if time and int(inodes.links_count[row]) == 0 else None
    return int((inodes.mtime if what in _WITH_MTIME else inodes.ctime)[row]) or None


def completed(story: Story, made: int | None, ended: StoryStep | None) -> Story:
    """A story, with creation and deletion added from inodes outside the journal.

    Args:
        story: the steps that the journal shows.
        made: creation time of the file, ns; None if unknown.
        ended: deletion of the file; None for a live file.
    """
    times = {"made": made, "deleted": None if ended is None else ended.time}
    story = tuple(
        replace(step, time=times.get(step.what)) if step.time is None else step for step in story
    )
    told = {step.what for step in story}
    first = () if made is None or "made" in told else (StoryStep("made", made),)
    is_told = "deleted" in told or _WORDS[EventKind.ORPHAN_ADDED] in told
    last = () if ended is None or is_told else (ended,)
    return (*first, *story, *last)
