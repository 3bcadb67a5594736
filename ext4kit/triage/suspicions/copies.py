"""Sightings of files that are copies of another file of the same rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

from ext4kit.errors import AccessError, CorruptError, path_text
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.inode import Inode
from ext4kit.triage.rules.traits import SMALL
from ext4kit.triage.suspicions.sighting import Sighting

_NAMED = 10  # copies whose paths are told


def find_copies(
    fs: FileSystem, sightings: Collection[Sighting]
) -> Iterator[tuple[Sighting, list[Sighting]]]:
    """(the first made, the others) of live files with the same content and time of last change.

    `cp -a`, `rsync` and restoring a backup leave such files; two files that were written apart
    differ in the nanoseconds of that time.
    """
    alike: dict[tuple[int, int], list[tuple[Sighting, Inode]]] = {}
    for seen in sightings:
        if (inode := _live_inode(fs, seen)) is not None:
            alike.setdefault((inode.mtime, inode.size), []).append((seen, inode))
    for some in alike.values():
        groups: dict[bytes, list[Sighting]] = {}
        for seen, inode in some if len(some) > 1 else ():
            with suppress(AccessError, CorruptError):
                content = fs.content(inode)
                groups.setdefault(content.read(0, content.size), []).append(seen)
        for group in groups.values():
            first, *others = sorted(group, key=lambda one: (one.made or 0, one.path or b""))
            if others:
                yield first, others


def copies_note(copies: Collection[Sighting]) -> str:
    """The paths of the copies of a file, as text."""
    paths = sorted(path_text(one.path or b"") for one in copies)
    more = f" and {len(paths) - _NAMED} more" * (len(paths) > _NAMED)
    return f"same content and time: {', '.join(paths[:_NAMED])}{more}"


def _live_inode(fs: FileSystem, seen: Sighting) -> Inode | None:
    """The inode of a file that is live, not empty, and small; None for others."""
    if not seen.inode or seen.path is None or "deleted" in seen.seen:
        return None
    try:
        inode: Inode = fs.inode(seen.inode)
    except (AccessError, CorruptError):
        return None
    is_there = inode.links_count > 0 and inode.generation == seen.generation
    is_small = inode.kind == "file" and 0 < inode.size <= SMALL
    return inode if is_there and is_small else None
