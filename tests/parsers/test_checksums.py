"""Checksums: published check values, the bulk form, and what dumpe2fs prints of an image."""

from __future__ import annotations

import re
import struct
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.parsers.checksums import ONES, crc16, crc32_big_endian, crc32c, crc32c_rows
from tests.parsers.reference import Image, make_image, run

CHECK = b"123456789"  # the string of the catalogue of parametrised CRC algorithms
SUPERBLOCK, SUPERBLOCK_SIZE = 1024, 1024


def test_crc32c_gives_the_check_value_before_its_last_inversion() -> None:
    assert crc32c(ONES, CHECK) ^ ONES == 0xE3069283  # CRC-32/ISCSI


def test_crc16_gives_the_check_value() -> None:
    assert crc16(0, CHECK) == 0xBB3D  # CRC-16/ARC
    assert crc16(0xFFFF, CHECK) == 0x4B37  # CRC-16/MODBUS: the same with another start


def test_crc32_big_endian_gives_the_check_value() -> None:
    assert crc32_big_endian(ONES, CHECK) == 0x0376E6E7  # CRC-32/MPEG-2


@given(st.binary(max_size=70), st.integers(0, 70), st.integers(0, ONES))
def test_a_register_is_handed_on_from_piece_to_piece(data: bytes, cut: int, seed: int) -> None:
    assert crc32c(crc32c(seed, data[:cut]), data[cut:]) == crc32c(seed, data)


@given(st.integers(0, 40), st.integers(0, 5), st.integers(0, ONES), st.data())
def test_rows_get_the_register_that_each_gets_alone(
    length: int, count: int, seed: int, data: st.DataObject
) -> None:
    raw = data.draw(st.binary(min_size=count * length, max_size=count * length))
    rows = np.frombuffer(raw, np.uint8).reshape(count, length)
    seeds = (np.arange(count, dtype=np.uint64) * 0x9E3779B1 + seed).astype(np.uint32)
    alone = [crc32c(int(one), row.tobytes()) for one, row in zip(seeds, rows, strict=True)]
    assert crc32c_rows(seeds, rows).tolist() == alone


def test_rows_take_one_seed_for_all_and_rows_that_are_not_contiguous() -> None:
    rows = np.arange(200, dtype=np.uint8).reshape(10, 20)[::2, 3:17]
    assert crc32c_rows(ONES, rows).tolist() == [crc32c(ONES, row.tobytes()) for row in rows]


def group_descriptors(image: Image, size: int) -> list[tuple[int, bytes, int]]:
    """(group, descriptor, its checksum as dumpe2fs prints it) of all groups."""
    text = run("dumpe2fs", image.path)
    printed = re.findall(r"^Group (\d+):.* csum 0x([0-9a-f]{4})", text, re.MULTILINE)
    table = (SUPERBLOCK // image.block_size + 1) * image.block_size
    return [
        (int(group), image.read(table + int(group) * size, size), int(checksum, 16))
        for group, checksum in printed
    ]


def without_checksum(descriptor: bytes) -> bytes:
    return descriptor[:0x1E] + bytes(2) + descriptor[0x20:]


def test_group_descriptors_of_metadata_csum(tmp_path: Path) -> None:
    image = make_image(tmp_path, 30, "-b", "1024", "-O", "metadata_csum,64bit")
    found = group_descriptors(image, 64)
    assert len(found) == 4
    for group, descriptor, printed in found:
        register = crc32c(image.seed, struct.pack("<I", group))
        assert crc32c(register, without_checksum(descriptor)) & 0xFFFF == printed


def test_group_descriptors_of_uninit_bg(tmp_path: Path) -> None:
    image = make_image(tmp_path, 30, "-b", "1024", "-O", "^metadata_csum,^64bit,uninit_bg")
    found = group_descriptors(image, 32)
    assert len(found) == 4
    volume = uuid.UUID(image.header["Filesystem UUID"]).bytes
    for group, descriptor, printed in found:
        register = crc16(crc16(0xFFFF, volume), struct.pack("<I", group))
        assert crc16(register, descriptor[:0x1E] + descriptor[0x20:]) == printed


@pytest.mark.parametrize("block_size", [1024, 4096])
def test_superblock(tmp_path: Path, block_size: int) -> None:
    image = make_image(tmp_path, 8, "-b", str(block_size), "-O", "metadata_csum")
    raw = image.read(SUPERBLOCK, SUPERBLOCK_SIZE)
    assert crc32c(ONES, raw[:-4]) == int(image.header["Checksum"], 16)
