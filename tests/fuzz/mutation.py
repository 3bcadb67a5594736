"""Damage done to a sound image: a few values of its metadata changed, checksums made to fit.

A mutation is a list of patches, so that a found case is a few lines of JSON and a base's name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.fuzz.places import Anatomy, Place

# How many bytes at a structure's start hold most of what matters, and how often it is chosen.
_HEADS = {
    "superblock": (0x280, 4),
    "descriptor": (32, 4),
    "inode": (160, 8),
    "extents": (48, 4),
    "directory": (64, 5),
    "xattr": (96, 3),
    "journal": (96, 6),
    "copy": (160, 3),
    "fast": (300, 8),
    "orphan": (1024, 2),
}
_WIDTHS = (1, 2, 2, 4, 4, 4, 8)
_NOTABLE = (0, 1, 2, 3, 4, 7, 8, 11, 12, 15, 31, 63, 127, 128, 255, 256, 1023, 1024, 4096, 32768,
            65535)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Patch:
    """Bytes that stand at an offset of the image instead of its own."""

    offset: int
    data: bytes


def mutated(body: Anatomy, chance: random.Random) -> list[Patch]:
    """One to six changed values, most of them under checksums that fit."""
    image = bytearray(body.data)
    touched: list[Place] = []
    for _ in range(chance.choice((1, 1, 2, 2, 3, 6))):
        if chance.random() < 0.04:
            _random_bytes(image, chance)
            continue
        place = _chosen(body, chance)
        _change(image, body, place, chance)
        touched.append(place)
    for place in touched:
        if chance.random() < 0.75:
            body.seal(image, place)
    return differences(body.data, image)


def _chosen(body: Anatomy, chance: random.Random) -> Place:
    kinds = [kind for kind in _HEADS if body.places.get(kind)]
    kind = chance.choices(kinds, [_HEADS[kind][1] for kind in kinds])[0]
    places = body.places[kind]
    if kind == "inode" and chance.random() < 0.3:
        return chance.choice(places[:11])  # the reserved ones: root, journal, resize, quota
    return chance.choice(places)


def _random_bytes(image: bytearray, chance: random.Random) -> None:
    start, length = chance.randrange(len(image)), chance.choice((1, 4, 64, 512))
    data = chance.randbytes(min(length, len(image) - start))
    image[start : start + len(data)] = data


def _change(image: bytearray, body: Anatomy, place: Place, chance: random.Random) -> None:
    """One value of the structure; or all of it, taken from another of its kind."""
    if chance.random() < 0.05:
        other = chance.choice(body.places[place.kind])
        length = min(place.length, other.length)
        image[place.offset : place.offset + length] = body.data[other.offset :][:length]
        return
    width = chance.choice(_WIDTHS)
    head = _HEADS[place.kind][0] if chance.random() < 0.8 else place.length
    at = chance.randrange(0, max(min(head, place.length) - width, 1), min(width, 4))
    order = "big" if place.kind == "journal" else "little"
    start = place.offset + at
    old = int.from_bytes(image[start : start + width], order)  # type: ignore[arg-type]
    value = _value(old, width, body, chance) & ((1 << 8 * width) - 1)
    image[start : start + width] = value.to_bytes(width, order)  # type: ignore[arg-type]


def _value(old: int, width: int, body: Anatomy, chance: random.Random) -> int:
    """A value at an edge, beside the old one, or one that leads elsewhere in the image."""
    choice = chance.randrange(7)
    if choice == 0:
        return chance.choice(_NOTABLE)
    if choice == 1:
        return -chance.choice((1, 1, 2, 4, 256, 4096))
    if choice == 2:
        return old + chance.choice((-1, 1, 4, 8, -4, 256))
    if choice == 3:
        return old ^ 1 << chance.randrange(8 * width)
    if choice == 4:
        kind = chance.choice([kind for kind in body.places if body.places[kind]])
        place = chance.choice(body.places[kind])
        return place.offset // body.superblock.block_size if chance.random() < 0.6 else place.number
    if choice == 5:
        return 1 << chance.randrange(8 * width)
    return chance.getrandbits(8 * width)


def differences(before: bytes, after: bytearray) -> list[Patch]:
    """The stretches that differ, by pieces of 64 KiB so that equal ones cost nothing."""
    found: list[Patch] = []
    piece = 1 << 16
    for start in range(0, len(before), piece):
        if before[start : start + piece] == after[start : start + piece]:
            continue
        at, end = start, min(start + piece, len(before))
        while at < end:
            if before[at] == after[at]:
                at += 1
                continue
            stop = at
            while stop < end and before[stop : stop + 8] != after[stop : stop + 8]:
                stop += 1
            found.append(Patch(at, bytes(after[at:stop])))
            at = stop
    return found
