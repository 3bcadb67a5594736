"""What a session's operations should give as events, and how a timeline compares with that.

Everything expected comes from the operations and from the trees that the kernel showed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

import ext4kit
from ext4kit.timeline import Event, EventKind, Timeline, build_timeline
from tests.session import Node, Operation, Session, Step, Tree

TICK = 10_000_000  # ns; the kernel dates commits by a clock this coarse at worst


@dataclass(frozen=True, slots=True)
class Expected:
    """One event that has to be there.

    Attributes:
        inode: what it is about.
        paths: any of them is right: an inode can have several names.
        uid: its owner after it, as the kernel showed it.
        old_path: of a renaming.
    """

    kind: EventKind
    inode: int
    paths: frozenset[bytes]
    uid: int
    old_path: bytes | None = None

    def fits(self, event: Event) -> bool:
        """Whether an event is this one."""
        told = (event.kind, event.inode, event.uid, event.old_path)
        wanted = (self.kind, self.inode, self.uid, self.old_path)
        return told == wanted and event.path in self.paths


def _one(kind: EventKind, node: Node, path: bytes, old_path: bytes | None = None) -> Expected:
    return Expected(kind, node.inode, frozenset([path]), node.uid, old_path)


def _changed(operation: Operation, before: Node, after: Node) -> EventKind | None:
    """What an operation on an existing inode changed, as the kernel shows it."""
    if operation.kind in ("setxattr", "removexattr"):
        return EventKind.XATTR if before.xattrs != after.xattrs else None
    if operation.kind == "utimes":
        return EventKind.TIMES
    if before.size != after.size:
        return EventKind.SIZE if after.size > before.size else EventKind.TRUNCATED
    if (before.uid, before.gid) != (after.uid, after.gid):
        return EventKind.OWNER
    if before.mode != after.mode:
        return EventKind.MODE
    if before.mtime != after.mtime:
        return EventKind.CONTENT
    return EventKind.STATUS if before.ctime != after.ctime else None


def expected_events(operation: Operation, before: Tree, after: Tree) -> list[Expected]:
    """The events of one operation, in any order."""
    path, other, inode = operation.path, operation.other, operation.inode
    if operation.kind in ("create", "symlink"):
        return [_one(EventKind.CREATED, after[path], path)]
    if operation.kind == "mkdir":
        return [_one(EventKind.DIRECTORY_MADE, after[path], path)]
    if operation.kind == "rmdir":
        return [_one(EventKind.DIRECTORY_REMOVED, before[path], path)]
    if operation.kind == "unlink":
        return [_one(_loss(before[path]), before[path], path)]
    if operation.kind == "link":
        return [_one(EventKind.LINKED, after[other], other)]
    if operation.kind == "rename":
        same = path.rpartition(b"/")[0] == other.rpartition(b"/")[0]
        kind = EventKind.RENAMED if same else EventKind.MOVED
        events = [_one(kind, after[other], other, path)]
        if operation.replaced:
            events.append(_one(_loss(before[other]), before[other], other))
        return events
    changed = _changed(operation, before[path], after[path])
    names = frozenset(name for name, node in after.items() if node.inode == inode)
    return [Expected(changed, inode, names, after[path].uid)] if changed else []


def _loss(node: Node) -> EventKind:
    return EventKind.UNLINKED if node.links > 1 else EventKind.DELETED


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a timeline compares with a session.

    Attributes:
        operations: how many the log still holds, and so were looked at.
        missed: what should be there and is not.
        vague: what can be known of it is there: see `_is_vague`.
        invented: what is there and should not be.
    """

    operations: int
    missed: list[str]
    vague: list[str]
    invented: list[str]


def judge(session: Session) -> Verdict:
    """Read a session's image and compare."""
    with ext4kit.open(session.image) as image:
        timeline = build_timeline(image.volume().filesystem())
        return compare(session, timeline)


def compare(session: Session, timeline: Timeline) -> Verdict:
    """Compare event by event, transaction by transaction."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event in timeline:
        if event.kind is not EventKind.HINT and event.transaction is not None:
            found[event.transaction].append(event)
    clock = timeline.commits
    first = int(clock.complete_since(clock.tids[-1:])[0])
    verdict = Verdict(0, [], [], [])
    looked_at = 0
    dated = int(clock.times_of(np.array([first]))[0]) + 2 * TICK
    for before, step in pairwise(session.steps):
        if before.transaction < first or step.operation.started < dated:
            continue  # the log has come round over it, or over what was there just before
        looked_at += 1
        happened = [
            event
            for transaction in range(before.transaction + 1, step.transaction + 1)
            for event in found[transaction]
        ]
        label = f"{step.transaction}: {step.operation}"
        for wanted in _wanted(before, step):
            fitting = [event for event in happened if wanted.fits(event)]
            bare = [event for event in happened if _is_vague(wanted, event, clock.is_complete)]
            if fitting or bare:
                happened.remove((fitting or bare)[0])
            if not fitting:
                (verdict.vague if bare else verdict.missed).append(f"{label}: {wanted}")
        verdict.invented.extend(f"{label}: {event}" for event in happened)
    return replace(verdict, operations=looked_at)


def _is_vague(wanted: Expected, event: Event, whole: bool) -> bool:
    """Whether an event is all that can be known of what is wanted.

    The log has come round over the copies that show how it was before: a name that went is not
    known then, or that the inode changed is all that is left.
    """
    renamed = {wanted.kind, event.kind} <= {EventKind.RENAMED, EventKind.MOVED}
    nameless = (event.kind is wanted.kind or renamed) and event.old_path is None
    nameless &= event.path in wanted.paths | {None}
    return (
        not whole and event.inode == wanted.inode and (event.kind is EventKind.STATUS or nameless)
    )


def _wanted(before: Step, step: Step) -> list[Expected]:
    if step.transaction == before.transaction:
        return []  # nothing had to be committed
    return expected_events(step.operation, before.tree, step.tree)
