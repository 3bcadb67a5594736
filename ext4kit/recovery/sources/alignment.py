"""Files in the order in which they were made, laid over contents in the order of the disk.

A hidden Markov model: a step is the next file, a state is where the last ones lie (`laying`).
Files of which the blocks are known hold it in place, and names that fit their contents tell the
right one of several ways from one that is shifted. The answer is how likely each pair is, all
ways to lay the files together counted: where two are as good, neither comes near to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ext4kit.recovery.sources.laying import (
    NOTHING,
    Arcs,
    Ground,
    Habits,
    Laying,
    Pools,
    Steps,
    Way,
)

_SMALLEST = 1e-10  # of the likeliest state; less likely ones are given up
_MOST = 1000  # states
_SECTION = 800  # steps at a time, so that memory stays bounded
_AHEAD = 60  # steps behind a section that are looked at for it
_LEARNT_FROM = 800  # steps, at most, from which the habits of a disk are learnt
_ROUNDS = 2
_BEFORE = 60  # files that the habits of other disks count for
_LEAST = 1e-3  # pairs that are less likely are left out


@dataclass(frozen=True, slots=True)
class Aligned:
    """Pairs of a file and a content, the likelier ones.

    Attributes:
        step, content: int64 (n,), rows; `step` ascends.
        chance: float (n,), probability of the pair.
        ways: float (steps, ways), how likely each `Way` is at each step; 0 at known files.
    """

    step: Any
    content: Any
    chance: Any
    ways: Any


@dataclass(frozen=True, slots=True)
class _Layer:
    """What is kept of a step for the way back: states before it, and how it went on."""

    chance: Any
    pools: Pools
    arcs: Arcs

    @property
    def rows(self) -> Any:
        """Per arc: where it starts, pools behind the states."""
        return np.where(self.arcs.way == Way.JUMP, len(self.chance), 0) + self.arcs.start


def align(ground: Ground, steps: Steps, fits: Any, counted: Any) -> Aligned:
    """How likely each content is that of each file.

    Args:
        ground: contents.
        steps: files, in order.
        fits: float (rows, columns), how much more likely a content like that is with a name
            like this than with any.
        counted: bool per step, the habits of the disk are learnt from it.
    """
    habits = Habits()
    for _ in range(_ROUNDS):
        ways = _laid(ground, steps.part(0, _LEARNT_FROM), fits, habits).ways
        habits = _learnt(habits, ways[counted[:_LEARNT_FROM]])
    return _laid(ground, steps, fits, habits)


def _learnt(habits: Habits, ways: Any) -> Habits:
    """The habits of a disk, from how likely each way was at each step."""
    seen, files = ways.sum(axis=0), len(ways) + _BEFORE
    usual = Habits()
    return replace(
        habits,
        absent=min(0.5, (seen[Way.ABSENT] + usual.absent * _BEFORE) / files),
        skip=min(0.3, (seen[Way.SKIP] + usual.skip * _BEFORE) / files),
        jump=min(0.3, (seen[Way.JUMP] + usual.jump * _BEFORE) / files),
    )


def _laid(ground: Ground, steps: Steps, fits: Any, habits: Habits) -> Aligned:
    """The pairs, section by section."""
    pairs: list[tuple[Any, Any, Any]] = [(np.zeros(0, np.int64),) * 2 + (np.zeros(0),)]
    ways = np.zeros((len(steps), len(Way)))
    laying = Laying(ground, steps, fits, habits)
    key, chance = laying.beginning, np.ones(1)
    for start in range(0, len(steps), _SECTION):
        stop = min(start + _SECTION, len(steps))
        layers, later, key, chance = _forwards(laying, (start, stop, len(steps)), key, chance)
        for step in range(start + len(layers) - 1, start - 1, -1):
            later, content, likely, share = _backward(layers.pop(), later)
            if step < stop and steps.first[step] == NOTHING:
                pairs.append((np.full(len(content), step), content, likely))
                ways[step] = share
    columns = [np.concatenate(column) for column in zip(*pairs, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Aligned(columns[0][order], columns[1][order], columns[2][order], ways)


def _forwards(
    laying: Laying, place: tuple[int, int, int], key: Any, chance: Any
) -> tuple[list[_Layer], Any, Any, Any]:
    """Layers of a section and of what is ahead; ones; states at its end and their chances."""
    start, stop, count = place
    layers: list[_Layer] = []
    at_stop = key, chance
    for step in range(start, min(stop + _AHEAD, count)):
        key, chance, layer = _forward(laying, step, key, chance)
        layers.append(layer)
        if step == stop - 1:
            at_stop = key, chance
    return layers, np.ones(len(key)), *at_stop


def _forward(laying: Laying, step: int, key: Any, chance: Any) -> tuple[Any, Any, _Layer]:
    """(states behind a step, how likely they are, what is kept)."""
    arcs, pools = laying.ways(step, key, chance)
    flow = np.append(chance, pools.mass)[_Layer(chance, pools, arcs).rows] * arcs.weight
    good = flow >= flow.max() * _SMALLEST
    arcs, flow = arcs.take(good), flow[good]
    reached, end = np.unique(arcs.end, return_inverse=True)
    total = np.bincount(end, flow, len(reached))
    kept = total >= total.max() * _SMALLEST
    if len(total) > _MOST:
        kept &= total >= np.partition(total, -_MOST)[-_MOST]
    inside = kept[end]
    scale = total[kept].sum()
    arcs = arcs.take(inside)
    arcs = replace(arcs, end=(np.cumsum(kept) - 1)[end[inside]], weight=arcs.weight / scale)
    return reached[kept], total[kept] / scale, _Layer(chance, pools, arcs)


def _backward(layer: _Layer, later: Any) -> tuple[Any, Any, Any, Any]:
    """(how likely all that follows is by state before, contents, how likely each, ways)."""
    arcs, states, rows = layer.arcs, len(layer.chance), layer.rows
    ahead = arcs.weight * later[arcs.end]
    backward = np.bincount(rows, ahead, states + len(layer.pools.mass))
    likely = np.append(layer.chance, layer.pools.mass)[rows] * ahead
    likely /= likely.sum()
    ways = np.bincount(arcs.way, likely, len(Way))
    taken = arcs.content != NOTHING
    content, row = np.unique(arcs.content[taken], return_inverse=True)
    chance = np.bincount(row, likely[taken], len(content))
    good = chance > _LEAST
    before = backward[:states] + layer.pools.back(backward[states:])
    return before, content[good], chance[good], ways
