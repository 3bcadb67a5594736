"""Sources promise exact bytes, one-line refusals and read-only access."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.raw import RawFile, SplitFile, find_segments, open_raw
from ext4kit.evidence.source import Window, fileno_range

DATA = random.Random(1).randbytes(10_000)


def _file(folder: Path, name: str, data: bytes = DATA) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _split(folder: Path, *names: str, size: int = 3000) -> list[Path]:
    starts = range(0, len(DATA), size)
    pairs = zip(names, starts, strict=True)
    return [_file(folder, name, DATA[start : start + size]) for name, start in pairs]


def test_a_read_is_exact_and_cannot_be_changed(tmp_path: Path) -> None:
    source = RawFile(_file(tmp_path, "a.img"))
    data = source.read(100, 5000)
    assert data == DATA[100:5100]
    assert data.readonly


@pytest.mark.parametrize(("offset", "length"), [(0, 10_001), (10_000, 1), (-1, 2), (5, -1)])
def test_a_range_outside_is_refused_with_the_name(tmp_path: Path, offset: int, length: int) -> None:
    source = RawFile(_file(tmp_path, "a.img"))
    with pytest.raises(AccessError, match=r"a\.img"):
        source.read(offset, length)
    with pytest.raises(AccessError):
        fileno_range(source, offset, length)


def test_bytes_outlive_close_and_new_reads_are_refused(tmp_path: Path) -> None:
    source = RawFile(_file(tmp_path, "a.img"))
    array = np.frombuffer(source.read(0, 4096), np.uint8)
    source.close()
    source.close()
    assert array.tobytes() == DATA[:4096]
    with pytest.raises(AccessError):
        source.read(0, 1)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_an_unreferenced_source_closes_its_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.img")
    source = RawFile(path)
    assert path in _open_files()
    del source
    assert path not in _open_files()


def _open_files() -> set[Path]:
    return {each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


def test_fileno_range_points_at_the_same_bytes_through_windows(tmp_path: Path) -> None:
    source = RawFile(_file(tmp_path, "a.img"))
    window = Window(Window(source, 1000, 5000), 500, 2000)
    place = fileno_range(window, 10, 300)
    assert place is not None
    assert os.pread(place[0], 300, place[1]) == DATA[1510:1810] == window.read(10, 300)


def test_a_window_counts_what_the_evidence_lacks(tmp_path: Path) -> None:
    source = RawFile(_file(tmp_path, "a.img"))
    cut, outside = Window(source, 9000, 4000), Window(source, 20_000, 100)
    assert (cut.size, cut.missing) == (1000, 3000)
    assert (outside.size, outside.missing) == (0, 100)
    assert cut.read(0, 1000) == DATA[9000:]
    assert len(outside.read(0, 0)) == 0
    with pytest.raises(AccessError):
        cut.read(999, 2)


@pytest.mark.parametrize(
    "names",
    [
        ("a.001", "a.002", "a.003", "a.004"),
        ("a.000", "a.001", "a.002", "a.003"),
        ("a.dd.aa", "a.dd.ab", "a.dd.ac", "a.dd.ad"),
        ("a.AAA", "a.AAB", "a.AAC", "a.AAD"),
        ("a.01", "a.02", "a.03", "a.04"),
    ],
)
def test_split_pieces_read_as_one(tmp_path: Path, names: tuple[str, ...]) -> None:
    paths = _split(tmp_path, *names)
    source = open_raw(paths[0])
    assert isinstance(source, SplitFile)
    assert source.paths == tuple(paths)
    assert source.size == len(DATA)
    chooser = random.Random(2)
    for _ in range(300):
        start, end = sorted(chooser.choices(range(len(DATA) + 1), k=2))
        assert source.read(start, end - start) == DATA[start:end]
    assert fileno_range(source, 0, 1) is None
    source.close()


@pytest.mark.parametrize("options", [("-d", "-a", "2"), ("-a", "2"), (), ("-d",)])
def test_pieces_made_by_split_are_all_found(tmp_path: Path, options: tuple[str, ...]) -> None:
    image = _file(tmp_path, "whole")
    size = "200" if "-a" in options else "9"
    command = ["split", "-b", size, *options, str(image), str(tmp_path / "part.")]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("split cannot do this")
    first = tmp_path / ("part.00" if "-d" in options else "part.aa")
    found = find_segments(first)
    assert b"".join(path.read_bytes() for path in found) == DATA


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("a.001", "a.002", "a.004", "a.005"), "a.003"),
        (("a.001", "a.003", "a.004", "a.005"), "a.002"),
        (("a.aa", "a.ab", "a.ac", "a.ae"), "a.ad"),
    ],
)
def test_a_gap_is_refused_and_named(tmp_path: Path, names: tuple[str, ...], missing: str) -> None:
    paths = _split(tmp_path, *names)
    with pytest.raises(AccessError, match=missing):
        open_raw(paths[0])


@pytest.mark.parametrize(
    ("names", "given"), [(("a.001", "a.002"), 1), (("a.000", "a.001"), 1), (("a.aa", "a.ab"), 1)]
)
def test_a_later_piece_is_not_taken_for_an_image(
    tmp_path: Path, names: tuple[str, ...], given: int
) -> None:
    paths = _split(tmp_path, *names, size=5000)
    with pytest.raises(AccessError, match=names[0]):
        open_raw(paths[given])


@pytest.mark.parametrize("name", ["a.img", "a.dd", "a.001", "a.002", "a.aa", "a.2024"])
def test_a_file_alone_is_a_file(tmp_path: Path, name: str) -> None:
    for stranger in ("a.txt", "a.log", "a.gz", "b.002"):
        _file(tmp_path, stranger)
    assert find_segments(_file(tmp_path, name)) == (tmp_path / name,)


def test_a_cut_middle_piece_is_a_problem(tmp_path: Path) -> None:
    paths = _split(tmp_path, "a.001", "a.002", "a.003", "a.004")
    paths[1].write_bytes(DATA[3000:5000])
    with open_evidence(paths[0]) as evidence:
        assert [problem.where for problem in evidence.problems] == ["piece a.002"]
        assert evidence.files == tuple(paths)


def test_an_empty_piece_is_refused_and_named(tmp_path: Path) -> None:
    paths = _split(tmp_path, "a.001", "a.002", "a.003", "a.004")
    paths[2].write_bytes(b"")
    with pytest.raises(AccessError, match=r"a\.003"):
        open_evidence(paths[0])


@pytest.mark.kernel
def test_a_device_reads_like_its_file(tmp_path: Path, loop: Callable[..., Path]) -> None:
    data = random.Random(3).randbytes(1 << 20)
    source = open_raw(loop(_file(tmp_path, "a.img", data), "--read-only"))
    assert isinstance(source, RawFile)
    assert source.size == len(data)
    assert source.read(511, 70_001) == data[511:70_512]
    assert len(source.read(source.size, 0)) == 0
    with pytest.raises(AccessError):
        source.read(source.size, 1)
    assert fileno_range(source, 0, 10) is None
    source.close()
    with pytest.raises(AccessError):
        source.read(0, 1)


def test_evidence_is_opened_read_only(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    paths = _split(tmp_path, "seen.001", "seen.002", "seen.003", "seen.004")
    log = tmp_path / "log"
    code = "import sys; from ext4kit.evidence import open_evidence as o; o(sys.argv[1]).close()"
    traced = ["strace", "-f", "-o", str(log), "-e", "trace=open,openat,openat2,creat,truncate"]
    command = [*traced, sys.executable, "-c", code, str(paths[0])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed")
    assert done.returncode == 0, done.stderr
    opened = [line for line in log.read_text().splitlines() if "seen.0" in line]
    assert len(opened) == len(paths)
    assert all("O_RDONLY" in line for line in opened)
    assert not any(flag in line for line in opened for flag in ("O_RDWR", "O_WRONLY", "O_CREAT"))
