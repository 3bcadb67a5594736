"""Set operations on runs of several owners: shared blocks and subtraction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ext4kit.arrays.intervals import cut_out, overlap_pairs
from ext4kit.arrays.types import Bools, Int64s, Rows
from ext4kit.filesystem.block_maps import Runs


def owners_sharing_blocks(one: Runs, other: Runs, owners: int) -> Bools:
    """True per owner whose runs of both tables share a block."""
    edges = np.unique(
        np.concatenate(
            [part for runs in (one, other) for part in (runs.physical, runs.physical + runs.length)]
        )
    )
    keyed = []
    for runs in (one, other):
        start = np.searchsorted(edges, runs.physical)
        length = np.searchsorted(edges, runs.physical + runs.length) - start
        keyed += [runs.owner * (len(edges) + 1) + start, length]
    mine, _ = overlap_pairs(*keyed)
    found = np.zeros(owners, bool)
    found[one.owner[mine]] = True
    return found


def subtract_parts(runs: Runs, row: Rows, start: Int64s, length: Int64s) -> Runs:
    """The runs without these parts; arguments as of `cut_out`."""
    owner, first, count = cut_out(runs.physical, runs.length, row, start, length)
    left = runs.take(owner)
    return replace(left, logical=left.logical + first - left.physical, length=count, physical=first)
