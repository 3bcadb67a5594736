"""What comes out of a hostile image is bounded by what the image holds, and the bound is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ext4kit.filesystem.block_maps import map_inodes
from ext4kit.filesystem.content import Chunk
from ext4kit.output import OutputDirectory, UnwritableError
from tests.fuzz import images
from tests.fuzz.commands import called
from tests.hostile.victim import FLAGS, MAP, Victim

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
GIANTS = {"2**63-1": (1 << 63) - 1, "2**64-1": (1 << 64) - 1, "2**60": 1 << 60}
SECONDS = 60
PATH = "/sub/file 6"
USER_QUOTA = 3  # the inode of that file


def program(*words: str | Path, **options: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ext4kit", *map(str, words)]
    return subprocess.run(
        command, stdout=options.get("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
        check=False, timeout=SECONDS,
    )  # fmt: skip


def giant(size: int, path: Path) -> Path:
    victim = Victim()
    victim.size(PATH, size)
    return victim.write(path)


@pytest.mark.parametrize("name", GIANTS)
def test_a_giant_is_not_printed_but_for_a_line_that_says_why(name: str, tmp_path: Path) -> None:
    done = program("cat", giant(GIANTS[name], tmp_path / "image"), PATH)
    assert (done.returncode, len(done.stdout)) == (1, 0)
    assert b"no more than 17,179,869,184 are written as zeros" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", GIANTS)
def test_a_giant_has_its_size_in_each_list(name: str, tmp_path: Path) -> None:
    image = giant(GIANTS[name], tmp_path / "image")
    size = str(GIANTS[name]).encode()
    assert b" " + size + b" " in program("ls", "-l", image, PATH).stdout
    for command in ("ls", "stat"):
        assert b'"size": ' + size in program(command, image, PATH, "--json").stdout


@pytest.mark.parametrize("name", GIANTS)
def test_a_giant_that_is_copied_out_takes_what_it_holds(name: str, tmp_path: Path) -> None:
    image, out = giant(GIANTS[name], tmp_path / "image"), tmp_path / "out"
    done = program("extract", image, PATH, "-o", out)
    files = [path for path in (out / "files").rglob("*") if path.is_file()]
    assert sum(path.stat().st_blocks for path in files) * 512 < 1 << 20
    record = json.loads((out / "manifest.jsonl").read_text().splitlines()[0])
    if record["output"] is None:
        assert done.returncode == 1
        assert "larger than can be there" in record["problems"][0]
    else:
        assert (record["sha256"], done.returncode) == (None, 0)
        assert files[0].stat().st_size == GIANTS[name]


def test_a_giant_with_redirected_output_stays_sparse_or_is_refused(tmp_path: Path) -> None:
    image, target = giant(1 << 60, tmp_path / "image"), tmp_path / "target"
    handle = os.open(target, os.O_WRONLY | os.O_CREAT)
    try:
        done = program("cat", image, PATH, stdout=handle)
    finally:
        os.close(handle)
    assert target.stat().st_blocks * 512 < 1 << 20
    assert done.returncode == (0 if target.stat().st_size == 1 << 60 else 1)


def test_a_file_gives_no_more_than_the_evidence_holds(tmp_path: Path) -> None:
    """Extents that are sound one by one and name the whole image four times."""
    victim = Victim()
    victim.root(PATH, *((4000 * at, 4000, 1) for at in range(4)))
    victim.size(PATH, 16000 * 1024)
    image, target = victim.write(tmp_path / "image"), tmp_path / "target"
    with target.open("wb") as stream:
        done = program("cat", image, PATH, stdout=stream.fileno())
    whole = image.read_bytes()
    got = target.read_bytes()
    assert done.returncode == 1
    assert b"names more blocks than the evidence holds" in done.stderr
    assert len(got) == 16000 * 1024
    assert got[: 4000 * 1024] == whole[1024 : 4001 * 1024]
    assert not any(got[4096 * 1024 :])


def test_an_output_ends_at_its_limit(tmp_path: Path) -> None:
    output = OutputDirectory(tmp_path / "out", limit=5000)
    output.write([b"first"], [Chunk(0, 3000, bytes(3000))])
    with pytest.raises(UnwritableError, match="limit of 5,000 bytes"):
        output.write([b"second"], [Chunk(0, 2000, bytes(2000)), Chunk(2000, 1000, bytes(1000))])
    with pytest.raises(UnwritableError, match="limit of 5,000 bytes"):
        output.write([b"third"], [Chunk(0, 1, b"x")])
    assert sorted(path.name for path in output.root.iterdir()) == ["first", "second.incomplete"]


def test_folders_nested_without_end_are_cut_and_told(tmp_path: Path) -> None:
    image = tmp_path / "image"
    images.empty(image, "-t ext4 -b 1024 -O ^has_journal", "2M")
    name = "n" * 250
    images.debugfs(image, *(["mkdir " + name, "cd " + name] * 90))
    done = program("ls", image, "-r")
    assert done.returncode == 1
    assert b"is nested too deep" in done.stderr
    verified = program("verify", image)
    assert verified.returncode == 1
    assert verified.stdout.count(b"directory-deep") >= 1
    lines = done.stdout.splitlines()
    depths = [line.count(b"/") for line in lines if name.encode() in line]
    assert depths == list(range(1, len(depths) + 1))
    assert 60 < len(depths) < 90


@pytest.mark.heavy
def test_directories_that_share_their_blocks_are_listed_as_far_as_the_evidence_goes(
    tmp_path: Path,
) -> None:
    victim = Victim()
    victim.with_shared_directories()
    image = victim.write(tmp_path / "image")
    code, said = called(["ls", str(image), "-r", "-l"])
    assert code == 1
    assert "are there too often" in said


def test_maps_that_share_their_nodes_are_cut_and_told(tmp_path: Path) -> None:
    """Every inode leads through one index block, 84 times, to one leaf."""
    victim = Victim()
    leaf, index = victim.of("extents", "/sub/holes")[0], victim.of("directory", "/crowd")[-1]
    victim.node(leaf, 0, tuple((2 * at, 1, 500) for at in range(84)), 0, 84)
    victim.node(index, 0, tuple((168 * at, victim.block(leaf)) for at in range(84)), 1, 84)
    for place in victim.body.places["inode"][11:]:
        victim.put(place, 0, "<H", 0o100644)
        victim.put(place, FLAGS, "<I", 0x80000)
        victim.put(place, MAP, "<HHHHI", 0xF30A, 1, 4, 2, 0)
        victim.put(place, MAP + 12, "<IIHH", 0, victim.block(index), 0, 0)
    image = victim.write(tmp_path / "image")
    code, said = called(["extract", str(image), "/", "-o", str(tmp_path / "out")])
    assert code == 1
    assert "a part of its block map cannot be used" in said


def test_a_giant_quota_file_takes_no_more_memory_than_the_evidence(tmp_path: Path) -> None:
    victim = Victim("quota")
    victim.size(USER_QUOTA, 1 << 40)
    image = victim.write(tmp_path / "image")
    tracemalloc.start()
    try:
        code, _ = called(["verify", str(image)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 1
    assert peak < 16 * image.stat().st_size


@pytest.mark.parametrize("count", [0, 1])
def test_inodes_without_a_map_give_runs_of_the_same_types(count: int) -> None:
    flags, none = np.zeros(count, np.int64), np.zeros(count, bool)
    i_block = np.zeros((count, 60), np.uint8)
    runs = map_inodes(i_block, flags, none, 100, 1024, lambda *_: (i_block, none)).runs
    assert (len(runs), runs.unwritten.dtype) == (0, np.dtype(bool))
