"""Records of logins, as utmpdump and last read them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.parsers.utmp import (
    LASTLOG,
    TYPES,
    UTMP,
    find_records,
    parse_lastlog,
    parse_record,
)


def record(kind: int = 7, number: int = 1, seconds: int = 1_772_388_000) -> bytes:
    """As glibc writes it."""
    words = (f"{word}{number}".encode() for word in ("pts/", "user", "host"))
    line, user, host = words
    head = struct.pack("<hxxi32s4s32s256s", kind, 1000 + number, line, b"ts/1", user, host)
    return head + struct.pack("<hhiii16s20x", 0, 0, 0, seconds, 5, bytes([10, 0, 0, number]))


def test_sizes_and_places() -> None:
    assert (UTMP.size, LASTLOG.size) == (384, 292)
    assert UTMP.offset_of("ut_tv_sec") == 340 and UTMP.offset_of("ut_addr_v6") == 348


@pytest.mark.skipif(shutil.which("utmpdump") is None, reason="needs utmpdump")
def test_utmpdump_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "wtmp"
    path.write_bytes(b"".join(record(kind, number) for number, kind in enumerate(range(1, 9))))
    said = subprocess.run(["utmpdump", path], capture_output=True, text=True, check=True).stdout
    rows = [re.findall(r"\[([^\]]*)\]", line) for line in said.splitlines()]
    data = path.read_bytes()
    offsets = find_records(data).tolist()
    assert len(rows) == len(offsets) == 8
    for row, offset in zip(rows, offsets, strict=True):
        found = parse_record(data, offset)
        assert TYPES.index(found.type) == int(row[0]) and found.pid == int(row[1])
        assert [row[3].strip(), row[4].strip(), row[5].strip(), row[6].strip()] == [
            found.user.decode(), found.line.decode(), found.host.decode(), found.address,
        ]  # fmt: skip
        assert row[7].startswith("2026-03-01T18:00:00,000005")
        assert found.time == 1_772_388_000_000_005_000


def test_records_are_found_at_any_step_of_128_bytes() -> None:
    data = bytes(128) + record() + bytes(256) + record(number=2) + b"x" * 384
    assert find_records(data).tolist() == [128, 768]
    assert len(find_records(b"")) == len(find_records(record()[:-1])) == 0
    assert parse_record(record(), 0).identity != parse_record(record(number=2), 0).identity
    with pytest.raises(CorruptError):
        parse_record(record()[:-1])


def test_noise_is_no_record() -> None:
    noise = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8).tobytes()
    assert len(find_records(noise)) == 0
    assert len(find_records(bytes(1 << 16))) == len(find_records(b"log line\n" * 5000)) == 0
    assert len(find_records(record(seconds=5))) == 0


def test_an_empty_slot_of_lastlog_is_none() -> None:
    data = bytes(292) + struct.pack("<I32s256s", 1_772_388_000, b"pts/0", b"gw")
    assert parse_lastlog(data, 0) is None
    assert parse_lastlog(data, 292) == (1_772_388_000 * 10**9, b"pts/0", b"gw")
