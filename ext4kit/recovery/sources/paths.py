"""Paths of deleted files and directories out of names that were found one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ext4kit.filesystem.filesystem import ROOT
from ext4kit.past import Past
from ext4kit.past.directories import BEFORE
from ext4kit.past.names import NameHistory
from ext4kit.past.places import Ground, Place
from ext4kit.past.removed import changed
from ext4kit.recovery.sources.names import FoundNames, directories_of, name_lives, were_before
from ext4kit.units import NANOSECONDS

FREED_BLOCK = "freed directory block"
OLD_COPY = "old copy of a directory block in the journal"
ONE_REMOVAL = 60 * NANOSECONDS  # between a file and its directory that go together


@dataclass(frozen=True, slots=True)
class FoundName:
    """The last name of a life.

    Attributes:
        name: the name itself.
        path: with all directories above, None where one of them has no name.
        below: without a path, the part of it that is known, below `inode-NUMBER-GENERATION` of
            the directory whose name is not.
        source: what it was read from.
        ground: what the path rests on; None without one.
    """

    name: bytes
    path: bytes | None
    below: bytes | None
    source: str
    ground: Ground | None = None


class FoundPaths:
    """Names for lives that the log gives none.

    A directory can have got another name since a file in it went. A path goes through what it
    was called when the file went or the copy was made, where the log goes back to that; through
    one that lives also where its ctime or that of the directory above is older, both of which
    a renaming sets (kernel fs/ext4/namei.c, `ext4_rename`); and through one that went where it
    went soon after.

    Args:
        past: the lives.
        history: the names that the log and the known directories give; they go first.
        found: entries of directory blocks found elsewhere.
    """

    def __init__(self, past: Past, history: NameHistory, found: FoundNames) -> None:
        self._past = past
        self._history = history
        life, row = name_lives(past, found)
        entries = found.take(row)
        self._row = {one: at for at, one in enumerate(life.tolist())}
        self._names = entries.name.tolist()
        self._order = entries.order.tolist()
        self._number = entries.directory.tolist()
        self._top = [
            b"inode-%d-%d" % pair if pair[1] >= 0 else b"inode-%d" % pair[0]
            for pair in zip(self._number, entries.generation.tolist(), strict=True)
        ]
        above = self._above_of(entries)
        now = past.fs.inode_table(entries.directory)
        lives = (now.links_count > 0) & (now.generation == entries.generation)
        lives[above >= 0] = past.alive_now[above[above >= 0]]
        root = (entries.directory == ROOT) & ~were_before(entries, np.ones(len(entries), bool))
        self._above, self._lives, self._root = above.tolist(), lives.tolist(), root.tolist()

    def _above_of(self, entries: FoundNames) -> Any:
        """Life of each entry's directory, -1 where it is not known or may be another one."""
        above = directories_of(self._past, entries)
        number, directory = self._past.number, entries.directory
        bearers = np.searchsorted(number, directory, side="right")
        bearers -= np.searchsorted(number, directory)
        above[(entries.generation < 0) & (bearers > 1) & (directory != ROOT)] = -1
        return above

    def __len__(self) -> int:
        return len(self._names)

    def of(self, life: int) -> FoundName | None:
        """The name of a life, None when none was found."""
        row = self._row.get(life)
        if row is None:
            return None
        source = OLD_COPY if self._order[row] >= 0 else FREED_BLOCK
        parts: list[bytes] = []
        folder, seen = None, set[int]()
        while row is not None and row not in seen:
            seen.add(row)
            parts.append(self._names[row])
            last = row
            folder = self._known_place(row, life)
            together = folder is None and self._went_together(row, life)
            life = self._above[row]
            row = self._row.get(life) if together else None
        tail = b"/".join(reversed(parts))
        if folder is not None:
            ground = folder.ground if len(parts) == 1 else Ground.PRESENT_PLACE
            return FoundName(parts[0], folder.path + b"/" + tail, None, source, ground)
        return FoundName(parts[0], None, self._top[last] + b"/" + tail, source)

    def _went_together(self, row: int, life: int) -> bool:
        """Whether the directory of an entry went soon after its bearer."""
        above = self._above[row]
        if self._lives[row] or above < 0:
            return False
        return int(self._changed[above]) - int(self._changed[life]) < ONE_REMOVAL

    @cached_property
    def _changed(self) -> Any:
        """Per life: when it changed last, ns; of a deleted one, when it went."""
        return changed(self._past)

    def _known_place(self, row: int, life: int) -> Place | None:
        """Where an entry's directory stood when its bearer went or the copy was made.

        Where it stands now, if it lives and nothing tells of that time, nor of a move since.
        """
        place, above = self._place_then(row, life), self._above[row]
        if place is None and self._lives[row]:
            folder = above if above >= 0 else -self._number[row]
            return self._history.folder_place(folder, int(self._changed[life]))
        return place

    def _place_then(self, row: int, life: int) -> Place | None:
        number, above, lives = self._number[row], self._above[row], self._lives[row]
        if self._root[row]:
            return Place(b"", Ground.PROVEN)
        if self._order[row] < 0 and lives:
            live = self._history.live
            at = int(live.rows(np.array([number]))[0])
            if at >= 0 and live.moved[at] <= self._changed[life]:
                path = live.path(number)
                return None if path is None else Place(path, Ground.PROVEN)
        if above < 0 and not lives:
            return None
        if self._order[row] >= 0:
            when = self._order[row]
        else:
            when = self._history.before(int(self._changed[life]))
            if when == BEFORE and not self._went_together(row, life):
                return None
        path = self._history.folder_path(above if above >= 0 else -number, when)
        ground = Ground.PRESENT_PLACE if when == BEFORE else Ground.JOURNAL
        return None if path is None else Place(path, ground)
