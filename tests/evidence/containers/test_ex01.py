"""Ex01 as libewf's ewfacquire writes it.

The tool of today's distributions writes none, so one is kept here, of libewf 20240506 built with
zlib: `ewfacquire -f encase7-v2 -c deflate:best -d sha1 -C 17 -D numbered -e examiner`. Its disk has
no chunk of one repeated value: what that writer makes of such chunks its own ewfverify refuses.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ext4kit.cli.main import run
from ext4kit.evidence import open_evidence

SAMPLE = Path(__file__).with_name("numbered.Ex01")
SIZE = 307_200
DISK = b"".join(b"line %d\n" % number for number in range(40_000))[:SIZE]


def test_the_disk_and_the_case_data_are_what_was_put_in() -> None:
    with open_evidence(SAMPLE) as evidence:
        assert evidence.format == "ewf2"
        assert evidence.source.size == SIZE
        assert evidence.source.read(0, SIZE) == DISK
        assert evidence.source.read(99_999, 70_001) == DISK[99_999:170_000]
        assert evidence.hashes == {
            "md5": hashlib.md5(DISK).hexdigest(),
            "sha1": hashlib.sha1(DISK).hexdigest(),
        }
        facts = {key: evidence.facts[key] for key in ("case number", "description")}
        assert facts == {"case number": "17", "description": "numbered"}
        assert evidence.facts["examiner name"] == "examiner"
        assert evidence.facts["acquisition software version"] == "20240506"
        assert not any("acquiry" in name for name in evidence.facts)


def test_its_stored_hashes_are_verified(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hash", str(SAMPLE), "--verify", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    image = next(each for each in records if each.get("of") == "image")
    assert image["matches"] is True
    assert image["sha256"] == hashlib.sha256(DISK).hexdigest()


@pytest.mark.parametrize("part", [3, 2])
def test_a_changed_byte_is_told_by_its_stored_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    data = bytearray(SAMPLE.read_bytes())
    data[len(data) // part] ^= 0xFF
    (tmp_path / "disk.Ex01").write_bytes(data)
    assert run(["hash", str(tmp_path / "disk.Ex01")]) == 1
    assert "the container stores" in capsys.readouterr().err


def test_a_changed_header_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(SAMPLE.read_bytes())
    data[300] ^= 0xFF
    (tmp_path / "disk.Ex01").write_bytes(data)
    assert run(["volumes", str(tmp_path / "disk.Ex01")]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "disk.Ex01: cannot be opened" in said
