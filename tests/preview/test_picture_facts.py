"""Facts of pictures are those that file and ImageMagick tell; damaged headers end them."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from ext4kit.preview.previews import kinds_for, preview
from tests.preview.contents import BLOCK, are_safe, bytes_read, mapped, node_of, texts_of


def facts(data: bytes) -> dict[str, str]:
    node = node_of(data)
    assert kinds_for(node)[0] == "picture"
    found = preview(node)
    assert found.kind == "picture"
    return {line.spans[0].text.strip(): "".join(s.text for s in line.spans[1:])
            for line in found.lines}  # fmt: skip


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 8, 6, 0, 0, 1))
    pixels = chunk(b"IDAT", zlib.compress(bytes(30 * 161)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + pixels + chunk(b"IEND", b"")


def exif(order: str = "<") -> bytes:
    """An Exif structure with a camera, a time and a place."""
    texts = {0x10F: b"Maker\0", 0x110: b"Camera X\x1b\0", 0x131: b"Soft\0"}
    more = {0x9003: b"2024:05:06 07:08:09\0", 0xA431: b"SN12345\0"}
    place = [(1, 2, b"S\0"), (2, 5, _ratios(order, 33, 51, 35)), (3, 2, b"E\0"),
             (4, 5, _ratios(order, 151, 12, 40)), (5, 1, b"\1"), (6, 5, _ratios(order, 25)),
             (7, 5, _ratios(order, 1, 2, 3)), (29, 2, b"2024:05:06\0")]  # fmt: skip
    data = bytearray(struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8))
    first = [(tag, 2, text) for tag, text in texts.items()]
    size = 2 + 12 * (len(first) + 2) + 4
    exif_at = 8 + size + 200
    gps_at = exif_at + 200
    pointers = [(0x8769, 4, struct.pack(order + "I", exif_at)),
                (0x8825, 4, struct.pack(order + "I", gps_at))]  # fmt: skip
    for at, entries in ((8, first + pointers), (exif_at, [(t, 2, v) for t, v in more.items()]),
                        (gps_at, place)):  # fmt: skip
        data = data.ljust(at, b"\0") + _directory(order, at, entries)
    return bytes(data)


def _ratios(order: str, *values: int) -> bytes:
    return b"".join(struct.pack(order + "II", value, 1) for value in values)


def _directory(order: str, at: int, entries: list[tuple[int, int, bytes]]) -> bytes:
    sizes = {1: 1, 2: 1, 4: 4, 5: 8}
    table, values = b"", b""
    start = at + 2 + 12 * len(entries) + 4
    for tag, kind, value in sorted(entries):
        count = len(value) // sizes[kind]
        if len(value) <= 4:
            held = value.ljust(4, b"\0")
        else:
            held = struct.pack(order + "I", start + len(values))
            values += value + bytes(len(value) % 2)
        table += struct.pack(order + "HHI", tag, kind, count) + held
    return struct.pack(order + "H", len(entries)) + table + bytes(4) + values


def jpeg(*segments: bytes) -> bytes:
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC0, 17, 8, 30, 40, 3) + bytes.fromhex(
        "011100021101031101"
    )
    scan = bytes.fromhex("ffda000c03010002110311003f00") + bytes(100)
    return b"\xff\xd8" + b"".join(segments) + frame + scan + b"\xff\xd9"


def app1(data: bytes) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", len(data) + 8) + b"Exif\0\0" + data


@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_tells_camera_time_and_place(tmp_path: Path, order: str) -> None:
    path = tmp_path / "photo"
    path.write_bytes(jpeg(b"\xff\xfe\0\x09comment", app1(exif(order))))
    told = subprocess.run(["file", "-b", path], capture_output=True, text=True, check=True).stdout
    for word in ("manufacturer=Maker", "software=Soft", "40x30"):
        assert word in told
    found = facts(path.read_bytes())
    assert found["size"] == "40 x 30 pixels"
    assert found["comment"] == "comment"
    assert (found["maker"], found["camera"], found["software"]) == (
        "Maker",
        r"Camera X\x1b",
        "Soft",
    )
    assert (found["taken"], found["serial number"]) == ("2024:05:06 07:08:09", "SN12345")
    assert found["place"] == f"{-(33 + 51 / 60 + 35 / 3600):.6f}, {151 + 12 / 60 + 40 / 3600:.6f}"
    assert (found["altitude"], found["time of the place"]) == ("-25.0 m", "2024:05:06 01:02:03 UTC")
    for data in (png(chunk(b"eXIf", exif(order))), webp(b"EXIF", exif(order)), exif(order)):
        assert facts(data)["camera"] == r"Camera X\x1b"


def webp(kind: bytes = b"", data: bytes = b"") -> bytes:
    parts = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (39).to_bytes(3, "little")
    parts += (29).to_bytes(3, "little")
    if kind:
        parts += kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(parts) + 4) + b"WEBP" + parts


def test_text_and_colour_of_png(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(png(chunk(b"tEXt", b"Author\0Anna"), chunk(b"tIME", b"\7\xe8\1\2\3\4\5")))
    told = subprocess.run(["file", "-b", path], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "PNG image data, 40 x 30, 8-bit/color RGBA, interlaced"
    found = facts(path.read_bytes())
    assert found["size"] == "40 x 30 pixels"
    assert found["colour"] == "RGB with alpha, 8 bits per channel"
    assert (found["interlaced"], found["text Author"]) == ("yes", "Anna")
    assert found["changed"] == "2024-01-02 03:04:05 UTC"
    assert facts(webp())["size"] == "40 x 30 pixels"


@pytest.mark.skipif(shutil.which("convert") is None, reason="needs ImageMagick")
@pytest.mark.parametrize("form", ["png", "jpg", "gif", "bmp", "bmp3", "bmp2", "tiff", "psd", "ico"])
def test_sizes_are_those_of_imagemagick(tmp_path: Path, form: str) -> None:
    rng = random.Random(form)
    width, height = rng.randrange(1, 200), rng.randrange(1, 200)
    path = tmp_path / f"picture.{form[:3] if 'bmp' in form else form}"
    words = ["convert", "-size", f"{width}x{height}", "gradient:red-blue", f"{form}:{path}"]
    subprocess.run(words, check=True)
    told = subprocess.run(
        ["identify", "-format", "%w %h ", f"{path}[0]"], capture_output=True, check=True
    )
    assert told.stdout.split() == [b"%d" % width, b"%d" % height]
    assert facts(path.read_bytes())["size"] == f"{width:,} x {height:,} pixels"


def test_damaged_headers_are_told_or_end_the_facts() -> None:
    rng = random.Random(5)
    whole = [png(chunk(b"eXIf", exif())), jpeg(app1(exif())), exif(), webp(b"EXIF", exif()),
             b"GIF89a" + bytes(20), b"BM" + bytes(60), b"8BPS\0\1" + bytes(40),
             b"\0\0\1\0\5\0" + bytes(50)]  # fmt: skip
    for data in whole:
        for _ in range(150):
            cut = bytearray(data[: rng.randrange(12, len(data) + 1)])
            for _ in range(rng.randrange(8)):
                cut[rng.randrange(12, len(cut) + 1) - 1] = rng.choice((0, 1, 127, 255))
            found = preview(node_of(bytes(cut)), "picture")
            assert found.kind == "picture"
            assert are_safe(texts_of(found))
    assert facts(png()[:20])["damaged"].startswith("its headers end too early")


def test_endless_pictures_are_read_to_a_limit() -> None:
    size = 1 << 40
    count = size // BLOCK
    for start in (png()[:33], b"\xff\xd8" + b"\xff\xfe\xff\xff", b"RIFF\0\0\0\0WEBP"):
        node = mapped(start.ljust(BLOCK, b"\0"), size, [(0, count, 0, False)], blocks_count=count)
        assert preview(node, "picture").kind == "picture"
        assert bytes_read(node) < 4 << 20
