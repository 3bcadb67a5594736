"""Attributes of overlayfs are read as the kernel writes them."""

from __future__ import annotations

import os
import struct
import uuid
from pathlib import Path

import pytest

from ext4kit.errors import CorruptError
from ext4kit.parsers.overlay import FILE_HANDLE, METACOPY, overlay_key, parse_handle, parse_metacopy
from ext4kit.report.overlay_text import overlay_text
from tests.roots.overlays import mounted_image, new_image, overlay, run

IDENTITY = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def _handle(flags: int = 0, kind: int = 1, order: str = "<") -> bytes:
    identifier = struct.pack(f"{order}II", 1234, 0x89ABCDEF)
    return bytes([0, 0xFB, 29, flags, kind]) + IDENTITY.bytes + identifier


def test_layouts_have_the_sizes_of_the_kernel() -> None:
    assert (FILE_HANDLE.size, FILE_HANDLE.offset_of("uuid")) == (21, 5)
    assert METACOPY.size == 4


@pytest.mark.usefixtures("needs_kernel")
def test_a_handle_names_the_lower_file(tmp_path: Path) -> None:
    image = new_image(tmp_path)
    run("tune2fs", "-U", str(IDENTITY), image)
    with mounted_image(image, tmp_path) as disk:
        for name in ("lower", "upper", "work"):
            (disk / name).mkdir()
        file = disk / "lower/file"
        file.write_bytes(b"x")
        number = file.stat().st_ino
        with overlay(tmp_path, [disk / "upper", disk / "lower"], disk / "work", "") as merged:
            (merged / "file").chmod(0o600)
        value = os.getxattr(disk / "upper/file", "trusted.overlay.origin")
    found = parse_handle(value)
    assert (found.inode, found.uuid, found.is_upper) == (number, str(IDENTITY), False)
    assert found.is_on(IDENTITY.bytes) and not found.is_on(bytes(16))


def test_both_byte_orders_and_the_upper_flag_are_read() -> None:
    for flags, order in ((0, "<"), (1, ">")):
        found = parse_handle(_handle(flags, order=order))
        assert (found.inode, found.generation) == (1234, 0x89ABCDEF)
    assert parse_handle(_handle(4)).is_upper


def test_an_identifier_of_another_file_system_stays_as_it_is() -> None:
    found = parse_handle(_handle(kind=0x81))
    assert (found.inode, found.identifier) == (None, struct.pack("<II", 1234, 0x89ABCDEF))


@pytest.mark.parametrize("value", [b"", b"\0\xfb", b"\1" + _handle()[1:], b"\0\xfc" + bytes(27),
                                   _handle()[:24]])  # fmt: skip
def test_a_damaged_handle_is_an_error(value: bytes) -> None:
    with pytest.raises(CorruptError):
        parse_handle(value)
    assert overlay_text(b"trusted.overlay.upper", value or b"\0") == ""


def test_a_metacopy_may_have_a_digest() -> None:
    assert parse_metacopy(b"").algorithm == ""
    found = parse_metacopy(bytes([0, 36, 0, 1]) + bytes(range(32)))
    assert (found.algorithm, found.digest) == ("sha256", bytes(range(32)))
    for value in (b"\0", bytes([1, 4, 0, 0])):
        with pytest.raises(CorruptError):
            parse_metacopy(value)


def test_attributes_of_both_kinds_of_mounts_are_known() -> None:
    assert overlay_key(b"trusted.overlay.opaque") == overlay_key(b"user.overlay.opaque") == "opaque"
    assert overlay_key(b"user.comment") == ""


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("opaque", b"y", "opaque: hides this directory in lower layers"),
        ("redirect", b"/a\x1b", r"in lower layers it is /a\x1b"),
        ("nlink", b"U-1", "links: those of the upper file -1"),
        ("nlink", b"\xff\xff", ""),
        ("uuid", IDENTITY.bytes, f"UUID of the overlay: {IDENTITY}"),
        ("uuid", b"short", ""),
        ("metacopy", b"", "the content is in a lower layer"),
        ("whiteout", b"", "whiteout: hides this name in lower layers"),
        ("origin", b"", "copy of a lower file that has no handle"),
        ("unheard", b"of", ""),
    ],
)
def test_each_attribute_has_a_text(name: str, value: bytes, text: str) -> None:
    assert overlay_text(b"trusted.overlay." + name.encode(), value) == text
