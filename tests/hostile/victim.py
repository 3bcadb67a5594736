"""A small sound image in memory, to be patched so that it says what no file system can mean."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import ext4kit
from ext4kit.parsers.superblock import SUPERBLOCK
from tests.fuzz import images
from tests.fuzz.places import Anatomy, Place

EXTENT_MAGIC = 0xF30A
SIZE_LOW, DTIME, FLAGS, MAP, ACL, SIZE_HIGH = 0x04, 0x14, 0x20, 0x28, 0x68, 0x6C
Change = Callable[["Victim"], None]


@cache
def number_of(name: str, path: str) -> int:
    """The inode number of a path in a base that is sound."""
    with ext4kit.open(images.made(name)) as image:
        return image.volumes[0].filesystem(replay=False).lookup(path)


@dataclass(slots=True)
class Victim:
    """An image that is being damaged; every checksum is made to fit when it is written.

    Attributes:
        base: its name in `tests.fuzz.images.BASES`.
    """

    base: str = "ext4"
    image: bytearray = field(default_factory=bytearray)
    touched: list[Place] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.image = bytearray(self.body.data)

    @property
    def body(self) -> Anatomy:
        return images.body_of(self.base)

    @property
    def block_size(self) -> int:
        return self.body.superblock.block_size

    def put(self, place: Place, at: int, form: str, *values: int | bytes) -> None:
        """Change numbers of a structure."""
        struct.pack_into(form, self.image, place.offset + at, *values)
        if place not in self.touched:
            self.touched.append(place)

    def superblock(self, **values: int) -> None:
        """Set fields of the superblock; the widths are the structure's own."""
        place = self.body.places["superblock"][0]
        for name, value in values.items():
            width = SUPERBLOCK.dtype[name].itemsize
            start = place.offset + SUPERBLOCK.offset_of(name)
            self.image[start : start + width] = value.to_bytes(width, "little")
        self.touched.append(place)

    def with_features(self, compat: int = 0, incompat: int = 0, ro_compat: int = 0) -> None:
        """Set further feature bits."""
        words = self.body.superblock.features
        self.superblock(
            s_feature_compat=int(words.compat) | compat,
            s_feature_incompat=int(words.incompat) | incompat,
            s_feature_ro_compat=int(words.ro_compat) | ro_compat,
        )

    def with_shared_directories(self) -> None:
        """Make a directory of each inode that is no reserved one; all have the same blocks."""
        for place in self.body.places["inode"][11:]:
            self.put(place, 0, "<H", 0o040755)
            self.put(place, FLAGS, "<I", 0x80000)
            self.root(place.number, (0, 4000, 1))
            self.size(place.number, 4000 * 1024)

    def inode(self, path: str | int) -> Place:
        """Where an inode lies, by path or number."""
        number = path if isinstance(path, int) else number_of(self.base, path)
        return next(one for one in self.body.places["inode"] if one.number == number)

    def of(self, kind: str, path: str) -> list[Place]:
        """Blocks of a kind ("extents", "directory", "xattr") that belong to a file."""
        number = number_of(self.base, path)
        return [one for one in self.body.places[kind] if one.number == number]

    def size(self, path: str | int, value: int) -> None:
        """Set i_size."""
        place = self.inode(path)
        self.put(place, SIZE_LOW, "<I", value & 0xFFFFFFFF)
        self.put(place, SIZE_HIGH, "<I", value >> 32)

    def root(self, path: str | int, *entries: tuple[int, ...], depth: int = 0) -> None:
        """A root of an extent tree: (file block, blocks, block), or (file block, child)."""
        self.node(self.inode(path), MAP, entries, depth, 4)

    def node(
        self, place: Place, at: int, entries: tuple[tuple[int, ...], ...], depth: int, most: int
    ) -> None:
        """A node of an extent tree."""
        self.put(place, at, "<HHHHI", EXTENT_MAGIC, len(entries), most, depth, 0)
        for slot, entry in enumerate(entries):
            where = at + 12 + 12 * slot
            if depth:
                self.put(place, where, "<IIHH", entry[0], entry[1], 0, 0)
            else:
                self.put(place, where, "<IHHI", entry[0], entry[1], 0, entry[2])

    def block(self, place: Place) -> int:
        """The number of the block that a structure fills."""
        return place.offset // self.block_size

    def write(self, path: Path) -> Path:
        """The image as a file."""
        for place in self.touched:
            self.body.seal(self.image, place)
        path.write_bytes(self.image)
        return path
