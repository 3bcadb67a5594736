"""Databases of bbolt, in which containerd and Podman keep their records.

A database is a B+tree of pages. A value of a leaf is either bytes or a bucket, which is a tree of
its own; the root page of a small bucket is stored in the value itself. Source: page.go, bucket.go
and db.go of go.etcd.io/bbolt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Layout, Row
from ext4kit.parsers.words import Int16ul, Int32ul, Int64ul, Struct

PAGE = Layout(
    "bolt page",
    Struct(
        "id" / Int64ul,
        "flags" / Int16ul,  # BRANCH, LEAF, META or free list
        "count" / Int16ul,  # elements
        "overflow" / Int32ul,  # further pages that belong to it
    ),
)
META = Layout(
    "bolt meta page",
    Struct(
        "magic" / Int32ul,  # MAGIC
        "version" / Int32ul,  # 2
        "pageSize" / Int32ul,
        "flags" / Int32ul,
        "root" / Int64ul,  # page of the root bucket
        "sequence" / Int64ul,
        "freelist" / Int64ul,
        "pgid" / Int64ul,  # number of pages
        "txid" / Int64ul,
        "checksum" / Int64ul,  # FNV-1a of all before it
    ),
)
BRANCH_ELEMENT = Layout(
    "bolt branch element",
    Struct("pos" / Int32ul, "ksize" / Int32ul, "pgid" / Int64ul),
)
LEAF_ELEMENT = Layout(
    "bolt leaf element",
    Struct(
        "flags" / Int32ul,  # IS_BUCKET
        "pos" / Int32ul,  # of key and value, from the start of the element
        "ksize" / Int32ul,
        "vsize" / Int32ul,
    ),
)
BUCKET = Layout("bolt bucket", Struct("root" / Int64ul, "sequence" / Int64ul))

MAGIC, VERSION = 0xED0CDAED, 2
BRANCH, LEAF = 1, 2
IS_BUCKET = 1
_MOST_DEPTH = 32
_FNV_START, _FNV_PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


@dataclass(frozen=True)
class BoltBucket:
    """A bucket: keys with values, which are bytes or further buckets.

    Attributes:
        database: it belongs to.
        root: number of its root page; 0 for one that is stored in its value.
        inline: that page.
    """

    database: BoltDatabase = field(repr=False)
    root: int
    inline: bytes = field(default=b"", repr=False)

    def items(self) -> Iterator[tuple[bytes, bytes | BoltBucket]]:
        """The keys, in their order, and their values.

        Raises:
            CorruptError: a page is damaged, or the tree has a loop.
        """
        page = self.database.page(self.root) if self.root else self.inline
        yield from self._below(page, {self.root}, 0)

    def values(self) -> dict[bytes, bytes]:
        """The values that are bytes.

        Raises:
            CorruptError: as `items`.
        """
        return {key: value for key, value in self.items() if isinstance(value, bytes)}

    def buckets(self) -> dict[bytes, BoltBucket]:
        """The values that are buckets.

        Raises:
            CorruptError: as `items`.
        """
        return {key: value for key, value in self.items() if not isinstance(value, bytes)}

    def at(self, *names: bytes) -> BoltBucket | None:
        """The bucket below this one at a path; None if there is none.

        Raises:
            CorruptError: as `items`.
        """
        found: BoltBucket | None = self
        for name in names:
            found = None if found is None else found.buckets().get(name)
        return found

    def _below(
        self, page: bytes, seen: set[int], depth: int
    ) -> Iterator[tuple[bytes, bytes | BoltBucket]]:
        head = PAGE.first(page)
        if depth > _MOST_DEPTH or not head.flags & (BRANCH | LEAF):
            raise CorruptError(PAGE.name, None, f"page {head.id} is not part of a tree")
        room = len(page)
        for place, element in _elements(page, head):
            if head.flags & BRANCH:
                if element.pgid in seen:
                    raise CorruptError(PAGE.name, None, f"page {element.pgid} is in a loop")
                seen.add(element.pgid)
                yield from self._below(self.database.page(element.pgid), seen, depth + 1)
                continue
            start = place + element.pos
            middle, end = start + element.ksize, start + element.ksize + element.vsize
            room -= end - start
            if end > len(page) or room < 0:
                raise CorruptError(LEAF_ELEMENT.name, place, "keys and values exceed the page")
            key, value = page[start:middle], page[middle:end]
            if element.flags & IS_BUCKET:
                root = int(BUCKET.first(value).root)
                yield key, BoltBucket(self.database, root, value[BUCKET.size :])
            else:
                yield key, value


def _elements(page: bytes, head: Row) -> Iterator[tuple[int, Row]]:
    """The elements of a page, each with its byte offset."""
    layout = BRANCH_ELEMENT if head.flags & BRANCH else LEAF_ELEMENT
    for row in range(head.count):
        place = PAGE.size + row * layout.size
        yield place, layout.first(page, place)


class BoltDatabase:
    """A database.

    Args:
        data: the whole file; one that was cut off is read as far as it goes.

    Raises:
        CorruptError: neither meta page is valid.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        meta = max(_metas(data), key=lambda one: int(one.txid), default=None)
        if meta is None:
            raise CorruptError(META.name, 0, "neither of the two is valid")
        self.page_size = int(meta.pageSize)
        self.root = BoltBucket(self, int(meta.root))

    def page(self, number: int) -> bytes:
        """A page, with the pages that belong to it.

        Raises:
            CorruptError: it lies beyond the end.
        """
        start = number * self.page_size
        overflow = int(PAGE.first(self._data, start).overflow)
        return self._data[start : start + (1 + overflow) * self.page_size]


def _metas(data: bytes) -> Iterator[Row]:
    """The valid meta pages; the second one is found by the page size of the first, or tried."""
    sizes = [1 << power for power in range(9, 17)]
    for start in (0, *sizes):
        try:
            meta = META.first(data, start + PAGE.size)
        except CorruptError:
            return
        is_ours = (meta.magic, meta.version) == (MAGIC, VERSION)
        raw = data[start + PAGE.size :][: META.offset_of("checksum")]
        is_sane = meta.pageSize in sizes and start in (0, meta.pageSize)
        if is_ours and is_sane and meta.checksum in (0, fnv1a(raw)):
            yield meta


def fnv1a(data: bytes) -> int:
    """FNV-1a of 64 bits."""
    found = _FNV_START
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & _WORD
    return found
