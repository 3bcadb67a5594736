"""Digests in lists of text: lines of `sha256sum` and its like, CSV, hashdeep, JSON lines.

A list is read a megabyte at a time, and the lines of each piece are parsed together as arrays.
Of a line with several digests the strongest one counts.

Sources: the manual of GNU coreutils (md5sum: escaped names, --tag), the README of NSRL RDS 2.x for
its columns, FILEFORMAT of hashdeep 1.0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ext4kit.arrays.types import Bools, Bytes2D, Int64s, UInt8s
from ext4kit.known.table import DIGITS

_AT_ONCE = 1 << 20  # bytes
_LONGEST = 1 << 20  # bytes of a line
_PADDING = bytes(80)  # what may be looked at beyond the last line
_HEAD_LINES = 40  # lines in which the names of columns are looked for
_NUMBER_DIGITS = 18
_SAMPLE = 64  # lines that tell which digest is the usual one
_SEPARATORS = ",;\t"
_COMMENTS = np.frombuffer(b"#%;", np.uint8)
_QUOTE, _RETURN, _BACKSLASH, _BLANK, _EQUALS = b'"\r\\ ='
_NO_DIGIT = 0x80  # in place of the value of a hexadecimal digit
_VALUES = bytes(
    int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else _NO_DIGIT
    for byte in range(256)
)
_NO_DIGITS = np.uint64(0x8080808080808080)
_WORDS = np.array([chr(byte).isalnum() and byte < 128 for byte in range(256)])
_TAGS = {  # before the name in BSD's form of a line, and in that of openssl
    32: (b"MD5 (", b"MD5("),
    40: (b"SHA1 (", b"SHA1("),
    64: (b"SHA256 (", b"SHA256(", b"SHA2-256("),
}
_JSON = {
    digits: re.compile(rb'"%s": ?"([0-9a-fA-F]{%d})"' % (name.encode(), digits))
    for digits, name in DIGITS.items()
}
_JSON_SIZE = re.compile(rb'"size": ?(\d{1,%d})\b' % _NUMBER_DIGITS)
_NOISE = re.compile(r"[^a-z0-9]|hash|sum|value|digest|check|file|lowercase|hex")
_SIZE_NAMES = ("filesize", "size", "bytes", "length", "logicalsize", "sizebytes", "filesizebytes")


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a list.

    Attributes:
        data: uint8, the bytes with padding after them.
        values: uint8, the value of each as a hexadecimal digit, `_NO_DIGIT` for others.
        start, end: int64 (lines,), where each line starts and ends, without the line break.
    """

    data: UInt8s
    values: UInt8s
    start: Int64s
    end: Int64s

    @classmethod
    def of(cls, data: bytes) -> Lines:
        """The lines of bytes that end with a line break."""
        padded = data + _PADDING
        array, values = (
            np.frombuffer(each, np.uint8) for each in (padded, padded.translate(_VALUES))
        )
        end = np.flatnonzero(array == ord("\n"))
        start = np.zeros_like(end)
        start[1:] = end[:-1] + 1
        return cls(array, values, start, end - ((end > start) & (array[end - 1] == _RETURN)))

    @property
    def say_nothing(self) -> Bools:
        """True for empty lines and comments."""
        return (self.end <= self.start) | np.isin(self.data[self.start], _COMMENTS)


@dataclass(slots=True)
class Parsed:
    """Digests of some lines.

    Attributes:
        rows: by number of hexadecimal digits: uint8 (digests, bytes of one).
        sizes: int64, of the files, or None if one of them is not stated.
        is_bad: bool (lines,), True for lines that should have a digest and have none.
    """

    rows: dict[int, list[Bytes2D]] = field(default_factory=dict)
    sizes: Int64s | None = None
    is_bad: Bools = field(default_factory=lambda: np.zeros(0, bool))

    def add(self, found: dict[int, Bytes2D]) -> None:
        """Add digests."""
        for digits, rows in found.items():
            self.rows.setdefault(digits, []).append(rows)


Parser = Callable[[Lines], Parsed]


# ------------------------------------------------------------------------------------ reading


def pieces(stream: BinaryIO) -> Iterator[bytes]:
    """A megabyte of whole lines at a time; of a line that is far too long, an empty one."""
    rest, is_cut = b"", False
    while data := stream.read(_AT_ONCE):
        whole, line_break, tail = data.rpartition(b"\n")
        if not line_break:
            rest, is_cut = (
                (b"", True) if len(rest) + len(tail) > _LONGEST else (rest + tail, is_cut)
            )
            continue
        whole = whole.partition(b"\n")[2] if is_cut else rest + whole
        rest, is_cut = tail, False
        yield (whole + b"\n") if whole else b""
    if rest:
        yield rest + b"\n"


