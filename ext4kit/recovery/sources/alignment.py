"""Contents in the order of the disk, each given the file that it is, as far as that can be told.

A hidden Markov model goes along the disk: a step is the next content, a state is which file it
is of those that were made and are asked for (`laying`). Known files around it, names that fit it
and names that it mentions say which. Each file has one content: what one row of contents claims,
no other row has, and what none claims is likelier where it may be. Rows tell each other so until
they agree (belief propagation). The answer is how likely each pair is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ext4kit.recovery.sources.laying import EARLIER, NOTHING, Habits, Laying, Link

Mentions = dict[int, tuple[Any, Any]]  # content -> (files, how much likelier each is for it)
Progress = Callable[[int, int], None]

_ROUNDS = 12
_SETTLED = 0.004  # no pair changes by more in a round
_LEARN = 5  # rounds in which habits and rows are looked at anew
_DAMPED = 0.5
_LEAST = 1e-4  # pairs that are less likely are left out
_SHARP, _MILD = 0.3, 1.0  # how a file is less likely, each one further from where it should be
_FLOOR = 0.01  # however far it is
_AHEAD = 0.1  # of files lie on the wrong side of a known one that another wrote
_AHEAD_OF_OWN = 0.002  # the same of one in the same folder
_JUMP_ON, _JUMP_BACK = 64, 8  # files; a row of contents ends where it goes further
_LIKELY = 0.3
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Files:
    """Files that are asked for, in the order in which they were made.

    Attributes:
        called: int64 (n,), row of the table of fits.
        absent: float (n,), how likely its content is not there.
        folder: int64 (n,), a number for each folder, NOTHING where it is not known.
    """

    called: Any
    absent: Any
    folder: Any

    def __len__(self) -> int:
        return len(self.called)


@dataclass(frozen=True, slots=True)
class Beside:
    """The nearest known file in front of each content, or behind it.

    Attributes:
        made: int64 (m,), how many of the files asked for were made before it; NOTHING for none.
        between: int64 (m,), contents from there up to this one, itself not counted.
        close: bool (m,), they lie in one row, and all of them are small or all large.
        folder: int64 (m,), its folder, numbered as in `Files`.
    """

    made: Any
    between: Any
    close: Any
    folder: Any


@dataclass(frozen=True, slots=True)
class Lying:
    """Contents in the order of the disk.

    Attributes:
        like: int64 (m,), column of the table of fits.
        link: int64 (m,), a `Link` to the content in front.
        strange: float (m,), how likely it is of no file that is asked for.
        front, behind: known files beside it.
        known: int64 (m,), the file that this is a run of when that is known, NOTHING for contents.
    """

    like: Any
    link: Any
    strange: Any
    front: Beside
    behind: Beside
    known: Any

    def __len__(self) -> int:
        return len(self.like)

    @property
    def anew(self) -> Any:
        """Files made before the known one right in front of each content, NOTHING for none."""
        return np.where(self.front.between == 0, self.front.made, NOTHING)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Pairs of a content and a file, the likelier ones.

    Attributes:
        content, file: int64 (k,), rows; `content` ascends.
        chance: float (k,), probability of the pair.
        claimed: float (files,), how likely each file has one of the contents.
        disorder: of all steps, those back to a file that was made before.
    """

    content: Any
    file: Any
    chance: Any
    claimed: Any
    disorder: float


