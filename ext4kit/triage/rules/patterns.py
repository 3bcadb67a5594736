"""Patterns of paths, and which of many patterns the files of a directory can match.

`/etc/cron.d/*` has the files of a directory, `/etc/**` all below it, and `/**/.ssh/rc` those of a
name anywhere. `*`, `?` and `[a-z]` stay within one part of a path, `{a,b}` stands for either.

All patterns are followed at once from the root down, as one automaton: each directory has a state,
which follows from the state of its parent and its own name. The number of patterns thus hardly
changes the time for a directory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import RequestError
from ext4kit.parsers.directory import Names

MAX_EXPANDED = 10_000  # patterns that the braces of one pattern stand for
_ANY_DEPTH = "**"
_LONGEST = 256  # bytes of a name, and one between names
_SPECIAL = re.compile(r"\*|\?|\[[^\]]+\]")
_BRACE = re.compile(r"[{},]")


@cache
def expanded(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that a pattern stands for.

    Raises:
        RequestError: it does not begin with a slash, or stands for too many patterns.
    """
    waiting, found = [pattern], []
    while waiting:
        one = waiting.pop()
        braces = _first_braces(one)
        if braces is None:
            found.append(one)
        else:
            start, end, alternatives = braces
            waiting += [one[:start] + each + one[end:] for each in alternatives]
        if len(waiting) + len(found) > MAX_EXPANDED:
            raise RequestError(f"{pattern}: stands for more than {MAX_EXPANDED:,} patterns")
    if not all(one.startswith("/") for one in found):
        raise RequestError(f"{pattern}: a pattern of paths begins with /")
    return tuple(dict.fromkeys(found[::-1]))


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """(start, end, alternatives) of the first pair of braces; its alternatives may have braces."""
    opened: list[int] = []
    commas: list[int] = []
    for found in _BRACE.finditer(text):
        at, mark = found.start(), found[0]
        if mark == "{":
            opened.append(at)
        elif mark == "," and len(opened) == 1:
            commas.append(at)
        elif mark == "}" and opened and (start := opened.pop()) == (opened or [start])[0]:
            edges = [start, *commas, at]
            inside = [text[a + 1 : b] for a, b in zip(edges, edges[1:], strict=False)]
            return start, at + 1, inside
    return None


def as_regex(pattern: str) -> re.Pattern[bytes]:
    """A regular expression that whole paths match if they match the pattern."""
    parts = [_parts_regex(one) for one in expanded(pattern)]
    return re.compile(b"|".join(parts), re.DOTALL)


def _parts_regex(pattern: str) -> bytes:
    found = b""
    parts = pattern.strip("/").split("/")
    for at, part in enumerate(parts):
        if part != _ANY_DEPTH:
            found += b"/" + _name_regex(part)
        elif at == len(parts) - 1:
            found += b"/.+"
        else:
            found += b"(?:/[^/]+)*"
    return found


@cache
def _compiled(part: str) -> re.Pattern[bytes]:
    return re.compile(_name_regex(part), re.DOTALL)


def _name_regex(part: str) -> bytes:
    """The regular expression of one part of a pattern."""
    found, at = b"", 0
    for special in _SPECIAL.finditer(part):
        found += re.escape(part[at : special.start()].encode()) + _special_regex(special[0])
        at = special.end()
    return found + re.escape(part[at:].encode())


def _special_regex(text: str) -> bytes:
    if text == "*":
        return b"[^/]*"
    if text == "?":
        return b"[^/]"
    inside = text[1:-1].replace("\\", "\\\\").encode()
    return b"[^/" + inside[1:] + b"]" if inside.startswith(b"!") else b"[" + inside + b"]"


