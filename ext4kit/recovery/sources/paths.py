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
from ext4kit.recovery.sources.names import FoundNames, directories_of, name_lives, were_before
from ext4kit.units import NANOSECONDS

FREED_BLOCK = "freed directory block"
OLD_COPY = "old copy of a directory block in the journal"
ONE_REMOVAL = 60 * NANOSECONDS  # between a file and its directory that go together
_FOREVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class FoundName:
    """The last name of a life.

    Attributes:
        name: the name itself.
        path: with all directories above, None where one of them has no name.
        below: without a path, the part of it that is known, below `inode-NUMBER-GENERATION` of
            the directory whose name is not.
        source: what it was read from.
    """

    name: bytes
    path: bytes | None
    below: bytes | None
    source: str


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
        self._latest = {ROOT: 0}

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
        path, seen = None, set[int]()
        while row is not None and row not in seen:
            seen.add(row)
            parts.append(self._names[row])
            last = row
            path = self._known_path(row, life)
            together = path is None and self._went_together(row, life)
            life = self._above[row]
            row = self._row.get(life) if together else None
        tail = b"/".join(reversed(parts))
        if path is not None:
            return FoundName(parts[0], path + b"/" + tail, None, source)
        return FoundName(parts[0], None, self._top[last] + b"/" + tail, source)

    def _went_together(self, row: int, life: int) -> bool:
        """Whether the directory of an entry went soon after its bearer."""
        above = self._above[row]
        if self._lives[row] or above < 0:
            return False
        return int(self._changed[above]) - int(self._changed[life]) < ONE_REMOVAL

    def _moved(self, number: int) -> int:
        """The latest time (ns) at which a live directory, or one above it, can have moved."""
        chain: list[int] = []
        while number not in self._latest and number not in chain:
            chain.append(number)
            number = self._parent.get(number, 0)
        latest = self._latest.get(number, _FOREVER)
        for one in reversed(chain):
            ctime = self._past.fs.inode_table(np.array([one, self._parent.get(one, one)])).ctime
            ctime += (NANOSECONDS - 1) * (ctime % NANOSECONDS == 0)  # of whole seconds
            latest = max(latest, int(ctime.min()))
            self._latest[one] = latest
        return latest

    @cached_property
    def _changed(self) -> Any:
        """Per life: ctime of its last known state, ns."""
        states = self._past.states
        every = np.arange(self._past.lives_count)
        return states.table.ctime[np.searchsorted(states.life, every, side="right") - 1]

    @cached_property
    def _parent(self) -> dict[int, int]:
        """Number of the directory above each live one."""
        by_path = {path: number for number, path in self._living.items()} | {b"": ROOT}
        return {
            number: by_path.get(path.rpartition(b"/")[0], 0)
            for number, path in self._living.items()
        }

    def _known_path(self, row: int, life: int) -> bytes | None:
        """Path of an entry's directory when its bearer went or the copy was made."""
        number, above, lives = self._number[row], self._above[row], self._lives[row]
        if self._root[row]:
            return b""
        if self._order[row] < 0 and lives and self._moved(number) <= self._changed[life]:
            return self._living.get(number)
        if above < 0 and not lives:
            return None
        if self._order[row] >= 0:
            when = self._order[row]
        else:
            when = self._history.before(int(self._changed[life]))
            if when == BEFORE and not self._went_together(row, life):
                return None
        return self._history.folder_path(above if above >= 0 else -number, when)

    @cached_property
    def _living(self) -> dict[int, bytes]:
        """Path of each live directory by its number."""
        tree = self._past.fs.tree()
        rows = np.flatnonzero(np.isin(tree.file_type, (0, 2)))
        return dict(zip(tree.number[rows].tolist(), tree.paths_of(rows), strict=True))
