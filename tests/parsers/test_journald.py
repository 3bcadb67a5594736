"""Journal files of systemd, as journalctl reads them, whole and in pieces."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.parsers.journald import (
    HEADER,
    LZ4,
    MOST_OBJECT,
    UNKNOWN_BASE,
    XZ,
    ZSTD,
    bases_of,
    decompressed,
    fields_of,
    find_entries,
    have_objects,
    is_compact,
    lz4_block,
)
from tests.logs.log_scenes import HAS_TO_JOURNAL, journal

COUNT = 60


@pytest.fixture(params=("1", "0"), ids=("compact", "regular"))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if not HAS_TO_JOURNAL:
        pytest.skip("needs systemd-journal-remote")
    path = tmp_path / "x.journal"
    journal(path, range(COUNT), SYSTEMD_JOURNAL_COMPACT=request.param)
    return path


def test_journalctl_reads_the_same(file: Path) -> None:
    data = file.read_bytes()
    said = subprocess.run(
        ["journalctl", "--file", file, "-o", "json", "--all"], capture_output=True, check=True
    ).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    entries, compact = find_entries(data), is_compact(data)
    assert compact is not None
    assert len(entries) == len(rows) == HEADER.first(data).n_entries == COUNT
    for row, entry in zip(rows, entries, strict=True):
        fields = dict(each for each in fields_of(data, entry, lambda at: at, compact)
                      if not isinstance(each, str))  # fmt: skip
        assert entry.time == int(row["__REALTIME_TIMESTAMP"]) * 1000
        told = {name: value for name, value in row.items() if not name.startswith("__")}
        boot = told.pop("_BOOT_ID")
        assert boot == fields.pop(b"_BOOT_ID", boot.encode()).decode()
        assert {name.decode(): value.decode() for name, value in fields.items()} == told


def test_the_place_of_a_piece_is_told_by_its_objects(file: Path) -> None:
    data = file.read_bytes()
    first = find_entries(data)[10].offset // 4096 * 4096
    piece = b"\xff" * 4096 + data[first:]
    entries = find_entries(piece)
    assert 10 < len(entries) <= COUNT
    bases = bases_of(piece, entries)
    assert set(bases.tolist()) == {first - 4096}
    assert (bases_of(piece[:4096], []) == UNKNOWN_BASE).all()


def test_blocks_of_journals_are_marked(file: Path) -> None:
    words = np.frombuffer(file.read_bytes(), "<u8").reshape(-1, 512)
    marked = have_objects(words)
    blocks = {entry.offset // 4096 for entry in find_entries(file.read_bytes())}
    assert set(np.flatnonzero(marked).tolist()) >= blocks and marked[0]


def test_compressed_fields_are_read() -> None:
    text = b"MESSAGE=" + b"a long one, " * 200
    assert decompressed(lzma.compress(text), XZ) == text
    zstandard = pytest.importorskip("zstandard")
    assert decompressed(zstandard.ZstdCompressor().compress(text), ZSTD) == text
    # a literal of 12 bytes, then a match of the rest; then 5 literals, as the format wants
    literals, rest = b"MESSAGE=aaaa", len(text)
    assert rest > len(literals)
    block = b"\xcf" + literals + b"\x01\x00" + b"\x05" + b"\x50" + b"bcdef"
    assert lz4_block(block, 1000) == literals + b"a" * 24 + b"bcdef"
    assert decompressed((41).to_bytes(8, "little") + block, LZ4) == lz4_block(block, 41)
    for damaged, flags in ((b"no", XZ), (b"no", ZSTD), (b"\x00" * 8, LZ4)):
        try:
            assert decompressed(damaged, flags) == b""
        except CorruptError:
            continue


@pytest.mark.skipif(shutil.which("lz4") is None, reason="needs lz4")
def test_blocks_of_the_lz4_program_are_read(tmp_path: Path) -> None:
    text = b"".join(b"line %d of a log, %d\n" % (at, at * at) for at in range(2000))
    done = subprocess.run(["lz4", "-c", "--no-frame-crc"], input=text, capture_output=True)
    frame = done.stdout
    start = 7 + 8 * bool(frame[4] & 8)  # the header, with the size of the content if it is told
    size = int.from_bytes(frame[start : start + 4], "little")
    assert lz4_block(frame[start + 4 : start + 4 + size], MOST_OBJECT) == text


def test_noise_has_no_entries() -> None:
    noise = np.random.default_rng(2).integers(0, 256, 1 << 20, np.uint8).tobytes()
    assert find_entries(noise) == [] == find_entries(b"") and is_compact(noise) is None
