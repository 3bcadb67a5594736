"""Evidence that the kernel fails to read: what is lost is told, everything else is read.

The errors are real ones: a FUSE file with bad sectors, as an image file and below a loop device,
loop devices and files whose end is gone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run
from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.hashing import hash_evidence
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.source import Source
from sample_images import Built
from sample_images.recipes import machine
from sample_images.recipes.score import read_records
from sample_images.recipes.truth import Truth, load
from tests.conftest import Images
from tests.environment import ROOT
from tests.evidence.failing_disk import failing_disk, missing

CHUNK = 32 << 10  # of the packed E01
PAGE = 4096
SECTOR = 512
MIB = 1 << 20
Fail = Callable[[Path, list[tuple[int, int]]], Path]
Ranges = list[list[int]]


@pytest.fixture(params=["file", "device"])
def fail(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fail]:
    """Give an image, as a file or as a device, of which some bytes cannot be read."""
    if reason := missing() or machine.missing_for_kernel():
        pytest.skip(reason)
    with ExitStack() as stack:

        def give(image: Path, bad: list[tuple[int, int]]) -> Path:
            disk = stack.enter_context(failing_disk(image, tmp_path / "failing", bad))
            if request.param == "device":
                return stack.enter_context(machine.loop_device(disk))
            return disk

        yield give


def _pages(bad: list[tuple[int, int]]) -> set[int]:
    """The pages with bytes of any of the ranges."""
    return {page for start, end in bad for page in range(start // PAGE, -(-end // PAGE))}


def _in_pages(ranges: Ranges) -> set[int]:
    assert all(start % PAGE == 0 and end % PAGE == 0 for start, end in ranges)
    return {page for start, end in ranges for page in range(start // PAGE, end // PAGE)}


def _bad_sectors(noise: random.Random, size: int, count: int) -> list[tuple[int, int]]:
    starts = [noise.randrange(size // SECTOR) * SECTOR for _ in range(count)]
    widths = noise.choices((1, 1, 1, 9, 400), k=count)
    return [(at, min(at + width * SECTOR, size)) for at, width in zip(starts, widths, strict=True)]


def _read_all(source: Source, data: bytes, step: int) -> None:
    """Read in steps; what comes is right, what is refused has something lost."""
    for at in range(0, source.size, step):
        wanted = data[at : at + step]
        try:
            assert source.read(at, len(wanted)) == wanted
        except AccessError as error:
            assert "cannot be read" in str(error)
            lost = unreadable_ranges(source).tolist()
            assert any(start < at + len(wanted) and at < end for start, end in lost)


@pytest.mark.kernel
def test_bad_sectors_are_lost_by_the_page_and_nothing_else(fail: Fail, tmp_path: Path) -> None:
    noise = random.Random(5)
    data, image = noise.randbytes(4 * MIB), tmp_path / "image"
    image.write_bytes(data)
    bad = _bad_sectors(noise, len(data), 8)
    with open_evidence(fail(image, bad)) as evidence:
        for step in (MIB, 11 * SECTOR, PAGE):
            _read_all(evidence.source, data, step)
        assert _in_pages(unreadable_ranges(evidence.source).tolist()) == _pages(bad)
        told = [(problem.where, problem.what) for problem in evidence.problems]
        assert {what for _, what in told} == {"cannot be read: Input/output error"}
        named = [where.removeprefix("image, bytes ").replace(",", "").split(" to ")
                 for where, _ in told]  # fmt: skip
        assert _in_pages([[int(first), int(last) + 1] for first, last in named]) == _pages(bad)


@pytest.mark.kernel
def test_hashes_have_zeros_for_what_cannot_be_read_and_say_so(fail: Fail, tmp_path: Path) -> None:
    noise = random.Random(6)
    data, image = bytearray(noise.randbytes(4 * MIB)), tmp_path / "image"
    image.write_bytes(data)
    bad = _bad_sectors(noise, len(data), 5)
    with open_evidence(fail(image, bad)) as evidence:
        hashes, _ = hash_evidence(evidence)
    for page in _pages(bad):
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    assert hashes.digests["sha256"] == hashlib.sha256(data).hexdigest()
    lost = [[each.offset, each.offset + each.length] for each in hashes.unreadable]
    assert _in_pages(lost) == _pages(bad)


@pytest.mark.kernel
def test_a_container_on_bad_sectors_loses_the_chunks_on_them(sample: Built, tmp_path: Path) -> None:
    if reason := missing() or machine.missing_for_kernel():
        pytest.skip(reason)
    container = ROOT / "sample_images" / "packed" / "rm_rf_tree.E01"
    size, data = container.stat().st_size, sample.image.read_bytes()
    bad = [(at, at + SECTOR) for at in (size // 3, size // 2)]
    with (
        failing_disk(container, tmp_path / "failing", bad) as disk,
        open_evidence(disk) as evidence,
    ):
        _read_all(evidence.source, data, CHUNK)
        lost = unreadable_ranges(evidence.source)
        assert 2 * CHUNK <= (lost[:, 1] - lost[:, 0]).sum() <= 8 * CHUNK
        told = "".join(problem.what for problem in evidence.problems)
        assert "rm_rf_tree.E01: bytes" in told


# ------------------------------------------------------------------------------ what became shorter


@pytest.mark.parametrize("end", [0, 100_000, 3 * MIB])
def test_a_file_that_becomes_shorter_is_lost_from_there_on(tmp_path: Path, end: int) -> None:
    data, image = random.Random(7).randbytes(4 * MIB), tmp_path / "image"
    image.write_bytes(data)
    with open_evidence(image) as evidence:
        with image.open("r+b") as file:
            file.truncate(end)
        _read_all(evidence.source, data, MIB)
        assert unreadable_ranges(evidence.source).tolist() == [[end, len(data)]]
        hashes, _ = hash_evidence(evidence)
        assert [(each.offset, each.length) for each in hashes.unreadable] == [
            (end, len(data) - end)
        ]
        assert hashes.digests["md5"] == hashlib.md5(data[:end].ljust(len(data), b"\0")).hexdigest()


def test_a_piece_that_becomes_shorter_is_lost_where_it_is_in_the_image(tmp_path: Path) -> None:
    data = random.Random(8).randbytes(3 * MIB)
    for number in range(3):
        (tmp_path / f"image.{number:03d}").write_bytes(data[number * MIB : (number + 1) * MIB])
    with open_evidence(tmp_path / "image.000") as evidence:
        with (tmp_path / "image.001").open("r+b") as file:
            file.truncate(5000)
        _read_all(evidence.source, data, 70_000)
        assert unreadable_ranges(evidence.source).tolist() == [[MIB + 5000, 2 * MIB]]
        assert {problem.where for problem in evidence.problems} == {
            f"image, bytes {MIB + 5000:,} to {2 * MIB - 1:,}"
        }


@pytest.mark.kernel
def test_a_device_whose_end_is_gone_is_read_up_to_there(needs_kernel: None, tmp_path: Path) -> None:
    data, image = random.Random(9).randbytes(8 * MIB), tmp_path / "image"
    image.write_bytes(data)
    with machine.loop_device(image) as device, open_evidence(device) as evidence:
        machine.truncate(image, 5 * MIB)
        _drop_cache(device)
        if _reads_past_the_end(device, 6 * MIB):
            pytest.skip("loop devices of this kernel read zeros past the end of their file")
        _read_all(evidence.source, data, MIB)
        assert unreadable_ranges(evidence.source).tolist() == [[5 * MIB, 8 * MIB]]


def _reads_past_the_end(device: Path, at: int) -> bool:
    with device.open("rb") as file:
        try:
            return os.pread(file.fileno(), 512, at) == bytes(512)
        except OSError:
            return False


def _drop_cache(device: Path) -> None:
    handle = os.open(device, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


# ----------------------------------------------------------------------------------- the commands


@pytest.fixture
def sample(unpacked: Images) -> Built:
    return unpacked("rm_rf_tree")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run([str(each) for each in arguments])
    said = capsys.readouterr()
    assert "internal error" not in said.err
    return code, said.out, said.err


def _hit(truth: Truth, blocks: set[int]) -> dict[bytes, set[int]]:
    """Blocks of each deleted file (numbers in the file) that are on some blocks of the image."""
    found = {}
    for file in truth.files:
        inside = {logical + at for logical, first, count, _ in file.blocks
                  for at in range(count) if first + at in blocks}  # fmt: skip
        found[file.path] = inside
    return found


@pytest.mark.kernel
@pytest.mark.parametrize("fail", ["device"], indirect=True)
def test_files_on_bad_sectors_are_partial_and_say_what_is_missing(
    fail: Fail, sample: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = load(sample.truth)
    noise = random.Random(10)
    used = [first + at for file in truth.files for _, first, count, _ in file.blocks
            for at in range(count)]  # fmt: skip
    blocks = set(noise.sample(used, 10))
    bad = [(block * PAGE + 700, block * PAGE + 900) for block in blocks]
    disk, out = fail(sample.image, bad), tmp_path / "out"
    code, _, said = _run(capsys, "recover", disk, "-o", out)
    assert code == 1
    assert f"{len(blocks) * PAGE:,} bytes of the image are unreadable" in said
    records = list(read_records(out))
    by_path = {_path_bytes(record).lstrip(b"/"): record for record in records if record["path"]}
    for path, inside in _hit(truth, blocks).items():
        record = by_path[path]
        told = {at for one in record["reasons"] if one["code"] == "read-error"
                for at in _blocks_in(one["text"])}  # fmt: skip
        assert told == inside, path
        assert (record["grade"] == "intact") == (not inside), path
    case = json.loads((out / "case.json").read_text())
    assert _in_pages(case["not_read"]["ranges"]) == blocks
    code, shown, _ = _run(capsys, "deleted", disk, "--json")
    assert code == 1
    named = [json.loads(line) for line in shown.splitlines()]
    hit = {b"/" + path for path, inside in _hit(truth, blocks).items() if inside}
    grades = [each["grade"] for each in named if each.get("path") and _path_bytes(each) in hit]
    assert grades == ["partial"] * len(hit)
    places = [each["where"] for each in named if each["record"] == "problem"]
    assert {f"image, bytes {block * PAGE:,} to {block * PAGE + PAGE - 1:,}" for block in blocks
            if not {block - 1, block + 1} & blocks} <= set(places)  # fmt: skip


@pytest.mark.kernel
@pytest.mark.parametrize("fail", ["device"], indirect=True)
def test_a_block_bitmap_that_cannot_be_read_makes_files_partial_and_loses_none(
    fail: Fail, sample: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = METADATA["block bitmap"] * PAGE
    out = tmp_path / "out"
    code, _, _ = _run(capsys, "recover", fail(sample.image, [(start, start + 1)]), "-o", out)
    assert code == 1
    records = list(read_records(out))
    by_path = {_path_bytes(record).lstrip(b"/"): record for record in records if record["path"]}
    for file in load(sample.truth).files:
        record = by_path[file.path]
        assert record["sha256"] == file.sha256
        assert (record["grade"] == "partial") == bool(file.blocks), file.path


def _path_bytes(record: dict[str, Any]) -> bytes:
    exact = record.get("path_bytes")
    return base64.b64decode(exact) if exact else str(record["path"]).encode()


def _blocks_in(text: str) -> range:
    """The file's blocks in "4096 bytes at offset 8192 could not be read: ..."."""
    words = text.split()
    start, length = int(words[4]), int(words[0])
    return range(start // PAGE, -(-(start + length) // PAGE))


@pytest.mark.kernel
def test_live_files_have_zeros_for_what_cannot_be_read(
    fail: Fail, sample: Built, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The oracle of the content and of its place is debugfs."""

    def debugfs(request: str) -> bytes:
        return machine.run("debugfs", "-R", request, sample.image)

    file = next(each for each in load(sample.truth).live if each.path.endswith(b".log"))
    path, content = "/" + os.fsdecode(file.path), debugfs(f"cat <{file.inode}>")
    gone = next(at for at in range(0, len(content) - PAGE, PAGE) if any(content[at : at + PAGE]))
    place = int(debugfs(f"bmap <{file.inode}> {gone // PAGE}").split()[-1])
    disk, out = fail(sample.image, [(place * PAGE, place * PAGE + SECTOR)]), tmp_path / "out"
    expected = content[:gone] + bytes(PAGE) + content[gone + PAGE :]
    code, _, said = _run(capsys, "extract", disk, path, "-o", out)
    assert code == 1
    assert "bytes of the image are unreadable, in one range" in said
    assert [each.read_bytes() for each in out.rglob("*.log")] == [expected]
    with (tmp_path / "written").open("xb") as written:
        done = subprocess.run(
            [sys.executable, "-m", "ext4kit", "cat", disk, path],
            stdout=written, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    assert (done.returncode, (tmp_path / "written").read_bytes()) == (1, expected)
    assert "cannot be read" in done.stderr


METADATA = {"block bitmap": 5, "inode bitmap": 21, "inode table": 38, "journal": 600}
COMMANDS = (
    ("volumes",), ("info",), ("ls", "-R", "/"), ("stat", "/"), ("deleted", "--versions"),
    ("verify",), ("crosscheck", "--hashes"), ("timeline",), ("report",), ("journal", "list"),
    ("journal", "audit"), ("journal", "history", "--block", "38"), ("hash",),
)  # fmt: skip


@pytest.mark.kernel
@pytest.mark.parametrize("fail", ["file"], indirect=True)
def test_no_command_fails_on_metadata_that_cannot_be_read(
    fail: Fail, sample: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = fail(sample.image, [(at * PAGE, at * PAGE + 1) for at in METADATA.values()])
    for number, command in enumerate(COMMANDS):
        json_lines = bool(number % 2)  # one way is enough for each
        words = 2 if command[0] == "journal" else 1
        flags = ["--json"] if json_lines else []
        code, out, err = _run(capsys, *command[:words], disk, *command[words:], *flags)
        assert code in (0, 1), command
        assert out, command
        told = out if json_lines else err
        assert code == 0 or "cannot be read" in told or command[0] == "crosscheck", command


@pytest.mark.kernel
@pytest.mark.parametrize("fail", ["file"], indirect=True)
def test_verify_names_the_structures_that_cannot_be_read(
    fail: Fail, sample: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = fail(sample.image, [(at * PAGE, at * PAGE + 1) for at in METADATA.values()])
    code, out, _ = _run(capsys, "verify", disk, "--json")
    assert code == 1
    records = [json.loads(line) for line in out.splitlines()]
    named = {each["structure"] for each in records if each.get("code") == "metadata-unreadable"}
    assert named == {"block bitmap", "inode bitmap"}
    inodes = {f"inode {number}" for number in range(17, 33)}  # of the second block of the table
    assert inodes <= {each["where"] for each in records if each["record"] == "problem"}
