"""YARA rules as patterns: compiled by YARA-X, scanned over whole files or windows of large ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ext4kit.errors import AccessError, RequestError
from ext4kit.evidence.containers.extras import extra
from ext4kit.search.hits import HitBytes, StreamMatch
from ext4kit.search.patterns import Pattern
from ext4kit.search.windows import MOST_FOUND

if TYPE_CHECKING:
    import yara_x

FILE_WINDOW = 64 << 20  # bytes of a file that are scanned at once
MEMBER_WINDOW = 16 << 20  # of a member of a packed file
OVERLAP = 64 << 10  # bytes that two windows have in common
MOST_SECONDS = 60  # for one window
MOST_LISTED = 1000  # matches of each string in a window
_MOST_RULES = 64 << 20  # bytes of a file of rules
_SUFFIXES = (".yar", ".yara")
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class YaraPattern(Pattern):
    """A string of a rule, or a rule that matched without one.

    Attributes:
        namespace: of the rule: the file of a folder, without its suffix.
        rule: its name.
        string: identifier of the string; "" for none.
        tags: of the rule.
        meta: of the rule.
    """

    namespace: str = ""
    rule: str = ""
    string: str = ""
    tags: tuple[str, ...] = ()
    meta: tuple[tuple[str, str | int | bool], ...] = ()


class YaraMatch(NamedTuple):
    """A match in some bytes.

    Attributes:
        pattern: row in `YaraRules.patterns`.
        start, end: bytes.
    """

    pattern: int
    start: int
    end: int


@dataclass
class YaraRules:
    """Compiled rules, and what they did.

    Attributes:
        patterns: what has matched so far.
        timeouts: number of windows whose scan took too long.
        windowed: number of files that were scanned in several windows.
        cut: number of windows with more matches of a string than are listed.
    """

    scanner: yara_x.Scanner = field(repr=False)
    patterns: list[Pattern] = field(default_factory=list)
    timeouts: int = 0
    windowed: int = 0
    cut: int = 0
    _rows: dict[tuple[str, str, str], int] = field(default_factory=dict)

    @classmethod
    def of_files(cls, paths: Iterable[Path]) -> YaraRules:
        """The rules in files, or in all files of folders that end in .yar or .yara.

        Raises:
            AccessError: a file cannot be read.
            RequestError: there is no rule, or one is not valid.
            UnsupportedError: YARA-X is not installed.
        """
        with extra("a search by YARA rules", "yara-x", "yara"):
            import yara_x
        compiler = yara_x.Compiler(relaxed_re_syntax=True)
        for path, namespace in _files(paths):
            source = _source(path)
            compiler.new_namespace(namespace)
            compiler.add_include_dir(str(path.parent))
            try:
                compiler.add_source(source, origin=str(path))
            except (yara_x.CompileError, ValueError) as error:
                raise RequestError(_complaint(path, compiler, error)) from error
        scanner = yara_x.Scanner(compiler.build())
        scanner.set_timeout(MOST_SECONDS)
        return cls(scanner)

    def matches(self, data: bytes) -> list[YaraMatch]:
        """The matches of rules in some bytes; a rule without strings matches with 0 bytes at 0."""
        import yara_x

        try:
            rules = self.scanner.scan(data).matching_rules
        except yara_x.TimeoutError:
            self.timeouts += 1
            return []
        found: list[YaraMatch] = []
        for rule in rules:
            before = len(found)
            for string in rule.patterns:
                row = self._row(rule, string.identifier) if len(string.matches) else 0
                self.cut += len(string.matches) > MOST_LISTED
                for one in string.matches[:MOST_LISTED]:
                    found.append(YaraMatch(row, one.offset, one.offset + one.length))
            if len(found) == before:
                found.append(YaraMatch(self._row(rule, ""), 0, 0))
        return found

    def _row(self, rule: yara_x.Rule, string: str) -> int:
        key = rule.namespace, rule.identifier, string
        if key not in self._rows:
            self._rows[key] = len(self.patterns)
            name = f"{rule.namespace}:{rule.identifier}"
            self.patterns.append(
                YaraPattern(
                    rule.identifier if rule.namespace == _DEFAULT else name,
                    b"",
                    namespace=rule.namespace,
                    rule=rule.identifier,
                    string=string,
                    tags=tuple(rule.tags),
                    meta=tuple(_values(rule.metadata)),
                )
            )
        return self._rows[key]


def _values(meta: Iterable[tuple[str, object]]) -> Iterator[tuple[str, str | int | bool]]:
    for key, value in meta:
        if isinstance(value, bytes):
            yield key, value.decode("utf-8", "backslashreplace")
        elif isinstance(value, str | int | bool):
            yield key, value
        elif isinstance(value, float):
            yield key, repr(value)


class YaraScanner:
    """The matches in one stream, as the scanners of `windows` find them.

    Args:
        rules: the rules.
        first: row of the first pattern of the rules among all patterns.
        context: bytes that are kept on each side of a match.
        window: bytes that are scanned at once.
    """

    def __init__(self, rules: YaraRules, first: int, context: int, window: int) -> None:
        self._rules, self._first, self._context, self._window = rules, first, context, window
        self._kept, self._base = bytearray(), 0
        self._known: set[tuple[int, int]] = set()
        self._found: list[StreamMatch] = []
        self.is_cut = False

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        self._kept += data
        while len(self._kept) > self._window:
            self._rules.windowed += not self._base
            self._scan(self._window)
            step = self._window - OVERLAP
            del self._kept[:step]
            self._base += step

    def finish(self) -> list[StreamMatch]:
        """All matches."""
        if self._kept:
            self._scan(len(self._kept))
            self._kept.clear()
        return self._found

    def _scan(self, size: int) -> None:
        data = bytes(self._kept[:size])
        for row, low, high in self._rules.matches(data):
            key = row, self._base + low if high > low else 0
            if key in self._known:
                continue
            if len(self._found) == MOST_FOUND:
                self.is_cut = True
                return
            self._known.add(key)
            end = high + self._context if high > low else 0
            span = HitBytes(data[max(low - self._context, 0) : low], data[low:high], data[high:end])
            self._found.append(StreamMatch(self._first + row, key[1], high - low, span))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """(file of rules, its namespace)."""
    for path in paths:
        if not path.is_dir():
            yield path, _DEFAULT
            continue
        found = sorted(one for one in path.rglob("*") if one.suffix.lower() in _SUFFIXES)
        if not found:
            raise RequestError(f"{path}: no file ends in .yar or .yara")
        for one in found:
            yield one, str(one.relative_to(path).with_suffix(""))


def _source(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_RULES + 1)
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from error
    if len(data) > _MOST_RULES:
        raise RequestError(f"{path}: has more than {_MOST_RULES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: is not text in UTF-8: byte {error.start:,}") from error


def _complaint(path: Path, compiler: yara_x.Compiler, error: Exception) -> str:
    """The first error in one line, with file, line and column."""
    found = compiler.errors()
    errors = json.loads(found) if isinstance(found, str) else found
    if not errors:
        return f"{path}: {str(error).splitlines()[0]}"
    first = errors[0]
    labels = first.get("labels") or [{}]
    origin, detail = labels[0].get("code_origin") or path, labels[0].get("text", "")
    place = f"{origin}:{first.get('line', 0)}:{first.get('column', 0)}"
    return f"{place}: {first['title']}" + (f": {detail}" if detail else "")
