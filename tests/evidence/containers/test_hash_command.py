"""`ext4kit hash` on containers: what is in them, and what they say of it.

Oracles: ewfinfo, ewfverify, and coreutils on the raw image.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run
from sample_images import acquired
from sample_images.recipes import machine
from tests.evidence.containers.conftest import Tool
from tests.evidence.containers.test_disks_in_containers import CONTAINERS
from tests.evidence.test_hashing import told_by_tools

Records = list[dict[str, Any]]


def _hash(capsys: pytest.CaptureFixture[str], code: int, image: Path, *more: str) -> Records:
    capsys.readouterr()
    assert run(["hash", str(image), "--json", *more]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _of(records: Records, what: str) -> dict[str, Any]:
    return next(each for each in records if each.get("of") == what)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ewf none, split", "ewf best", "ewf smart"])
def test_stored_hashes_are_checked(
    name: str, tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = CONTAINERS[name](tool, sample, tmp_path)
    records = _hash(capsys, 0, image, "--verify")
    disk = _of(records, "image")
    assert {key: disk[key] for key in ("md5", "sha1", "sha256")} == told_by_tools(
        sample.read_bytes()
    )
    said = tool("ewfinfo", image)
    for algorithm, value in disk["stored"].items():
        assert re.search(rf"{algorithm[:2]}.*\t{value}", said, re.IGNORECASE)
    assert len(disk["stored"]) == said.count("hash") + said.count("SHA1:\t")
    assert disk["matches"] is True
    evidence = next(each for each in records if each["record"] == "evidence")
    there = sorted(each for each in tmp_path.iterdir() if each.stem == image.stem)
    assert [each["path"] for each in evidence["files"]] == list(map(str, there))
    assert [each["size"] for each in evidence["files"]] == [each.stat().st_size for each in there]


@pytest.mark.heavy
def test_a_byte_that_changed_is_a_mismatch(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chunk with a good checksum of other bytes: only the stored hash can tell."""
    image = CONTAINERS["ewf none, split"](tool, sample, tmp_path)
    other = bytearray(sample.read_bytes())
    other[20_000_000] ^= 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other.img").write_bytes(other)
    CONTAINERS["ewf none, split"](tool, tmp_path / "other.img", tmp_path / "other")
    for segment in sorted((tmp_path / "other").iterdir())[1:-1]:  # the hashes are in the last
        (tmp_path / segment.name).write_bytes(segment.read_bytes())
    records = _hash(capsys, 1, image, "--verify")
    assert _of(records, "image")["matches"] is False
    assert _of(records, "image")["md5"] == told_by_tools(bytes(other))["md5"]
    told = [each["what"] for each in records if each["record"] == "problem"]
    assert len(told) == 2
    assert all("the container stores" in each for each in told)
    done = subprocess.run(["ewfverify", "-q", image], capture_output=True, check=False)
    assert done.returncode != 0


def test_a_bad_chunk_is_named(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = CONTAINERS["ewf fast"](tool, sample, tmp_path)
    data = bytearray(image.read_bytes())
    at = len(data) // 2
    data[at : at + 40] = bytes(byte ^ 0xFF for byte in data[at : at + 40])
    image.write_bytes(data)
    disk = _of(_hash(capsys, 1, image), "image")
    zeroed = bytearray(sample.read_bytes())
    for lost in disk["unreadable"]:
        assert lost["offset"] % (32 << 10) == 0 == lost["length"] % (32 << 10)
        assert lost["length"] <= 64 << 10
        zeroed[lost["offset"] : lost["offset"] + lost["length"]] = bytes(lost["length"])
    assert disk["unreadable"]
    assert disk["sha256"] == told_by_tools(bytes(zeroed))["sha256"]


def test_nothing_stored_is_said(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = CONTAINERS["qcow2"](tool, sample, tmp_path)
    disk = _of(_hash(capsys, 0, image), "image")
    assert (disk["stored"], disk["matches"]) == ({}, None)
    assert run(["hash", str(image), "--verify"]) == 1
    assert "nothing to verify: qcow2 stores no hash" in capsys.readouterr().err


@pytest.mark.heavy
def test_what_is_unlocked_is_hashed_too(
    luks1: Path, sample: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = _hash(capsys, 0, luks1, "--key-file", str(key))
    outer, inner = (each for each in records if each.get("of") == "volume")
    assert outer["md5"] == told_by_tools(luks1.read_bytes())["md5"]
    assert (inner["parent"], inner["volume"]) == (1, 2)
    assert inner["sha256"] == told_by_tools(sample.read_bytes())["sha256"]
    assert [each["of"] for each in _hash(capsys, 0, luks1, "--image-only")[1:2]] == ["image"]


@pytest.mark.heavy
def test_the_packed_e01_is_the_packed_sample(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = _of(_hash(capsys, 0, acquired(), "--verify"), "image")
    assert disk["matches"] is True
    assert disk["sha256"] == told_by_tools(sample.read_bytes())["sha256"]


def test_lines_for_people(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = CONTAINERS["ewf best"](tool, sample, tmp_path)
    assert run(["hash", str(image)]) == 0
    said = capsys.readouterr().out
    md5 = machine.run("md5sum", sample).split()[0].decode()
    assert f"{md5}  as stored" in said
    assert "case number: 17" in said
