"""Bytes in hexadecimal are those of xxd, in the blocks that debugfs names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4kit.filesystem.view import Node
from ext4kit.preview.model import Preview
from ext4kit.preview.previews import kinds_for, preview
from ext4kit.views.opening import open_view
from sample_images.recipes.machine import run
from tests.preview.contents import (
    BLOCK,
    bytes_read,
    made_image,
    mapped,
    node_of,
    opened,
    pages,
)

HEADING = re.compile(r"block ([0-9,]+)(, from byte [0-9,]+ of it on)?, file block ([0-9,]+)")


def shown_bytes(found: list[Preview]) -> bytes:
    cells = (line.spans[1].text for page in found for line in page.lines if len(line.spans) == 3)
    return b"".join(bytes.fromhex(text) for text in cells)


def headings(found: list[Preview]) -> list[str]:
    return [line.text for page in found for line in page.lines if len(line.spans) == 1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file system with plain, sparse, unwritten and inline files, of which block maps differ."""
    folder = tmp_path_factory.mktemp("preview")
    source = folder / "source"
    source.mkdir()
    (source / "plain").write_bytes(bytes(range(256)) * 30)
    (source / "small").write_bytes(b"in the inode, all of it")
    with (source / "sparse").open("wb") as file:
        file.write(os.urandom(3000))
        file.seek(1 << 30)
        file.write(b"the end")
    (source / "unwritten").write_bytes(b"start" * 100)
    made = made_image(source, folder / "image", "-b", "1024", "-O", "inline_data")
    run("debugfs", "-w", "-R", "fallocate unwritten 4 9", made)
    run("debugfs", "-w", "-R", "set_inode_field unwritten size 10000", made)
    return made


@pytest.fixture
def live(image: Path) -> Iterator[dict[str, Node]]:
    with opened(image) as workspace:
        root = open_view(workspace, "live").root
        yield {node.name.decode(): node for node in root.children()}


@pytest.mark.parametrize("name", ["plain", "small"])
@pytest.mark.parametrize("most_lines", [2, 7, 1000])
def test_lines_are_those_of_xxd(
    image: Path, live: dict[str, Node], name: str, most_lines: int
) -> None:
    data = (image.parent / "source" / name).read_bytes()
    dump = subprocess.run(["xxd", "-g", "1"], input=data, capture_output=True, check=True)
    found = list(pages(live[name], "hex", most_lines))
    ours = [line.text for page in found for line in page.lines if len(line.spans) == 3]
    theirs = dump.stdout.decode().splitlines()
    assert [line[:8] for line in ours] == [line[:8] for line in theirs]
    assert [line[10:58].split() for line in ours] == [line[10:58].split() for line in theirs]
    assert [line[60:].rstrip() for line in ours] == [line[59:].rstrip() for line in theirs]
    assert shown_bytes(found) == data


def test_headings_name_the_blocks_of_debugfs(image: Path, live: dict[str, Node]) -> None:
    (found,) = pages(live["plain"], "hex", 1000)
    expected = [int(run("debugfs", "-R", f"bmap plain {number}", image)) for number in range(8)]
    matches = [HEADING.fullmatch(text) for text in headings([found])]
    assert [int(one[1].replace(",", "")) for one in matches if one] == expected
    assert [int(one[3]) for one in matches if one] == list(range(8))
    second = preview(live["plain"], "hex", 1500, 3)
    assert headings([second])[0] == f"block {expected[1]:,}, from byte 476 of it on, file block 1"


def test_holes_and_unwritten_blocks_are_told_in_one_line(
    image: Path, live: dict[str, Node]
) -> None:
    (found,) = pages(live["sparse"], "hex", 1000)
    text = f"hole: bytes 3,072 to {(1 << 30) - 1:,}: a hole, which reads as zeros"
    assert text in headings([found])
    assert shown_bytes([found]).endswith(b"the end")
    assert len(shown_bytes([found])) == 3072 + 7
    (found,) = pages(live["unwritten"], "hex", 1000)
    first = int(run("debugfs", "-R", "bmap unwritten 4", image).split()[0])
    told = [one for one in headings([found]) if one.startswith("unwritten")]
    assert told == [
        f"unwritten: blocks {first:,} to {first + 5:,}, bytes 4,096 to 9,999: allocated and never"
        " written, reads as zeros"
    ]
    assert kinds_for(live["sparse"])[0] == "hex"


def test_content_in_the_inode_is_told(live: dict[str, Node]) -> None:
    (found,) = pages(live["small"], "hex", 100)
    assert headings([found]) == ["inline: in the inode"]


def test_unreadable_blocks_and_blocks_beyond_the_end_are_no_zeros() -> None:
    node = mapped(bytes(3 * BLOCK), 5 * BLOCK, [(0, 5, 0, False)], bad={1}, blocks_count=3)
    (found,) = pages(node, "hex", 1000)
    assert headings([found]) == [
        "block 0, file block 0",
        "lost: block 1, bytes 1,024 to 2,047: lost: block 1 is bad",
        "block 2, file block 2",
        "lost: blocks 3 to 4, bytes 3,072 to 5,119: lost: the range lies beyond the end of the"
        " evidence",
    ]
    assert shown_bytes([found]) == bytes(2 * BLOCK)


def test_only_what_is_shown_is_read() -> None:
    size = 16 << 40
    count = size // BLOCK
    node = mapped(b"", size, [(0, count, 0, False)], blocks_count=count)
    for offset in (0, 7 << 40, size - 40, size, -5, size + 9):
        found = preview(node, "hex", offset, 100)
        assert found.kind == "hex"
    assert bytes_read(node) < 6 * 8 * BLOCK
    many = mapped(b"", size, [(2 * at, 1, at, False) for at in range(100_000)], blocks_count=count)
    assert preview(many, "hex", 1 << 27, 100).kind == "hex"
    assert bytes_read(many) < 16 * BLOCK


def test_each_page_goes_on_however_few_its_lines() -> None:
    data = bytes(range(256)) * 9
    found = [preview(node_of(data), "hex", 0, 1)]
    while (offset := found[-1].next_offset) is not None:
        found.append(preview(node_of(data), "hex", offset, 1))
        assert found[-1].offset > found[-2].offset
    assert shown_bytes(found) == data


def test_lines_begin_at_any_byte() -> None:
    data = bytes(range(256)) * 9
    for offset in (0, 1, 15, 16, 1023, 1025, 2303):
        found = preview(node_of(data), "hex", offset, 5)
        assert found.next_offset is None or (found.next_offset % 16 == 0)
        assert shown_bytes([found]) == data[offset : found.next_offset]
