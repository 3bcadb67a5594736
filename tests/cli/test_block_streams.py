"""`blocks`: the streams are those of The Sleuth Kit and of `cat`, and the map leads back."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import ext4kit as library
from ext4kit.filesystem import FileSystem
from ext4kit.recovery import find_deleted
from tests.cli.conftest import Run
from tests.conftest import Cli, Images

SAMPLES = ("rm_rf_tree", "ext3", "power_cut", "orphan_file", "large_extent_leaves")


@dataclass
class Row:
    """A line of a map."""

    offset: int
    image_offset: int | None
    block: int | None
    length: int
    what: str


def read_map(path: Path) -> list[Row]:
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    assert first.split("\t") == ["offset", "image_offset", "block", "length", "what"]
    rows = []
    for line in lines:
        offset, place, block, length, what = line.split("\t")
        place_of = int(place) if place else None
        rows.append(Row(int(offset), place_of, int(block) if block else None, int(length), what))
    return rows


def stream(ext4kit: Cli, image: Path, folder: Path, *words: str) -> tuple[bytes, list[Row]]:
    """What a command writes, and its map, whose places have the same bytes."""
    out = folder / "out"
    done = ext4kit("blocks", image, *words, "-o", out, "-q")
    assert done.returncode == 0, done.stderr
    data, rows = out.read_bytes(), read_map(folder / "out.map.tsv")
    out.unlink()
    (folder / "out.map.tsv").unlink()
    raw, position = image.read_bytes(), 0
    for row in rows:
        assert row.offset == position
        position += row.length
        if row.image_offset is not None:
            held = raw[row.image_offset : row.image_offset + row.length]
            assert data[row.offset : position] == held, row
        else:
            assert not data[row.offset : position].strip(b"\0")
    assert position == len(data)
    return data, rows


@pytest.mark.parametrize("name", SAMPLES)
def test_unallocated_bytes_are_those_of_blkls(
    ext4kit: Cli, unpacked: Images, tmp_path: Path, name: str
) -> None:
    image = unpacked(name).image
    data, rows = stream(ext4kit, image, tmp_path, "--unallocated", "--no-replay")
    assert data == subprocess.run(["blkls", image], capture_output=True, check=True).stdout
    assert all(row.what.startswith("unallocated") for row in rows)
    assert all((row.image_offset or 0) == (row.block or 0) * 4096 for row in rows)


@pytest.mark.parametrize("name", SAMPLES)
def test_slack_is_that_of_blkls(ext4kit: Cli, unpacked: Images, tmp_path: Path, name: str) -> None:
    """The Sleuth Kit writes whole blocks, the content as zeros, also for a hole at the end."""
    image = unpacked(name).image
    data, rows = stream(ext4kit, image, tmp_path, "--slack", "--no-replay")
    mine: Counter[bytes] = Counter()
    for row in rows:
        piece = bytes((row.image_offset or 0) % 4096) + data[row.offset : row.offset + row.length]
        mine.update(piece[at : at + 4096] for at in range(0, len(piece), 4096))
    said = subprocess.run(["blkls", "-s", image], capture_output=True, check=True).stdout
    theirs = Counter(said[at : at + 4096] for at in range(0, len(said), 4096))
    assert mine - theirs == Counter()
    assert theirs - mine == Counter({bytes(4096): files_that_end_in_a_hole(image)})


def files_that_end_in_a_hole(image: Path) -> int:
    """Number of live files whose last, partly used block is not mapped."""
    count = 0
    with library.open(image) as opened:
        fs = FileSystem.from_source(opened.volumes[0].facts.source)
        for table in fs.inode_batches():
            live = (table.links_count > 0) | np.isin(table.number, fs.orphans)
            for inode in table.take(live & table.is_regular & (table.size % 4096 > 0)).each():
                runs, last = fs.block_map(inode), inode.size // 4096
                mapped = (runs.logical <= last) & (last < runs.logical + runs.length)
                count += not mapped.any()
    return count


def test_a_live_file_is_what_cat_prints(ext4kit: Cli, image: Path, tmp_path: Path) -> None:
    for path in ("/sub/data", "/sparse", "/[bold]", "/long"):
        data, rows = stream(ext4kit, image, tmp_path, "--file", path)
        target = tmp_path / "cat"
        with library.open(image) as opened:
            fs = opened.filesystem()
            node = fs.inode(fs.lookup(path))
            target.write_bytes(fs.content(node).open().read())
        assert data == target.read_bytes()
        assert rows
    _, rows = stream(ext4kit, image, tmp_path, "--file", "/sparse")
    assert [row.what for row in rows] == ["hole", "content", "hole"]


def test_a_deleted_file_is_what_recovery_writes(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    image = unpacked("power_cut").image
    with library.open(image) as opened:
        found = find_deleted(opened.filesystem())
        files = [file for file in found if file.path and file.grade.is_whole and file.blocks][:5]
        for file in files:
            assert file.path is not None
            content = file.content()
            assert content is not None
            data, rows = stream(ext4kit, image, tmp_path, "--file", file.path.decode())
            assert data == content.open().read()
            assert {row.what for row in rows} <= {"content", "hole", "allocated, never written"}


@pytest.mark.usefixtures("needs_kernel")
@pytest.mark.heavy
def test_content_of_a_journal_copy_has_the_place_of_the_copy(
    ext4kit: Cli, built: Images, tmp_path: Path
) -> None:
    sample = built("data_journal_cut")
    kinds = Counter[str]()
    with library.open(sample.image) as opened:
        fs = opened.filesystem()
        files = [file for file in find_deleted(fs) if file.path and file.blocks]
        for file in files[:6]:
            content = file.content()
            if content is None or file.path is None or not file.grade.is_whole:
                continue
            data, rows = stream(ext4kit, sample.image, tmp_path, "--file", file.path.decode())
            assert data == content.open().read()
            kinds.update(row.what.partition(" of block")[0] for row in rows)
    assert kinds["content, a copy"] > 0


def test_standard_output_and_a_map_beside(run: Run, image: Path, tmp_path: Path) -> None:
    table = tmp_path / "free.tsv"
    done = run("blocks", image, "--file", "/sub/data", "-o", "-", "--map", table)
    assert done.stdout == bytes(range(256)) * 3000
    assert sum(row.length for row in read_map(table)) == len(done.stdout)
    assert b"768,000 bytes" in done.stderr


def test_nothing_is_overwritten(ext4kit: Cli, image: Path, tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "out.map.tsv"
    for existing in (out, table):
        existing.write_bytes(b"mine")
        done = ext4kit("blocks", image, "--slack", "-o", out)
        assert (done.returncode, existing.read_bytes()) == (2, b"mine")
        existing.unlink()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [(), ("--slack", "--unallocated"), ("--file", "/none"), ("--file", "<4000>")],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_written_leaves_no_file(
    ext4kit: Cli, image: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = ext4kit("blocks", image, *words, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_image_is_told(ext4kit: Cli, copy: Path, tmp_path: Path) -> None:
    with copy.open("r+b") as stream_of:
        stream_of.truncate(copy.stat().st_size - (4 << 20))
    done = ext4kit("blocks", copy, "--unallocated", "-o", tmp_path / "out")
    rows = read_map(tmp_path / "out.map.tsv")
    assert done.returncode == 1
    lost = [row for row in rows if "unreadable" in row.what]
    assert sum(row.length for row in lost) == 4 << 20
    assert (tmp_path / "out").stat().st_size == sum(row.length for row in rows)
    assert "unreadable, written as zeros" in done.stderr