@dataclass(slots=True)
class _Told:
    """What the rows of contents tell each other of the files.

    Attributes:
        usual: float (n,), how much likelier a file is for a row that does not claim it yet.
        keys: int64, row of contents * n + file, ascending; factor: how much likelier it is there.
        row: int64 (m,), the row of each content.
    """

    usual: Any
    keys: Any
    factor: Any
    row: Any
    _of: dict[int, Any] = field(default_factory=dict)

    def of(self, content: int) -> Any:
        """How much likelier each file is for a content."""
        row, count = int(self.row[content]), len(self.usual)
        if row not in self._of:
            low, high = np.searchsorted(self.keys, [row * count, (row + 1) * count])
            every = self.usual.copy()
            every[self.keys[low:high] % count] = self.factor[low:high]
            self._of = {row: every}
        return self._of[row]


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one way along the disk and back gives; pairs by content."""

    content: Any
    file: Any
    chance: Any
    seen: Any
    next_ones: Any
    anew: Any


def align(
    lying: Lying, files: Files, mentions: Mentions, fits: Any, progress: Progress | None = None
) -> Aligned:
    """How likely each content is that of each file.

    Args:
        lying: contents.
        files: files, in order; at least one, and one content.
        mentions: what the contents say themselves.
        fits: float (rows, columns), how much more likely a content like that is with a name
            like this than with any.
        progress: called with (rounds done, rounds in all).
    """
    evidence = _evidence(lying, files, fits, mentions)
    laying, usual = Laying(files.folder), Habits.usual()
    habits, count = usual, len(files)
    odds = files.absent / (1 - files.absent)
    none = np.zeros(0, np.int64)
    told = _Told(np.ones(count), none, none.astype(float), np.zeros(len(lying), np.int64))
    before = np.zeros(0)
    for turn in range(_ROUNDS):
        found = _along(lying, evidence, laying, habits, told)
        if turn < _LEARN:
            habits = usual.learnt(found.seen, found.next_ones, found.anew)
            row = _rows(lying, found)
        told = _told(found, row, told, odds)
        if progress:
            progress(turn + 1, _ROUNDS)
        if len(before) == len(found.chance) and np.abs(before - found.chance).max() < _SETTLED:
            break
        before = found.chance
    if progress:
        progress(_ROUNDS, _ROUNDS)
    claimed = np.bincount(found.file, found.chance, count)
    disorder = float(found.seen[:, EARLIER].sum() / len(lying))
    return Aligned(found.content, found.file, found.chance, claimed, disorder)


def _evidence(lying: Lying, files: Files, fits: Any, mentions: Mentions) -> Any:
    """float32 (m, n): how much likelier a content is that of a file than that of any."""
    count = len(files)
    found = np.empty((len(lying), count), np.float32)
    names = fits[files.called]  # (n, columns)
    taken = lying.known[lying.known != NOTHING]
    first = np.append(lying.link[1:] > Link.LARGE, True), lying.link > Link.LARGE
    every = np.arange(count)
    for content in range(len(lying)):
        if lying.known[content] != NOTHING:
            found[content] = every == lying.known[content]
            continue
        one = names[:, lying.like[content]].copy()
        if lying.front.close[content]:
            place = every - lying.front.made[content]
            one *= _nearness(place, lying.front, content, bool(first[1][content]), files.folder)
        if lying.behind.close[content]:
            place = lying.behind.made[content] - 1 - every
            one *= _nearness(place, lying.behind, content, bool(first[0][content]), files.folder)
        if content in mentions:
            file, likelier = mentions[content]
            one[file] *= likelier
        one[taken] = 0
        found[content] = one
    return found


def _nearness(place: Any, beside: Beside, content: int, alone: bool, folder: Any) -> Any:
    """How well each file fits a known one beside a content.

    Args:
        place: int64 (n,), how many files it is away from the known one, below 0 on its wrong side.
        beside: known files on that side.
        content: its row.
        alone: no other content in its row lies on that side; the others tell more.
        folder: of each file.
    """
    off = np.abs(place - beside.between[content])
    found = np.maximum((_SHARP if alone else _MILD) ** off, _FLOOR)
    ahead = np.where(folder == beside.folder[content], _AHEAD_OF_OWN, _AHEAD)
    ahead[folder == NOTHING] = _AHEAD
    return np.where(place < 0, found * ahead, found)


def _along(lying: Lying, evidence: Any, laying: Laying, habits: Habits, told: _Told) -> _Pass:
    """Forward and backward: how likely each pair is, and how often each way was gone."""
    count, files = evidence.shape
    last = np.empty((count + 1, files), np.float32)  # which file the last content was of
    last[0] = 1 / files
    scale = np.empty(count)
    for at in range(count):
        before, strange = last[at].astype(float), lying.strange[at]
        link, made = int(lying.link[at]), int(lying.anew[at])
        own = laying.onward(before, link, habits)
        if made != NOTHING:
            share = habits.anew[int(lying.front.close[at])]
            own *= 1 - share
            own += share * laying.from_known(before, made, habits.left_out[0])
        own *= evidence[at]
        own *= told.of(at)
        own *= 1 - strange
        own += strange * before
        scale[at] = own.sum()
        last[at + 1] = own / scale[at]
    return _back(lying, evidence, (laying, habits, told), last, scale)


def _back(
    lying: Lying, evidence: Any, model: tuple[Laying, Habits, _Told], last: Any, scale: Any
) -> _Pass:
    laying, habits, told = model
    count, files = evidence.shape
    ahead = np.ones(files)
    pairs: list[tuple[Any, Any, Any]] = []
    seen, next_ones, anew = np.zeros((len(Link), 4)), np.zeros(len(Link)), np.zeros((2, 2))
    for at in range(count - 1, -1, -1):
        before, strange, link = last[at].astype(float), lying.strange[at], int(lying.link[at])
        passed = ahead * (strange / scale[at])
        chance = last[at + 1] * ahead - passed * before
        kept = np.flatnonzero(chance > _LEAST)
        pairs.append((np.full(len(kept), at), kept, chance[kept]))
        ahead *= evidence[at]
        ahead *= told.of(at)
        ahead *= (1 - strange) / scale[at]
        made = int(lying.anew[at])
        share, known = 0.0, np.zeros(0)
        if made != NOTHING:
            close = int(lying.front.close[at])
            share = habits.anew[close]
            known = share * laying.back_from_known(ahead, made, habits.left_out[0])
            anew[close] += known @ before, 0
        ahead, ways, nearest = laying.back(ahead * (1 - share), before, link, habits)
        if made != NOTHING:
            anew[close, 1] += ways.sum()
            ahead += known
        ahead += passed
        seen[link] += ways
        next_ones[link] += nearest
    columns = [np.concatenate(column) for column in zip(*pairs[::-1], strict=True)]
    chance = np.clip(columns[2], _TINY, 1 - _TINY)
    return _Pass(columns[0], columns[1], chance, seen, next_ones, anew)


def _rows(lying: Lying, found: _Pass) -> Any:
    """int64 (m,): the row of contents that each is in; in one of them no file comes twice.

    A row ends where the files go far on or back, as it seems.
    """
    place = np.full(len(lying), NOTHING)
    order = np.argsort(found.chance, kind="stable")
    order = order[found.chance[order] > _LIKELY]
    place[found.content[order]] = found.file[order]
    known = np.flatnonzero(place != NOTHING)
    step = np.diff(place[known])
    cut = lying.link > Link.LARGE
    cut[known[1:][(step > _JUMP_ON) | (step < -_JUMP_BACK)]] = True
    return np.cumsum(cut)


def _told(found: _Pass, row: Any, before: _Told, odds: Any) -> _Told:
    """What rows tell each other after a pass.

    Args:
        found: pairs.
        row: of each content.
        before: what they were told.
        odds: float (n,), of a file's content being absent.
    """
    count = len(odds)
    keys, back = np.unique(row[found.content] * count + found.file, return_inverse=True)
    chance = np.clip(np.bincount(back, found.chance), _TINY, 1 - _TINY)
    file = keys % count
    earlier = np.empty(len(keys))
    earlier[back] = _factors(before, found)
    claim = chance / (1 - chance) / earlier
    every = np.bincount(file, claim, count)
    others = np.maximum(every[file] - claim, 0)
    factor = (odds[file] + others) ** (_DAMPED - 1) * earlier**_DAMPED
    usual = (odds + every) ** (_DAMPED - 1) * before.usual**_DAMPED
    return _Told(usual, keys, factor, row)


def _factors(told: _Told, found: _Pass) -> Any:
    """float: how much likelier each pair was said to be."""
    usual = told.usual[found.file]
    if not len(told.keys):
        return usual
    keys = told.row[found.content] * len(told.usual) + found.file
    at = np.minimum(np.searchsorted(told.keys, keys), len(told.keys) - 1)
    return np.where(told.keys[at] == keys, told.factor[at], usual)
