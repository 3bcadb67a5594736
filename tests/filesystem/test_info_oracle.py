"""`ext4kit info` says every line that dumpe2fs and tune2fs say of a file system."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.environment import needs
from tests.filesystem.matrix import COMBINATIONS, built, kernel_missing
from tests.program import run_program

UTC = {**os.environ, "TZ": "UTC", "LC_ALL": "C.UTF-8"}
ROOT = Path(__file__).parents[2]
ALIKE = {  # of these only the tree differs, or the size
    "large_dir", "inode_512", "inode_1024", "tea_hash", "ext2_1k", "ext3_1k", "inline_data_1k",
    "unreplayed_1k", "8k_blocks", "64k_blocks", "2k_blocks",
}  # fmt: skip
NAMES = [one.name for one in COMBINATIONS if one.name not in ALIKE]


def said(*command: str | Path) -> list[str]:
    """The lines that a program prints, white space made single, empty lines left out."""
    return lines(subprocess.run(list(map(str, command)), env=UTC, capture_output=True))


def lines(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """The lines that a finished program printed, tidied."""
    assert done.returncode == 0, f"{done.args}: {done.returncode} {done.stderr.decode()}"
    return [line for line in map(tidy, done.stdout.decode().splitlines()) if line]


def tidy(line: str) -> str:
    """A line with its white space made single."""
    return " ".join(line.split())


@cache
def info(image: Path, *options: str) -> list[str]:
    """The lines of `ext4kit info`, the journal not replayed: dumpe2fs does not either."""
    return lines(run_program("info", image, "--no-replay", *options, env=UTC))


def image_of(name: str) -> Path:
    """The image of a combination, which is built when it is not there yet."""
    if missing := kernel_missing():
        pytest.skip(missing)
    return built(name).image


def named(line: str) -> str:
    """A line with the journal feature named for which older dumpe2fs have no name."""
    return line.replace("FEATURE_I5", "fast_commit")


def missing_lines(expected: list[str], got: list[str]) -> list[str]:
    """The expected lines that are not there, as often as they should be."""
    return list((Counter(expected) - Counter(got)).elements())


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_info_says_what_dumpe2fs_and_tune2fs_say(name: str) -> None:
    image = image_of(name)
    got = info(image, "--groups")
    dumped = [named(line) for line in said("dumpe2fs", "-h", image)]
    listed = [line for line in said("tune2fs", "-l", image) if not line.startswith("tune2fs ")]
    assert len(dumped) > 30
    assert missing_lines(dumped, got) == []
    assert missing_lines(listed, got) == []


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_info_says_of_each_group_what_dumpe2fs_says(name: str) -> None:
    image = image_of(name)
    expected, got = told_groups(image), group_part(info(image, "--groups"))
    assert expected
    differing = [pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]]
    assert differing[:5] == []
    assert len(got) == len(expected)


LARGE = {  # options -> bytes of a file system of which little is written
    "-t ext4": 80 << 30,
    "-t ext4 -O ^flex_bg": 40 << 30,
    "-t ext4 -O meta_bg,^resize_inode -b 1024": 10 << 30,
    "-t ext4 -O bigalloc -C 65536 -N 200000": (600 << 30) + (5 << 20),
    "-t ext4 -O ^metadata_csum,uninit_bg": 40 << 30,
}


@pytest.mark.heavy
@needs("dumpe2fs", "mke2fs", "tune2fs")
@pytest.mark.parametrize("options", LARGE)
def test_info_says_of_many_groups_what_dumpe2fs_says(options: str, tmp_path: Path) -> None:
    image = tmp_path / "large"
    with image.open("wb") as file:
        try:
            file.truncate(LARGE[options])
        except OSError as error:
            pytest.skip(f"no file of {LARGE[options] >> 30} GiB here: {error}")
    said("mke2fs", "-q", "-F", *options.split(), "-E", "lazy_itable_init=1,nodiscard", image)
    edits = [f"setb {1_000_000 * number} {1 + 3 * number}" for number in range(1, 9)]
    edits += [f"seti <{number}>" for number in (12, 14, 63, 64, 65, 127, 128, 200, 201)]
    done = subprocess.run(
        ["debugfs", "-w", "-f", "-", image], input="\n".join(edits), capture_output=True, text=True
    )
    assert done.returncode == 0
    expected, got = told_groups(image), group_part(info(image, "--groups"))
    differing = [pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]]
    assert differing[:5] == []
    assert len(got) == len(expected)
    groups = [record for line in info(image, "--groups", "--json")
              if (record := json.loads(line))["record"] == "group"]  # fmt: skip
    shown = [", ".join(str(a) if a == b else f"{a}-{b}" for a, b in group["free_blocks"])
             for group in groups]  # fmt: skip
    assert [f"Free blocks: {ranges}".strip() for ranges in shown] == [
        line for line in expected if line.startswith("Free blocks:")
    ]


def group_part(lines: list[str]) -> list[str]:
    """The lines from the first block group on."""
    first = next(n for n, line in enumerate(lines) if line.startswith("Group 0:"))
    return [without_unchecked_flags(line) for line in lines[first:]]


def told_groups(image: Path) -> list[str]:
    """The lines of dumpe2fs, in the form that it had before 1.47.2."""
    lines = said("dumpe2fs", image)
    sizes = dict(re.findall(r"^(\w+) size: +(\d+)$", "\n".join(lines), re.MULTILINE))
    ratio = int(sizes.get("Cluster", 1)) // int(sizes.get("Block", 1)) or 1
    return [by_cluster(line, ratio) for line in group_part(lines)]


def by_cluster(line: str, ratio: int) -> str:
    """A line of free blocks whose ranges end at the first block of a cluster.

    dumpe2fs names the last block of the cluster there from 1.47.2 on.
    """
    if ratio == 1 or not line.startswith("Free blocks: "):
        return line
    starts = [[int(end) // ratio * ratio for end in part.split("-")]
              for part in filter(None, line.removeprefix("Free blocks: ").split(", "))]  # fmt: skip
    ranges = [str(part[0]) if part[0] == part[-1] else f"{part[0]}-{part[-1]}" for part in starts]
    return f"Free blocks: {', '.join(ranges)}"


def without_unchecked_flags(line: str) -> str:
    """A group's heading without its flags where its descriptor has no checksum.

    dumpe2fs leaves them out there, because kernels do not act on them.
    """
    is_heading = line.startswith("Group ") and " csum " not in line
    return line.partition(" [")[0] if is_heading else line


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["default", "bigalloc", "revision_0", "unreplayed"])
def test_the_records_hold_the_values_of_the_lines(name: str) -> None:
    image = image_of(name)
    record = superblock_record(info(image, "--json"))
    values = dict(line.split(": ", 1) for line in said("dumpe2fs", "-h", image) if ": " in line)
    for label, field in (
        ("Inode count", "inodes_count"),
        ("Block count", "blocks_count"),
        ("Free blocks", "free_blocks_count"),
        ("Free inodes", "free_inodes_count"),
        ("Block size", "block_size"),
        ("Mount count", "mount_count"),
        ("Inodes per group", "inodes_per_group"),
    ):
        assert record[field] == int(values[label]), label
    assert record["uuid"] == values["Filesystem UUID"]
    features = [word for word in values["Filesystem features"].split() if word != "(none)"]
    assert sorted(record["features"]) == sorted(features)


def superblock_record(lines: list[str]) -> dict[str, Any]:
    """The superblock's record among the JSON lines of `info`."""
    records = [json.loads(line) for line in lines]
    return next(record for record in records if record["record"] == "superblock")
