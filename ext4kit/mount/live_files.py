"""Small live files of one directory, whose block maps are read for neighbours at once."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.live_view import LiveBatch
from ext4kit.reasons import Reason

_AT_ONCE = 64  # neighbours by name
_SMALL = 1 << 20  # bytes; a larger file is mapped alone
_KEPT = 4  # groups of neighbours


class KnownMap(NamedTuple):
    """The block map of a file, read before.

    Attributes:
        runs: its runs; None if the content has no map of its own.
        doubt: why the kernel refuses the content; None if it does not.
    """

    runs: Runs | None
    doubt: Reason | None


class LiveFiles:
    """The files of a directory.

    Args:
        batch: the entries of the directory.
    """

    def __init__(self, batch: LiveBatch) -> None:
        self._batch = batch
        self._groups: OrderedDict[int, dict[int, KnownMap]] = OrderedDict()

    def known_map(self, row: int) -> KnownMap | None:
        """The map of a small file in an entry; None for other entries."""
        if self._batch.fs.state != LIVE:
            return None
        group = row // _AT_ONCE
        if group not in self._groups:
            self._groups[group] = self._mapped(group * _AT_ONCE)
            if len(self._groups) > _KEPT:
                self._groups.popitem(last=False)
        return self._groups[group].get(row)

    def _mapped(self, first: int) -> dict[int, KnownMap]:
        """The small files among the entries from a row on."""
        fs, table = self._batch.fs, self._batch.table.take(slice(first, first + _AT_ONCE))
        rows = np.flatnonzero(table.is_regular & (table.size >= 0) & (table.size <= _SMALL))
        some = table.take(rows)
        each = zip(fs.block_maps(some), fs.content_uncertainties(some), strict=True)
        return {first + row: KnownMap(*one) for row, one in zip(rows.tolist(), each, strict=True)}