class NamePattern:
    """The last part of a pattern.

    Args:
        text: the part, without braces.

    Attributes:
        literal: the only name that matches, None for several; ending: the extension of all names
            that match, such as b".php" for `*.php`, None for another pattern.
        edges: the bytes with which each name that matches begins and ends; part: the longest bytes
            that each has between these.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        specials = list(_SPECIAL.finditer(text))
        self.is_any = text in ("*", _ANY_DEPTH)
        self.literal = None if specials else text.encode()
        self._start = (text[: specials[0].start()] if specials else text).encode()
        self._end = (text[specials[-1].end() :] if specials else "").encode()
        self._is_simple = [one[0] for one in specials] == ["*"]
        is_ending = self._is_simple and not self._start and self._end.startswith(b".")
        self.ending = self._end if is_ending else None
        self.edges = self._start, self._end
        between = zip(specials, specials[1:], strict=False)
        parts = [text[one.end() : other.start()].encode() for one, other in between]
        self.part = max(parts, key=len, default=b"")
        self._regex = None if self.is_any else _compiled(text)

    def matches(self, name: bytes) -> bool:
        """Whether a name matches."""
        return self._regex is None or self._regex.fullmatch(name) is not None

    def among(self, names: Names) -> Bools:
        """Whether each name matches."""
        if self.is_any:
            return np.ones(len(names), bool)
        size = len(self._start) + len(self._end)
        if self.literal is not None:
            found = names.length == size
            return _narrowed(found, names, names.start, self._start)
        found = names.length >= size
        found = _narrowed(found, names, names.start, self._start)
        found = _narrowed(found, names, names.start + names.length - len(self._end), self._end)
        if not self._is_simple:
            rows = np.flatnonzero(found)
            found[rows] = [self.matches(name) for name in names.take(rows).tolist()]
        return found


_named = cache(NamePattern)


class _Edges:
    """Which names can match any of some patterns, by their first and last two bytes.

    Most names can match none, so that only few are compared with each pattern. A pattern that says
    nothing of these bytes is searched by a part of it.
    """

    def __init__(self, patterns: Sequence[NamePattern]) -> None:
        self._first, self._last = np.zeros((2, 256, 256), bool)
        inner = [pattern.part for pattern in patterns if pattern.edges == (b"", b"")]
        self._part = re.compile(b"|".join(map(re.escape, inner))) if all(inner) else None
        for start, end in (pattern.edges for pattern in patterns):
            if len(end) > 1:
                self._last[end[-2], end[-1]] = True
            elif len(start) > 1:
                self._first[start[0], start[1]] = True
            elif end:
                self._last[:, end[-1]] = True
            elif start:
                self._first[start[0]] = True
        self._has_inner = bool(inner)

    def rows(self, names: Names) -> Int64s:
        """Rows of the names that can match, and of those that are shorter than two bytes."""
        found = names.length < 2
        long = np.flatnonzero(~found)
        data, start = np.frombuffer(names.data, np.uint8), names.start[long]
        end = start + names.length[long]
        can = self._first[data[start], data[start + 1]] | self._last[data[end - 2], data[end - 1]]
        found[long[can]] = True
        if self._has_inner:
            found[self._with_part(names)] = True
        return np.flatnonzero(found)

    def _with_part(self, names: Names) -> Int64s:
        """Rows of the names that have a part of a pattern without edges."""
        if self._part is None or len(names.data) > _LONGEST * len(names):  # few of many names
            return np.arange(len(names))
        at = np.array([found.start() for found in self._part.finditer(names.data)], np.int64)
        order = np.argsort(names.start)
        return order[np.searchsorted(names.start[order], at, side="right") - 1]


def _narrowed(found: Bools, names: Names, start: Int64s, wanted: bytes) -> Bools:
    """Those of the names that have the wanted bytes from `start` on."""
    data = np.frombuffer(names.data, np.uint8)
    for at, byte in enumerate(wanted):
        rows = np.flatnonzero(found)
        if not len(rows):
            break
        found[rows[data[start[rows] + at] != byte]] = False
    return found


class FolderState:
    """What the patterns say of the files of a directory.

    Attributes:
        names: patterns of names, each with the numbers of the rules that it belongs to.
    """

    def __init__(self, automaton: PathPatterns, positions: frozenset[tuple[int, int]]) -> None:
        self._automaton = automaton
        self._literal: dict[bytes, set[tuple[int, int]]] = {}
        self._wild: list[tuple[re.Pattern[bytes], tuple[int, int]]] = []
        self._always: set[tuple[int, int]] = set()
        found: dict[str, set[int]] = {}
        for number, at in positions:
            folders, names, rule = automaton.patterns[number]
            if at == len(folders):
                for name in names:
                    found.setdefault(name, set()).add(rule)
            elif folders[at] == _ANY_DEPTH:
                self._always.add((number, at))
            elif _SPECIAL.search(folders[at]):
                self._wild.append((_compiled(folders[at]), (number, at + 1)))
            else:
                self._literal.setdefault(folders[at].encode(), set()).add((number, at + 1))
        self.names = [(_named(name), sorted(rules)) for name, rules in sorted(found.items())]

    @cached_property
    def _any_name(self) -> frozenset[int]:
        """Rules that every name matches."""
        return frozenset(rule for name, rules in self.names if name.is_any for rule in rules)

    @cached_property
    def _by_name(self) -> dict[bytes, list[int]]:
        return {name.literal: rules for name, rules in self.names if name.literal is not None}

    @cached_property
    def _by_ending(self) -> dict[bytes, list[int]]:
        return {name.ending: rules for name, rules in self.names if name.ending is not None}

    @cached_property
    def _others(self) -> list[tuple[NamePattern, list[int]]]:
        some = ((name, rules) for name, rules in self.names if name.literal is None)
        return [(name, rules) for name, rules in some if not name.is_any and name.ending is None]

    @cached_property
    def _any_other(self) -> re.Pattern[bytes] | None:
        """What any of `_others` matches; most names match none."""
        parts = [_name_regex(name.text) for name, _ in self._others]
        return re.compile(b"|".join(parts), re.DOTALL) if parts else None

    @cached_property
    def _default(self) -> FolderState:
        return self._automaton.state(self._always)

    def below(self, name: bytes) -> FolderState:
        """The state of a directory in this one."""
        more = [place for regex, place in self._wild if regex.fullmatch(name)]
        literal = self._literal.get(name)
        if not more and literal is None:
            return self._default
        return self._automaton.state({*self._always, *more, *(literal or ())})

    def rules(self, name: bytes) -> frozenset[int]:
        """The rules that a file of this name matches."""
        found = [*self._by_name.get(name, ())]
        at = name.find(b".") if self._by_ending else -1
        while at >= 0:
            found += self._by_ending.get(name[at:], ())
            at = name.find(b".", at + 1)
        if self._any_other is not None and self._any_other.fullmatch(name):
            for pattern, rules in self._others:
                if pattern.matches(name):
                    found += rules
        return self._any_name.union(found) if found else self._any_name

    def among(self, names: Names) -> Iterator[tuple[list[int], Bools]]:
        """Numbers of rules, and which of the names match them; only those with a match."""
        for pattern, rules in self.names:
            if pattern.is_any:
                yield rules, np.ones(len(names), bool)
        rows = self._edges.rows(names)
        some = names.take(rows)
        for pattern, rules in self.names:
            if len(rows) and not pattern.is_any and (matches := pattern.among(some)).any():
                found = np.zeros(len(names), bool)
                found[rows[matches]] = True
                yield rules, found

    @cached_property
    def _edges(self) -> _Edges:
        return _Edges([name for name, _ in self.names if not name.is_any])


class PathPatterns:
    """Many patterns of paths, each of a rule.

    Args:
        rules: for each rule its patterns; the number of a rule is its place.
        is_root: whether the files of a directory match as if it were the root directory.
    """

    def __init__(
        self,
        rules: Sequence[Iterable[str]],
        is_root: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        by_folder: dict[tuple[tuple[str, ...], int], list[str]] = {}
        for rule, patterns in enumerate(rules):
            for one in (each for pattern in patterns for each in expanded(pattern)):
                *folders, name = one.strip("/").split("/")
                if name == _ANY_DEPTH:
                    folders.append(name)
                by_folder.setdefault((tuple(folders), rule), []).append(name)
        self.patterns = [(folders, names, rule) for (folders, rule), names in by_folder.items()]
        self._states: dict[frozenset[tuple[int, int]], FolderState] = {}
        self._root = self.state((number, 0) for number in range(len(self.patterns)))
        self._is_root = is_root
        self._folders = {b"": self._root}

    def state(self, positions: Iterable[tuple[int, int]]) -> FolderState:
        """The state for positions in patterns; the same object for the same positions."""
        reached = set(positions)
        for number, at in list(reached):
            folders = self.patterns[number][0]
            while at < len(folders) and folders[at] == _ANY_DEPTH:
                at += 1
                reached.add((number, at))
        key = frozenset(reached)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = FolderState(self, key)
        return found

    def of_folder(self, folder: bytes) -> FolderState:
        """The state of a directory by its path; the root is b""."""
        waiting: list[bytes] = []
        while (found := self._folders.get(folder)) is None:
            folder, _, name = folder.rpartition(b"/")
            waiting.append(name)
        for name in reversed(waiting):
            folder = folder + b"/" + name
            found = self._root if self._is_root(folder) else found.below(name)
            self._folders[folder] = found
        return found

    def matching(
        self, folders: Sequence[bytes], folder: Int64s, names: Names
    ) -> Iterator[tuple[list[int], Int64s]]:
        """Numbers of rules, and the rows of files that match them; only those with a match.

        Args:
            folders: paths of directories; the root is b"".
            folder: place in `folders` of the directory of each file.
            names: the name of each file.
        """
        code, states = coded(self.of_folder(one) for one in folders)
        code = code[folder]
        order = np.argsort(code, kind="stable")
        bounds = np.searchsorted(code[order], np.arange(len(states) + 1)).tolist()
        for state, start, end in zip(states, bounds, bounds[1:], strict=False):
            inside = order[start:end]
            if len(inside) and state.names:
                for rules, mask in state.among(names.take(inside)):
                    yield rules, inside[mask]

    def of_path(self, path: bytes) -> frozenset[int]:
        """The rules with a pattern that a whole path matches."""
        folder, _, name = path.rpartition(b"/")
        return self.of_folder(folder).rules(name)


def coded(states: Iterable[FolderState]) -> tuple[Int64s, list[FolderState]]:
    """Number of the state of each, and the states."""
    codes: dict[FolderState, int] = {}
    code = np.array([codes.setdefault(state, len(codes)) for state in states], np.int64)
    return code, list(codes)
