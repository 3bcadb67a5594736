"""One flipped bit in anything that a checksum covers is found, and the right structure named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ext4kit
from ext4kit.errors import Ext4kitError
from ext4kit.verify import Finding, verify
from tests.environment import needs
from tests.verify.places import Place, make, make_protected, places, protected_places

FEW, MANY = 200, 2000
needs_tools = needs("debugfs", "dumpe2fs", "e2fsck", "mke2fs")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[Place]]]:
    folder = tmp_path_factory.mktemp("flipped")
    image, protected = folder / "image", folder / "protected"
    make(image, folder / "content")
    make_protected(protected)
    return [(image, places(image)), (protected, protected_places(protected))]


def findings(image: Path) -> list[Finding]:
    with ext4kit.open(image) as opened:
        return verify(opened.volume().filesystem(replay=False)).findings.kept


def flip(image: Path, bit: int) -> None:
    with image.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def missed(image: Path, place: Place, bit: int) -> str:
    """What is wrong with what is found after one bit was flipped; "" when it is right."""
    flip(image, bit)
    try:
        found = findings(image)
    except Ext4kitError as error:
        return f"{place} bit {bit - 8 * place.start}: {error}"
    finally:
        flip(image, bit)
    inside = range(place.start, place.start + place.length)
    if any(one.structure == place.structure and one.byte in inside for one in found):
        return ""
    return f"{place} bit {bit - 8 * place.start}: {[(one.code, one.structure) for one in found]}"


def chosen(images: list[tuple[Path, list[Place]]], count: int) -> list[tuple[Path, Place, int]]:
    """Bits to flip: each kind of structure as often as the others."""
    rng = random.Random(20)
    by_kind: dict[str, list[tuple[Path, Place]]] = {}
    for image, known in images:
        for place in known:
            by_kind.setdefault(place.structure, []).append((image, place))
    kinds = sorted(by_kind)
    bits = []
    for number in range(count):
        image, place = rng.choice(by_kind[kinds[number % len(kinds)]])
        bits.append((image, place, 8 * place.start + rng.randrange(8 * place.length)))
    return bits


@pytest.mark.heavy
@needs_tools
def test_the_untouched_images_give_no_finding(images: list[tuple[Path, list[Place]]]) -> None:
    assert [findings(image) for image, _ in images] == [[], []]


@pytest.mark.heavy
@needs_tools
def test_a_flipped_bit_is_found_and_named(images: list[tuple[Path, list[Place]]]) -> None:
    wrong = [words for bit in chosen(images, FEW) if (words := missed(*bit))]
    assert not wrong, "\n".join(wrong)


@needs_tools
@pytest.mark.slow
def test_any_of_many_flipped_bits_is_found_and_named(
    images: list[tuple[Path, list[Place]]],
) -> None:
    wrong = [words for bit in chosen(images, MANY) if (words := missed(*bit))]
    assert not wrong, "\n".join(wrong)
