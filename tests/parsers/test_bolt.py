"""Databases of bbolt are read, and damaged ones refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.errors import CorruptError
from ext4kit.parsers.bolt import BoltBucket, BoltDatabase

PAGE = 4096
_BRANCH, _LEAF, _META = 1, 2, 4


def _page(number: int, flags: int, count: int, body: bytes, overflow: int = 0) -> bytes:
    head = struct.pack("<QHHI", number, flags, count, overflow)
    return (head + body).ljust(PAGE * (1 + overflow), b"\0")


def _fnv(data: bytes) -> int:
    found = 14695981039346656037
    for byte in data:
        found = ((found ^ byte) * 1099511628211) % (1 << 64)
    return found


def _meta(number: int, root: int, txid: int) -> bytes:
    body = struct.pack("<IIIIQQQQQ", 0xED0CDAED, 2, PAGE, 0, root, 0, 2, 9, txid)
    return _page(number, _META, 0, body + struct.pack("<Q", _fnv(body)))


def _leaf(number: int, pairs: list[tuple[bytes, bytes, int]]) -> bytes:
    elements, data = b"", b""
    for row, (key, value, flags) in enumerate(pairs):
        position = 16 * (len(pairs) - row) + len(data)
        elements += struct.pack("<IIII", flags, position, len(key), len(value))
        data += key + value
    body = elements + data
    return _page(number, _LEAF, len(pairs), body, max(0, (len(body) + 16 - 1) // PAGE))


def _branch(number: int, children: list[tuple[bytes, int]]) -> bytes:
    elements, data = b"", b""
    for row, (key, page) in enumerate(children):
        position = 16 * (len(children) - row) + len(data)
        elements += struct.pack("<IIQ", position, len(key), page)
        data += key
    return _page(number, _BRANCH, len(children), elements + data)


def _everything(bucket: BoltBucket) -> dict[bytes, object]:
    return {
        key: value if isinstance(value, bytes) else _everything(value)
        for key, value in bucket.items()
    }


def test_pages_and_buckets_are_read() -> None:
    inline = struct.pack("<QQ", 0, 0) + _leaf(0, [(b"in", b"line", 0)])[:64]
    large = b"L" * 9000
    data = b"".join([
        _meta(0, 3, 5), _meta(1, 9, 4), _page(2, 0x10, 0, b""),
        _branch(3, [(b"a", 4), (b"m", 5)]),
        _leaf(4, [(b"a", b"1", 0), (b"b", struct.pack("<QQ", 8, 7), 1)]),
        _leaf(5, [(b"m", inline, 1), (b"z", large, 0)]),
        _leaf(8, [(b"deep", b"down", 0)]),
    ])  # fmt: skip
    assert len(data) == 9 * PAGE  # page 5 has two more
    found = BoltDatabase(data).root
    assert _everything(found) == {
        b"a": b"1", b"b": {b"deep": b"down"}, b"m": {b"in": b"line"}, b"z": large,
    }  # fmt: skip
    below = found.at(b"b")
    assert below is not None and below.values() == {b"deep": b"down"}
    assert found.at(b"b", b"none") is None


def test_the_newer_of_two_valid_metas_counts() -> None:
    pages = _leaf(2, [(b"old", b"", 0)]) + _leaf(3, [(b"new", b"", 0)])
    first, second = _meta(0, 2, 6), _meta(1, 3, 7)
    assert _everything(BoltDatabase(first + second + pages).root) == {b"new": b""}
    torn = second[:60] + b"\xff" + second[61:]
    assert _everything(BoltDatabase(first + torn + pages).root) == {b"old": b""}
    torn = bytes(PAGE)
    assert _everything(BoltDatabase(torn + second + pages).root) == {b"new": b""}


@pytest.mark.parametrize(
    "pages",
    [
        _branch(2, [(b"a", 2)]),
        _branch(2, [(b"a", 99)]),
        _page(2, _LEAF, 60000, b""),
        _page(2, 0, 0, b""),
        _page(2, _LEAF, 1, struct.pack("<IIII", 0, 16, 4000, 4000)),
        _page(2, _LEAF, 2, struct.pack("<IIII", 0, 32, 10, 3000) * 2),
        _page(2, _LEAF, 1, struct.pack("<IIII", 1, 16, 1, 3) + b"keyv"),
    ],
)
def test_damaged_trees_are_errors(pages: bytes) -> None:
    with pytest.raises(CorruptError):
        _everything(BoltDatabase(_meta(0, 2, 1) + _meta(1, 2, 0) + pages).root)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_database_or_an_error(noise: bytes) -> None:
    whole = _meta(0, 2, 1) + _meta(1, 2, 0) + _page(2, _LEAF, 3, noise)
    for data in (noise, whole, whole[: 8000 + len(noise)]):
        try:
            _everything(BoltDatabase(data).root)
        except CorruptError:
            continue