def parser_of(head: bytes) -> tuple[Parser, int]:
    """What reads a list that starts like this, and how many of its lines are no data."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines()[:_HEAD_LINES]
    if text.startswith("%%%% HASHDEEP") and len(lines) > 1:
        columns = _columns(lines[1].strip("% ").split(","), ",", is_quoted=False)
        return columns or sums, 2
    if text.lstrip().startswith("{"):
        return json_lines, 0
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        for separator in _SEPARATORS:
            names = next(csv.reader([line], delimiter=separator), [])
            if len(names) > 1 and (columns := _columns(names, separator, is_quoted=True)):
                return columns, number
        return (sums, number if _digits_of(line) is not None else 0)
    return sums, 0


def _columns(names: Sequence[str], separator: str, is_quoted: bool) -> Parser | None:
    """A parser for columns of these names; None if none of them is for a hash."""
    hashes = [(_digits_of(name), place) for place, name in enumerate(names)]
    chosen = sorted(((digits, place) for digits, place in hashes if digits is not None),
                    key=lambda pair: -pair[0])  # fmt: skip
    if not chosen:
        return None
    plain = [re.sub("[^a-z]", "", name.lower()) for name in names]
    size = next((plain.index(name) for name in _SIZE_NAMES if name in plain), None)
    return _Columns(tuple(chosen), size, ord(separator), is_quoted)


def _digits_of(name: str) -> int | None:
    """The digits in a column of this name: 0 for a hash of any kind, None for no hash."""
    low = name.lower()
    plain = _NOISE.sub("", low)
    for digits, algorithm in DIGITS.items():
        if plain in (algorithm, algorithm.replace("sha", "sha2")):
            return digits
    is_any = not plain and any(word in low for word in ("hash", "digest", "checksum"))
    return 0 if is_any else None


# ------------------------------------------------------------------------------------ parsing


def sums(lines: Lines) -> Parsed:
    """Lines that start with a digest, or end with one after a tag of BSD."""
    data = lines.data
    first = data[lines.start]
    start = lines.start + ((first == _QUOTE) | (first == _BACKSLASH))
    parsed = Parsed()
    found, digits = digests_at(lines, start)
    parsed.add(found)
    left = np.flatnonzero((digits == 0) & ~lines.say_nothing)
    if len(left):
        tagged = _tagged(lines, start, left)
        for count, rows in tagged.items():
            parsed.add(digests_at(lines, lines.end[rows] - count, (count,))[0])
            digits[rows] = count
    parsed.is_bad = (digits == 0) & ~lines.say_nothing
    return parsed


def _tagged(lines: Lines, start: Int64s, rows: Int64s) -> dict[int, Int64s]:
    """Rows of lines such as `MD5 (name) = digits`, by the number of digits."""
    data, found = lines.data, {}
    heads = sliding_window_view(data, 16)[start[rows]]
    for digits, tags in _TAGS.items():
        is_of = np.zeros(len(rows), bool)
        for tag in tags:
            is_of |= (heads[:, : len(tag)] == np.frombuffer(tag, np.uint8)).all(axis=1)
        some = rows[is_of]
        at = lines.end[some] - digits
        is_long = at > start[some] + 4
        some, at = some[is_long], at[is_long]
        is_sum = (data[at - 1] == _BLANK) & (data[at - 2] == _EQUALS)
        some = some[is_sum]
        found[digits] = some[digests_at(lines, lines.end[some] - digits, (digits,))[1] == digits]
    return found


@dataclass(frozen=True, slots=True)
class _Columns:
    """Lines of fields, of which some are digests.

    Attributes:
        hashes: (digits, or 0 for any; place) of the fields, the strongest first.
        size: place of the field that has the size.
    """

    hashes: tuple[tuple[int, int], ...]
    size: int | None
    separator: int
    is_quoted: bool

    def __call__(self, lines: Lines) -> Parsed:
        parsed = Parsed()
        field_start = self._fields(lines)
        left = np.arange(len(lines.start))
        for digits, place in self.hashes:
            wanted = (digits,) if digits else tuple(DIGITS)
            found, count = digests_at(lines, field_start(place)[left], wanted)
            parsed.add(found)
            left = left[count == 0]
        has_digest = np.ones(len(lines.start), bool)
        has_digest[left] = False
        parsed.is_bad = ~has_digest & ~lines.say_nothing
        if self.size is not None:
            sizes = numbers_at(lines.data, field_start(self.size)[has_digest])
            parsed.sizes = sizes if not len(sizes) or sizes.min() >= 0 else None
        return parsed

    def _fields(self, lines: Lines) -> Callable[[int], Int64s]:
        """Gives the start of a field of each line; the padding for a field that is not there."""
        data, nothing = lines.data, len(lines.data) - len(_PADDING)
        at = np.flatnonzero(data == self.separator)
        if self.is_quoted:
            at = at[~_are_quoted(lines, at)]
        first = np.searchsorted(at, lines.start)
        at = np.append(at, nothing)

        def start_of(place: int) -> Int64s:
            start = lines.start
            if place:
                before = at[np.minimum(first + place - 1, len(at) - 1)]
                start = np.where(before < lines.end, before + 1, nothing)
            is_quoted = self.is_quoted & (data[start] == _QUOTE)
            found: Int64s = start + is_quoted
            return found

        return start_of


def _are_quoted(lines: Lines, at: Int64s) -> Bools:
    """True for bytes between quotation marks; a mark that is not closed ends with its line."""
    is_mark = lines.data == _QUOTE
    if not is_mark.any():
        return np.zeros(len(at), bool)
    inside = np.bitwise_xor.accumulate(is_mark)
    found: Bools = inside[at]
    if inside[lines.end].any():
        line = np.searchsorted(lines.start, at, "right") - 1
        before = lines.start[line] - 1
        found ^= np.where(before >= 0, inside[before], False)
    return found


def json_lines(lines: Lines) -> Parsed:
    """Records with a field `sha256`, `sha1` or `md5`; others are no digests and not bad."""
    text, parsed = lines.data.tobytes(), Parsed()
    for digits, pattern in _JSON.items():
        if values := pattern.findall(text):
            joined = bytes.fromhex(b"".join(values).decode())
            parsed.add({digits: np.frombuffer(joined, np.uint8).reshape(-1, digits // 2)})
            sizes = np.array(_JSON_SIZE.findall(text)).astype(np.int64)
            parsed.sizes = sizes if len(sizes) == len(values) else None
            break
    parsed.is_bad = (lines.data[lines.start] != ord("{")) & ~lines.say_nothing
    return parsed


def digests_at(
    lines: Lines, start: Int64s, wanted: Sequence[int] = tuple(DIGITS)
) -> tuple[dict[int, Bytes2D], Int64s]:
    """The digests at some places, and the number of digits at each place, 0 for no digest.

    Args:
        lines: the lines.
        start: places in their bytes.
        wanted: numbers of digits, multiples of 8.
    """
    found, count = dict[int, Bytes2D](), np.zeros(len(start), np.int64)
    frequent = {digits: int(_have(lines, start[:_SAMPLE], digits)[0].sum()) for digits in wanted}
    for digits in sorted(wanted, key=lambda each: -frequent[each]):
        left = np.flatnonzero(count == 0)
        if not len(left):
            break
        is_of, values = _have(lines, start[left], digits)
        count[left[is_of]] = digits
        if is_of.any():
            pairs = (values if is_of.all() else values[is_of]).view("<u2")
            found[digits] = ((pairs << 4) | (pairs >> 8)).astype(np.uint8)
    return found, count


def _have(lines: Lines, start: Int64s, digits: int) -> tuple[Bools, Bytes2D]:
    """True for places at which there are just so many digits; and the values from there."""
    values = sliding_window_view(lines.values, digits)[start]
    is_of = np.bitwise_or.reduce(values.view(np.uint64), axis=1) & _NO_DIGITS == 0
    return is_of & ~_WORDS[lines.data[start + digits]], values


def numbers_at(data: UInt8s, start: Int64s) -> Int64s:
    """The decimal numbers at some places, -1 where there is none or it is too long."""
    window = sliding_window_view(data, _NUMBER_DIGITS + 1)[start] - np.uint8(ord("0"))
    count = (window > 9).argmax(axis=1)  # 0 also where all are digits
    found = np.zeros(len(start), np.int64)
    for place in range(int(count.max(initial=0))):
        found = np.where(count > place, found * 10 + window[:, place], found)
    found[count == 0] = -1
    return found
