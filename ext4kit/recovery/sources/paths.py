"""Paths of deleted files and directories out of names that were found one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.filesystem.filesystem import ROOT
from ext4kit.past import Past
from ext4kit.past.names import NameHistory
from ext4kit.past.states import NOW
from ext4kit.recovery.sources.names import FoundNames, life_of, name_lives

FREED_BLOCK = "freed directory block"
OLD_COPY = "old copy of a directory block in the journal"


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
        self._logged = (entries.order >= 0).tolist()
        self._number = entries.directory.tolist()
        self._top = [
            b"inode-%d-%d" % pair if pair[1] >= 0 else b"inode-%d" % pair[0]
            for pair in zip(self._number, entries.generation.tolist(), strict=True)
        ]
        self._above = life_of(past, entries.directory, entries.generation).tolist()
        now = past.fs.inode_table(entries.directory)
        lives = (now.links_count > 0) & (now.generation == entries.generation)
        self._lives = lives.tolist()

    def __len__(self) -> int:
        return len(self._names)

    def of(self, life: int) -> FoundName | None:
        """The name of a life, None when none was found."""
        row = self._row.get(life)
        if row is None:
            return None
        source = OLD_COPY if self._logged[row] else FREED_BLOCK
        parts: list[bytes] = []
        path, seen = None, set[int]()
        while row is not None and row not in seen:
            seen.add(row)
            parts.append(self._names[row])
            last = row
            path = self._known_path(row)
            row = None if path is not None else self._row.get(self._above[row])
        tail = b"/".join(reversed(parts))
        if path is not None:
            return FoundName(parts[0], path + b"/" + tail, None, source)
        return FoundName(parts[0], None, self._top[last] + b"/" + tail, source)

    def _known_path(self, row: int) -> bytes | None:
        """Path of an entry's directory when that lives, or when the history names it."""
        life = self._above[row]
        if self._lives[row]:
            return b"" if self._number[row] == ROOT else self._living.get(self._number[row])
        at = -1 if life < 0 else self._history.last_name(life)
        return None if at < 0 else self._history.path(at, int(NOW))

    @cached_property
    def _living(self) -> dict[int, bytes]:
        """Path of each live directory by its number."""
        tree = self._past.fs.tree()
        rows = np.flatnonzero(np.isin(tree.file_type, (0, 2)))
        return dict(zip(tree.number[rows].tolist(), tree.paths_of(rows), strict=True))
