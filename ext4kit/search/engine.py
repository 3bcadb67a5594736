"""Where patterns match in a piece of data: by Hyperscan, or for literals alone by `re`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import RequestError
from ext4kit.evidence.containers.extras import extra
from ext4kit.search.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MATCH = 4096  # bytes
MAX_MATCHES = 200_000  # in a piece of data
_WINDOW = 64  # bytes around the end of a match that are looked at first
_MAX_PLAIN = 200  # literals without Hyperscan: each is a pass of its own
_MAX_SINGLE = 4  # literals with Hyperscan that are faster in a pass of its own for each


class ByteMatches(NamedTuple):
    """ByteMatches in a piece of data, as int64 columns (n,), by start.

    Attributes:
        pattern: row of the pattern.
        start, end: bytes.
        is_cut: whether there were more than are listed.
    """

    pattern: Int64s
    start: Int64s
    end: Int64s
    is_cut: bool = False


class Engine:
    """Finds the leftmost, longest matches of each pattern that do not overlap.

    A match has at most 4,096 bytes. Several threads can search at once.

    Args:
        patterns: the patterns.

    Raises:
        RequestError: a pattern is one that the engine refuses.
        UnsupportedError: the patterns need the extra `search`.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        literals = all(one.literal for one in patterns)
        is_fast = len(patterns) > 0 and find_spec("hyperscan") is not None
        if literals and len(patterns) <= _MAX_PLAIN and not is_fast:
            self._plain = [_compiled(one) for one in patterns]
            self._scan = self._plain_matches
            return
        with extra("a search for more than a few texts", "hyperscan", "search"):
            import hyperscan
        self._library, self._scan = hyperscan, self._fast_matches
        rows = range(len(patterns))
        alone = literals and len(patterns) <= _MAX_SINGLE
        groups = [[row] for row in rows] if alone else [rows]
        self._all = [self._database(group, with_start=False) for group in groups]
        self._single: dict[int, Any] = {}
        self._thread = local()

    @property
    def reach(self) -> int:
        """Bytes of the longest match."""
        if all(one.literal for one in self.patterns):
            return max((len(one.literal) for one in self.patterns), default=1)
        return MAX_MATCH

    def matches(self, data: memoryview | bytes) -> ByteMatches:
        """The matches in some bytes, which are at least 1."""
        return self._scan(data)

    def _database(self, rows: Sequence[int], with_start: bool) -> Any:  # noqa: ANN401 -- no stubs
        """Compiled patterns.

        Raises:
            RequestError: one of them is refused.
        """
        library, chosen = self._library, [self.patterns[row] for row in rows]
        start = library.HS_FLAG_SOM_LEFTMOST if with_start else 0
        database = library.Database()
        try:
            database.compile(
                expressions=[one.expression for one in chosen],
                ids=list(rows),
                elements=len(chosen),
                flags=[library.HS_FLAG_CASELESS * one.ignores_case | start for one in chosen],
            )
        except library.error as error:
            name = f": {chosen[0].name}" if len(chosen) == 1 else ""
            raise RequestError(f"this pattern cannot be searched{name}: {error}") from error
        return database

    def _look(
        self,
        database: Any,  # noqa: ANN401 -- no stubs
        data: memoryview | bytes,
        take: Callable[..., bool | None],
        context: object = None,
    ) -> None:
        """Search with a database, in the memory for it that each thread has."""
        kept, key = self._thread.__dict__, str(id(database))
        if key not in kept:
            kept[key] = self._library.Scratch(database)
        scratch = kept[key]
        database.scan(data, match_event_handler=take, context=context, scratch=scratch)

    def _with_start(self, row: int) -> Any:  # noqa: ANN401 -- no stubs
        """What finds the start of a match: Hyperscan, or `re` for patterns too large for that."""
        one = self.patterns[row]
        try:
            return self._database([row], with_start=True)
        except RequestError:
            return _compiled(one)

    def _fast_matches(self, data: memoryview | bytes) -> ByteMatches:
        """By Hyperscan: the ends of all matches first, then the starts before them."""
        found: list[tuple[int, int]] = []

        def take(row: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            found.append((row, end))
            return len(found) > MAX_MATCHES

        is_cut = False
        for database in self._all:
            try:
                self._look(database, data, take)
            except self._library.ScanTerminated:
                is_cut = True
        rows: list[tuple[int, int, int]] = []
        by_regex: dict[int, list[int]] = {}
        for row, end in found:
            if literal := self.patterns[row].literal:
                rows.append((row, end - len(literal), end))
            else:
                by_regex.setdefault(row, []).append(end)
        for row, ends in by_regex.items():
            rows += self._with_starts(row, ends, data)
        return _apart(rows, is_cut)

    def _with_starts(
        self, row: int, ends: list[int], data: memoryview | bytes
    ) -> Iterator[tuple[int, int, int]]:
        """(row, start, end) of the longest match at each start of a regular expression."""
        if row not in self._single:
            self._single[row] = self._with_start(row)
        check, position, true_ends = self.patterns[row].is_right, 0, set(ends)
        for end in ends:
            while position < end:
                found = self._first_match(row, data, position, end, true_ends)
                if found is None:
                    break
                start, position = found
                if check is None or check(bytes(data[start:position])):
                    yield row, start, position

    def _first_match(
        self, row: int, data: memoryview | bytes, position: int, end: int, true_ends: set[int]
    ) -> tuple[int, int] | None:
        r"""(start, end) of the leftmost, longest match from a position on; one ends at `end`.

        Args:
            row: row of the pattern.
            data: the bytes.
            position: where it can begin.
            end: the end of a match.
            true_ends: of all matches; at the start of a window `\b` can match wrongly.
        """
        one, reach = self._single[row], _WINDOW
        if isinstance(one, re.Pattern):
            match = one.search(data, max(position, end - MAX_MATCH), end + MAX_MATCH)
            return match.span() if match else None
        while True:
            base, stop = max(end - reach, position), min(end + reach, len(data))
            longest: dict[int, int] = {}

            def take(_row: int, start: int, last: int, _flags: int, base: int) -> None:
                if base + last in true_ends:
                    longest[base + start] = base + last  # noqa: B023 -- called in this turn

            self._look(one, data[base:stop], take, base)
            start = min(longest, default=base)
            touches = (start == base > position) or max(longest.values(), default=stop) == stop
            if reach >= MAX_MATCH or not touches:
                break
            reach *= 4
        return (start, min(longest[start], start + MAX_MATCH)) if longest else None

    def _plain_matches(self, data: memoryview | bytes) -> ByteMatches:
        """By `re`, a pass for each literal."""
        rows = []
        for row, one in enumerate(self._plain):
            for match in one.finditer(data):
                rows.append((row, *match.span()))
                if len(rows) > MAX_MATCHES:
                    return _apart(rows, is_cut=True)
        return _apart(rows, is_cut=False)


def _compiled(one: Pattern) -> re.Pattern[bytes]:
    """A pattern as `re` has it."""
    return re.compile(one.expression, re.IGNORECASE if one.ignores_case else 0)


def _apart(rows: list[tuple[int, int, int]], is_cut: bool) -> ByteMatches:
    """The matches that do not overlap one before them of the same pattern."""
    ends: dict[int, int] = {}
    kept = []
    for row, start, end in sorted(rows, key=lambda one: (one[1], one[0])):
        if start >= ends.get(row, 0):
            ends[row] = end
            kept.append((row, start, end))
    table = np.array(kept, np.int64).reshape(-1, 3)
    return ByteMatches(table[:, 0], table[:, 1], table[:, 2], is_cut)
