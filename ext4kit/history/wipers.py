"""Wiping programs, as data: the names that they give a file before they delete it.

A chain of such names is no proof by itself; `wiping.py` asks for further evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

LONG = 3  # number of names that are unusual; fewer must replace the name before them exactly
UNSEEN = 4  # fewest names of a chain if no state from before it is known
LEFT = 100  # most bytes that a program leaves of a file


class Wiper(NamedTuple):
    """A wiping program.

    Attributes:
        tools: the programs that leave such names.
        first: pattern of the first name; following: of each further one, which is shorter than
            the name before it. None if there is only one name.
        is_loose: whether the journal may lack the first names, because one transaction can hold
            several renames and `first` matches each of them.
        keeps_shape: whether the first name is as long as the name before it and has the same dots.
        unit: the program writes whole units of so many bytes, 0 for file system blocks.
        source: where this is known from.
    """

    tools: str
    first: re.Pattern[bytes]
    following: re.Pattern[bytes] | None
    is_loose: bool
    keeps_shape: bool
    unit: int
    source: str


_ZEROS = re.compile(rb"0*[0-9A-Za-z_.-]")
SHRED = Wiper(
    "shred or wipe", _ZEROS, _ZEROS, True, False, 0,
    "GNU coreutils src/shred.c, `wipename`: zeros, as many as the name has characters, one less in"
    " each step; another last character if a name is in use. wipe 0.24 leaves the same names.",
)  # fmt: skip
BLEACHBIT = Wiper(
    "BleachBit", re.compile(rb"[A-Za-z0-9_.-]{106,226}"), re.compile(rb"[A-Za-z0-9_.-]{1,9}"),
    False, False, 4096,
    "bleachbit/FileUtilities.py 4.4.2, `wipe_name`, `wipe_contents`: a random name of 226"
    " characters, then one as short as possible; zeros in pieces of 4096 bytes.",
)  # fmt: skip
SRM = Wiper(
    "srm (secure-delete)",
    re.compile(rb"[a-z.]+"),
    None,
    False,
    True,
    32769,
    "secure-delete 3.1, as it runs: random small letters, dots stay; pieces of 32,769 bytes.",
)
WIPERS = (BLEACHBIT, SHRED, SRM)  # the narrowest pattern first


class Chain(NamedTuple):
    """The names of a wiping program at the end of the names of a file.

    Attributes:
        wiper: the program.
        start: index of its first name.
        steps: number of its names.
        follows: whether the name before is in the same directory and can be the one that the
            program replaced.
        is_complete: whether no name of the chain is missing.
    """

    wiper: Wiper
    start: int
    steps: int
    follows: bool
    is_complete: bool

    def shows_wiping(
        self, cut_from: int | None, left: int | None, is_seen: bool, is_written: bool = False
    ) -> bool:
        """Whether the chain and the size of the file are those that the program leaves.

        Args:
            cut_from: size before the file was cut at that time, None if that is not known.
            left: size after that, None if unknown.
            is_seen: whether a state of the file from before the chain is known.
            is_written: whether the content changed after the creation of the file.
        """
        if left is not None and left > (LEFT if self.wiper.is_loose else 0):
            return False
        if self.wiper.keeps_shape:
            return self.follows and cut_from is not None and cut_from % self.wiper.unit == 0
        if cut_from is not None:
            return self.steps >= LONG or (self.follows and self.is_complete)
        if not is_seen:
            return self.steps >= UNSEEN
        return left == 0 and is_written and self.steps >= LONG  # it was empty before


def may_end_chain(before: bytes, name: bytes) -> bool:
    """Whether a name and the one before it can be the end of a chain; a quick test."""
    return any(_may_end(wiper, before, name) for wiper in WIPERS)


def _may_end(wiper: Wiper, before: bytes, name: bytes) -> bool:
    if wiper.first.fullmatch(name):
        return not wiper.keeps_shape or len(before) == len(name)
    if wiper.following is None or not wiper.first.fullmatch(before):
        return False
    return wiper.following.fullmatch(name) is not None


def find_chain(names: Sequence[tuple[int, bytes]]) -> Chain | None:
    """The chain at the end of the names of a file, None if there is none.

    Args:
        names: (directory, name), oldest first; neighbours differ.
    """
    found = (_chain(wiper, names) for wiper in WIPERS)
    return next((chain for chain in found if chain is not None), None)


def _chain(wiper: Wiper, names: Sequence[tuple[int, bytes]]) -> Chain | None:
    start = len(names)
    while start and _is_step(wiper, names, start - 1):
        start -= 1
        if not wiper.is_loose and wiper.first.fullmatch(names[start][1]):
            break
    if start == len(names) or not wiper.first.fullmatch(names[start][1]):
        return None
    count, first, last = len(names) - start, names[start][1], names[-1][1]
    if not start or names[start - 1][0] != names[-1][0]:
        return Chain(wiper, start, count, False, False) if wiper.is_loose else None
    before = names[start - 1][1]
    if wiper.keeps_shape:
        same = _shape(before) == _shape(first)
        return Chain(wiper, start, count, True, True) if same else None
    if not wiper.is_loose:
        return Chain(wiper, start, count, True, True)
    has_all = len(first) - len(last) + 1 == count  # else some transactions held several renames
    follows = len(before) == len(first) or (len(before) > len(first) and not has_all)
    is_complete = len(before) == len(first) == count and last.isdigit()
    return Chain(wiper, start, count, follows, is_complete)


def _is_step(wiper: Wiper, names: Sequence[tuple[int, bytes]], at: int) -> bool:
    """Whether the name at an index belongs to a chain, given that those after it do."""
    (directory, name), is_last = names[at], at + 1 == len(names)
    if directory != names[-1][0] or not (is_last or len(name) > len(names[at + 1][1])):
        return False
    if is_last and wiper.following is not None and wiper.following.fullmatch(name):
        return True
    return wiper.first.fullmatch(name) is not None


def _shape(name: bytes) -> tuple[int, list[int]]:
    """Length of a name, and where its dots are."""
    return len(name), [at for at, byte in enumerate(name) if byte == ord(".")]
