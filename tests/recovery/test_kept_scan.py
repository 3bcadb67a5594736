"""A scan in parts is the scan: each command says and writes the same with it, byte for byte."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ext4kit
from ext4kit.history import read_history
from ext4kit.recovery.unallocated_scan import whole_space
from ext4kit.unallocated import space
from ext4kit.units import part_of
from sample_images import packed_names
from tests.conftest import Images
from tests.evidence.failing_disk import failing_disk, missing
from tests.program import run_program

BATCH = 64 << 10
PAGE = 4096  # the size of a block of the sample too
COMMANDS = (
    ("deleted", "--json", "--versions", "--names"),
    ("deleted", "--json", "--sources", "blocks"),
    ("report", "--json"),
    ("export", "--jsonl", "OUT", "--hash", "sha256"),
    ("recover", "-o", "OUT"),
    ("explain", "<12>", "--json"),
    ("who", "0-1700", "--json"),
)
_OF_THE_RUN = (b"case.json", b"report.html", b"README.txt")  # files with times and the command


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "BYTES_AT_ONCE", BATCH)


def scanned(image: Path, folder: Path, parts: int) -> Path:
    """A folder with the scan of an image in parts, made in any order."""
    folder.mkdir()
    for part in random.Random(parts).sample(range(1, parts + 1), parts):
        done = run_program(
            "scan", image, "--part", f"{part}/{parts}", "-o", folder / f"{part}.scan"
        )
        assert done.returncode in (0, 1), done.stderr
    return folder


def result(image: Path, command: tuple[str, ...], out: Path, *more: str | Path) -> dict[str, Any]:
    """All that a command says and writes, without the times of the run."""
    name, *words = command
    given = [out if word == "OUT" else word for word in words]
    done = run_program(name, image, *given, *more)
    lines = [line for line in done.stdout.splitlines() if b'"record": "report"' not in line]
    files = {path.relative_to(out): path for path in out.rglob("*") if path.is_file()}
    kept = {
        str(name): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if path.name.encode() not in _OF_THE_RUN
    }
    if out.is_file():
        kept["OUT"] = out.read_text()
    said = [line.replace(bytes(out), b"OUT") for line in (*lines, *done.stderr.splitlines())]
    return {"code": done.returncode, "said": said, "files": kept}


def check(image: Path, parts: Path, folder: Path) -> list[dict[str, Any]]:
    """Compare all commands with and without a scan; returns their results."""
    found = []
    for number, command in enumerate(COMMANDS):
        alone = result(image, command, folder / f"alone-{number}")
        assert result(image, command, folder / f"parts-{number}", "--scan", parts) == alone, command
        found.append(alone)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", packed_names())
@pytest.mark.parametrize("parts", [1, 5])
def test_results_are_those_of_one_scan(
    unpacked: Images, tmp_path: Path, name: str, parts: int
) -> None:
    image = unpacked(name).image
    check(image, scanned(image, tmp_path / "scans", parts), tmp_path)


def borders(image: Path, parts: int) -> list[int]:
    """The first block of each part but the first, where a run of unallocated blocks goes on."""
    with ext4kit.open(image) as opened:
        found = whole_space(read_history(opened.volume().filesystem()))
        firsts = []
        for part in range(2, parts + 1):
            numbers = part_of(found.batch_count, part, parts)
            before, after = found.batch(numbers.start - 1), found.batch(numbers.start)
            if not after.in_log and before.blocks[-1] + 1 == after.blocks[0]:
                firsts.append(int(after.blocks[0]))
        return firsts


def runs_of(image: Path) -> Iterator[tuple[int, int]]:
    """First block and end of each run of the deleted files."""
    done = run_program("deleted", image, "--json")
    for line in done.stdout.splitlines():
        for _, first, length in json.loads(line).get("extents", ()):
            yield first, first + length


def test_files_that_cross_the_border_of_parts_are_whole(unpacked: Images, tmp_path: Path) -> None:
    parts = 24
    image = unpacked("rm_rf_tree").image
    crossed = [first for first in borders(image, parts)
               if any(start < first < end for start, end in runs_of(image))]  # fmt: skip
    assert crossed, "no file crosses a border; the test needs another number of parts"
    check(image, scanned(image, tmp_path / "scans", parts), tmp_path)


def test_the_batches_of_all_parts_are_all_batches() -> None:
    for count in (0, 1, 7, 1000):
        for parts in (1, 2, 3, 64):
            ranges = [part_of(count, part, parts) for part in range(1, parts + 1)]
            assert ranges[0].start == 0
            assert ranges[-1].stop == count
            assert all(one.stop == other.start for one, other in pairwise(ranges))


@pytest.mark.heavy
def test_what_cannot_be_read_is_told_as_by_one_scan(unpacked: Images, tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    image = unpacked("rm_rf_tree").image
    runs = list(runs_of(image))
    with ext4kit.open(image) as opened:
        found = whole_space(read_history(opened.volume().filesystem()))
        free = [int(each) for batch in found.batches() if not batch.in_log for each in batch.blocks]
    owned = {block for first, end in runs for block in range(first, end)}
    apart = [block for block in free if block not in owned]  # only a scan reads these
    chosen = sorted({*sorted(first for first, _ in runs)[:: len(runs) // 4], *apart[::40]})
    bad = [(block * PAGE, block * PAGE + PAGE) for block in chosen]
    with failing_disk(image, tmp_path / "failing", bad) as disk:
        results = check(disk, scanned(disk, tmp_path / "scans", 6), tmp_path)
    assert any(b"cannot be read" in line for each in results for line in each["said"])


@pytest.mark.heavy
def test_a_truncated_image_gives_the_same(unpacked: Images, tmp_path: Path) -> None:
    image = tmp_path / "cut.img"
    data = unpacked("ext3").image.read_bytes()
    image.write_bytes(data[: len(data) // 2])
    check(image, scanned(image, tmp_path / "scans", 4), tmp_path)


def test_two_scans_of_a_part_are_the_same_file(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("ext3").image
    one, other = (scanned(image, tmp_path / name, 2) for name in ("one", "other"))
    assert {path.name for path in one.iterdir()} == {"1.scan", "2.scan"}
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


# -- scans that are not taken -------------------------------------------------------------


def refused(image: Path, scan: Path, *words: str) -> str:
    """What `deleted` says when it does not take a scan."""
    done = run_program("deleted", image, "--scan", scan, *words)
    said = done.stderr.decode()
    assert (done.returncode, done.stdout, said.count("\n")) == (2, b"", 1), said
    return said


def test_scans_that_do_not_fit_are_refused(unpacked: Images, tmp_path: Path) -> None:
    image, other = unpacked("ext3").image, unpacked("rm_rf_tree").image
    parts = scanned(image, tmp_path / "scans", 3)
    assert "of another file system" in refused(other, parts)
    assert "--lost" in refused(image, parts, "--lost")
    assert "one volume" in refused(image, parts, "--all-volumes")
    (tmp_path / "again.scan").write_bytes((parts / "2.scan").read_bytes())
    (tmp_path / "again.scan").rename(parts / "again.scan")
    assert "there twice" in refused(image, parts)
    (parts / "again.scan").unlink()
    (parts / "2.scan").unlink()
    assert "part 2 of 3 is missing" in refused(image, parts)
    assert "part 1 of 3 is missing" in refused(image, parts / "3.scan")
    (parts / "of-2.scan").write_bytes((scanned(image, tmp_path / "two", 2) / "2.scan").read_bytes())
    assert "parts of several scans" in refused(image, parts)
    assert "has no file .scan" in refused(image, tmp_path_of(tmp_path, "empty"))
    assert "could not be read" in refused(image, tmp_path / "nowhere")


def tmp_path_of(folder: Path, name: str) -> Path:
    """A new folder."""
    (folder / name).mkdir()
    return folder / name


def test_a_scan_of_another_version_is_refused(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("ext3").image
    path = scanned(image, tmp_path / "scans", 1) / "1.scan"
    line, _, rest = path.read_bytes().partition(b"\n")
    record = json.loads(line) | {"version": "0.1"}
    path.write_bytes(json.dumps(record).encode() + b"\n" + rest)
    assert "version 0.1 made this scan" in refused(image, path)


def test_damaged_scans_are_refused(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("ext3").image
    path = scanned(image, tmp_path / "scans", 1) / "1.scan"
    whole, draw = path.read_bytes(), random.Random(1)
    for _ in range(30):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        done = run_program("deleted", image, "--scan", path)
        assert (done.returncode, done.stdout) == (2, b"") or _is_same_record(whole, bytes(data))
    for end in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        refused(image, path)
    path.write_bytes(whole + b"\0")
    refused(image, path)


def _is_same_record(whole: bytes, data: bytes) -> bool:
    """Whether only what does not matter differs: numbers that are told, and no column."""
    one, other = (json.loads(each.partition(b"\n")[0]) for each in (whole, data))
    return all(one[name] == other[name] for name in one if name not in ("uuid", "bytes"))


def test_values_that_no_scan_finds_are_refused(unpacked: Images, tmp_path: Path) -> None:
    """The checksum is right: somebody who can write to the folder made it."""
    image = unpacked("rm_rf_tree").image
    path = scanned(image, tmp_path / "scans", 1) / "1.scan"
    line, _, rest = path.read_bytes().partition(b"\n")
    record, at = json.loads(line), 0
    kinds = {"kind": "i1", "entries": "<i4", "in_journal": "i1", "of_group": "i1", "tail": "<u2",
             "text": "i1", "dense": "i1"}  # fmt: skip
    checked = 0
    for column, rows in record["rows"].items():
        name = column.rpartition(".")[2]
        dtype = np.dtype("u1" if column == "block_features.kind" else kinds.get(name, "<i8"))
        values = np.frombuffer(rest, dtype, rows, at).copy()
        for bad in (-1, 1 << 62) if rows and dtype == np.int64 else ():
            if bad == -1 and name == "seed":
                continue
            changed = values.copy()
            changed[len(changed) // 2] = bad
            data = rest[:at] + changed.tobytes() + rest[at + values.nbytes :]
            given = record | {"sha256": hashlib.sha256(data).hexdigest()}
            path.write_bytes(json.dumps(given).encode() + b"\n" + data)
            assert "no scan of this file system finds" in refused(image, path), column
            checked += 1
        at += values.nbytes
    assert at == len(rest)
    assert checked > 10


@pytest.mark.heavy
def test_random_values_end_no_command(unpacked: Images, tmp_path: Path) -> None:
    image = unpacked("rm_rf_tree").image
    path = scanned(image, tmp_path / "scans", 1) / "1.scan"
    line, _, rest = path.read_bytes().partition(b"\n")
    record, draw, taken = json.loads(line), random.Random(3), 0
    for _ in range(40):
        data = bytearray(rest)
        for _ in range(draw.choice((1, 3, 20))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        given = record | {"sha256": hashlib.sha256(data).hexdigest()}
        path.write_bytes(json.dumps(given).encode() + b"\n" + data)
        done = run_program("deleted", image, "--json", "--scan", path)
        assert done.returncode in (0, 1, 2), done.stderr.decode()
        taken += done.returncode != 2
    assert taken  # some of the values are possible
