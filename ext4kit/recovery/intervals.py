"""Subtraction of parts from runs of several owners."""

from __future__ import annotations

from dataclasses import replace

from ext4kit.arrays.intervals import cut_out
from ext4kit.arrays.types import Int64s, Rows
from ext4kit.filesystem.block_maps import Runs


def subtract_parts(runs: Runs, row: Rows, start: Int64s, length: Int64s) -> Runs:
    """The runs without some parts; the arguments are those of `cut_out`."""
    owner, first, count = cut_out(runs.physical, runs.length, row, start, length)
    left = runs.take(owner)
    return replace(left, logical=left.logical + first - left.physical, length=count, physical=first)
