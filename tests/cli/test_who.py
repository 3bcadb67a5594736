"""What `who` says of single blocks, of ranges and of bytes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import Cli, Images


def records(ext4kit: Cli, image: Path, *words: str) -> list[dict[str, Any]]:
    done = ext4kit("who", image, *words, "--json", "-q")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def block_size(image: Path) -> int:
    words = ["dumpe2fs", "-h", str(image)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"Block size: +([0-9]+)", said)[1])  # type: ignore[index]


def bmap(image: Path, path: str, block: int) -> int:
    words = ["debugfs", "-R", f"bmap {path} {block}", str(image)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_a_block_of_a_live_file_and_its_slack(ext4kit: Cli, image: Path, copy: Path) -> None:
    size, length = 256 * 3000 - 100, block_size(image)
    debugfs = ["debugfs", "-w", "-R", f"set_inode_field /sub/data size {size}", str(copy)]
    subprocess.run(debugfs, check=True, capture_output=True)
    image, last = copy, size // length
    said = ext4kit("who", image, str(bmap(image, "/sub/data", last))).stdout
    assert f"It is block {last} of the content of /sub/data (inode 1" in said
    start = last * length
    assert f"bytes {start:,} to {size - 1:,} of the file; from byte {size - start:,}" in said
    assert "No earlier owner is known." in said
    assert f"`ext4kit cat {image} /sub/data` shows the content." in said


def test_a_byte_of_the_image_is_found_in_its_file(ext4kit: Cli, image: Path) -> None:
    block, size = bmap(image, "/sub/data", 3), block_size(image)
    (record,) = records(ext4kit, image, "--byte", str(block * size + 77))
    assert (record["block"], record["byte"], record["offset"]) == (block, 77, block * size)
    assert record["present"][0]["paths"] == ["/sub/data"]
    said = ext4kit("who", image, "--byte", str(block * size + 77)).stdout
    assert f"byte 77 of the block, byte {3 * size + 77:,} of the file" in said
    last = bmap(image, "/[bold]", 0)
    said = ext4kit("who", image, "--byte", str(last * size + 500)).stdout
    assert "byte 500 of the block: no content of the file" in said


def test_bytes_count_from_the_image_or_the_volume(
    ext4kit: Cli, image: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(1 << 20) + image.read_bytes())
    words = ["sfdisk", "-q", str(disk)]
    subprocess.run(words, input=b"2048,,83\n", check=True, capture_output=True)
    block = bmap(image, "/sub/data", 3)
    size = block_size(image)
    byte = block * size + 5
    in_image = records(ext4kit, disk, "--byte", str((1 << 20) + byte))
    in_volume = records(ext4kit, disk, "--byte", str(byte), "--in-volume")
    assert in_image == in_volume
    assert in_image[0]["block"] == block
    assert in_image[0]["offset"] == (1 << 20) + block * size
    done = ext4kit("who", disk, "--byte", "5")
    assert (done.returncode, "lies outside the file system" in done.stderr) == (2, True)


def test_a_range_is_a_table_and_each_block_a_record(ext4kit: Cli, unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    found = records(ext4kit, image, "1549-1560", "0")
    assert [record["block"] for record in found] == [*range(1549, 1561), 0]
    lines = ext4kit("who", image, "0-36").stdout.splitlines()
    assert lines[0].split() == ["blocks", "now", "owner", "file", "blocks", "before"]
    assert any(line.startswith("11 to 20  journal") for line in lines)


def test_a_freed_block_names_the_file_before_and_what_to_type(
    ext4kit: Cli, unpacked: Images
) -> None:
    image = unpacked("rm_rf_tree").image
    (record,) = records(ext4kit, image, "1549")
    assert record["allocated"] is False
    (use,) = record["earlier"]
    assert (use["inode"], use["paths"], use["grade"]) == (12, ["/project"], "intact")
    assert (use["first_transaction"], use["ended_transaction"]) == (2, 5)
    said = ext4kit("who", image, "1549").stdout
    assert "unallocated" in said.splitlines()[0]
    assert (
        f"`ext4kit explain {image} /project` shows the evidence for the file that had it last."
        in said
    )
    assert f"`ext4kit journal history {image} --block 1549`" in said


def test_metadata_is_told_by_its_place(ext4kit: Cli, unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    for block, text in {
        "0": "It is the superblock, in group 0.",
        "5": "It is the block bitmap of group 0.",
        "21": "It is the inode bitmap of group 0.",
        "37": "It has the inodes 1 to 16 of the inode tables.",
        "20": "It is log block 9 of the journal: copy of block 0, transaction 2",
        "6": "It is block 0 of the content of / (inode 2",
    }.items():
        assert text in ext4kit("who", image, block).stdout


@pytest.mark.parametrize(
    "words", [(), ("5-3",), ("x",), ("1e3",), ("-1",), ("8192",), ("--byte", "-1"),
              ("--in-volume",), ("0-99999999999999999999",), ("0-99999999999",)], ids=" ".join
)  # fmt: skip
def test_what_is_no_block_is_refused_in_one_line(
    run: Run, unpacked: Images, words: tuple[str, ...]
) -> None:
    done = run("who", unpacked("rm_rf_tree").image, *words)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"Traceback" not in done.stderr


def test_carved_content_is_told(ext4kit: Cli, image: Path, tmp_path: Path) -> None:
    copy = tmp_path / "carved.img"
    copy.write_bytes(image.read_bytes())
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(200)) * 30 + b"IEND\xaeB`\x82"
    with copy.open("r+b") as stream:
        stream.seek(20000 * block_size(image))
        stream.write(picture)
    (record,) = records(ext4kit, copy, "20000")
    assert record["allocated"] is False
    assert record["contents"][0]["first_block"] == 20000
    assert "carved contents with the block:" in ext4kit("who", copy, "20000").stdout
