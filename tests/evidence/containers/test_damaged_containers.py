"""Damaged containers: one clear line, or a result that says which bytes are missing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run
from ext4kit.errors import AccessError, UnsupportedError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.source import Source
from sample_images.recipes.score import read_records
from tests.evidence.containers.conftest import Tool
from tests.evidence.containers.test_disks_in_containers import CONTAINERS, MIB

CHUNK = 32 << 10
STEP = 64 << 10


def _refusal(path: Path) -> str:
    with pytest.raises((AccessError, UnsupportedError)) as caught:
        open_evidence(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def _compared(source: Source, sample: Path, step: int) -> list[int]:
    """Offsets of the pieces that cannot be read; all others are those of the raw image."""
    content, lost = sample.read_bytes(), []
    for at in range(0, source.size, step):
        try:
            piece = source.read(at, min(step, source.size - at))
        except AccessError as error:
            assert re.search(r"bytes [\d,]+ to [\d,]+", str(error))
            lost.append(at)
            continue
        assert piece == content[at : at + step]
    return lost


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _busy_chunk(sample: Path, size: int) -> int:
    """Offset of a chunk that is full of content, past the middle of the sample's content."""
    content = sample.read_bytes()
    full = [at for at in range(0, len(content), size) if content.count(0, at, at + size) < 1000]
    return full[len(full) // 2]


def test_a_bad_chunk_of_an_e01_is_lost_and_nothing_else(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    for name in ("ewf fast", "ewf none, split"):
        folder = tmp_path / name
        folder.mkdir()
        image = CONTAINERS[name](tool, sample, folder)
        data = image.read_bytes()
        at = len(data) // 2
        _overwrite(image, at, bytes(byte ^ 0xFF for byte in data[at : at + 40]))
        with open_evidence(image) as evidence:
            lost = _compared(evidence.source, sample, CHUNK)
            assert 1 <= len(lost) <= 2
            told = [problem.where for problem in evidence.problems]
            assert told == [f"image, bytes {at:,} to {at + CHUNK - 1:,}" for at in lost]
            why = [problem.what for problem in evidence.problems]
        for text in why:  # the file is complete
            assert re.search("is damaged: its (checksum is wrong|decompression fails)$", text)
            assert "ends early" not in text
        starts = [_chunk_in(text) for text in why]
        assert all(at - 2 * CHUNK < start < at + 40 for start in starts)


def _chunk_in(text: str) -> int:
    """The offset in the file that a message gives for a chunk."""
    (number,) = re.findall(r"its chunk at byte ([\d,]+)", text)
    return int(number.replace(",", ""))


def test_only_an_e01_that_really_ends_early_is_said_to(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    """SMART's form lists the chunks before them, EnCase's form behind them."""
    for name in ("ewf smart", "ewf best"):
        folder = tmp_path / name
        folder.mkdir()
        image = CONTAINERS[name](tool, sample, folder)
        with image.open("r+b") as file:
            file.truncate(200_000)
        with open_evidence(image) as evidence:
            assert _compared(evidence.source, sample, CHUNK)
            told = [problem.what for problem in evidence.problems if "bytes" in problem.where]
        assert told
        assert all(f"{image.name} ends early" in text for text in told)
        assert not any("damaged" in text or "are missing" in text for text in told)


@pytest.mark.parametrize("how", ["cut", "a damaged section"])
def test_what_is_behind_a_gap_of_unknown_length_is_not_put_at_a_wrong_place(
    tool: Tool, sample: Path, tmp_path: Path, how: str
) -> None:
    """A table of an E01 does not number its chunks: one lost in the middle would shift the rest."""
    image = CONTAINERS["ewf none, split"](tool, sample, tmp_path)
    third = tmp_path / "disk.E03"
    if how == "cut":
        with third.open("r+b") as file:
            file.truncate(3 * MIB)
    else:
        at = third.read_bytes().index(b"sectors\0") + 60
        _overwrite(third, at, bytes([third.read_bytes()[at] ^ 1]))
    with open_evidence(image) as evidence:
        lost = _compared(evidence.source, sample, CHUNK)  # whatever is read is right
        why = [problem.what for problem in evidence.problems if "bytes" in problem.where]
        known = unreadable_ranges(evidence.source).tolist()
    assert 0 < lost[0] <= 2 * 5 * MIB
    assert known == [[lost[0], sample.stat().st_size]]
    assert len(why) == 1
    assert why[0].startswith(
        "disk.E03 ends early" if how == "cut" else "the sections of disk.E03 cannot be followed"
    )
    assert "where the chunks of later segments belong is therefore not known" in why[0]


def test_what_a_bad_chunk_costs_is_in_the_manifest_and_the_exit_code(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = CONTAINERS["ewf fast"](tool, sample, tmp_path)
    data = image.read_bytes()
    _overwrite(image, len(data) // 2, bytes(byte ^ 0xFF for byte in data[len(data) // 2 :][:40]))
    with open_evidence(image) as evidence:
        lost = _compared(evidence.source, sample, CHUNK)
    assert run(["recover", str(image), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert all(f"bytes {at:,} to {at + CHUNK - 1:,} cannot be read" in said.replace(": ", " ")
               for at in lost)  # fmt: skip


def test_a_segment_missing_in_between_is_named(tool: Tool, sample: Path, tmp_path: Path) -> None:
    image = CONTAINERS["ewf none, split"](tool, sample, tmp_path)
    (tmp_path / "disk.E03").unlink()
    assert "segment 3 is missing" in _refusal(image)
    assert "open the first, disk.E01" in _refusal(tmp_path / "disk.E02")


def test_segments_missing_at_the_end_leave_what_the_first_ones_have(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["ewf none, split"](tool, sample, tmp_path)
    segments = sorted(tmp_path.glob("disk.E*"))
    segments[-1].unlink()
    with open_evidence(image) as evidence:
        told = next(iter(evidence.problems))
        assert "segments after" in told.what
        lost = _compared(evidence.source, sample, CHUNK)
        assert lost[-1] == sample.stat().st_size - CHUNK
        assert told.where == f"image, bytes {lost[0]:,} to {sample.stat().st_size - 1:,}"
    with open_evidence(image) as evidence:  # known before anything was read
        assert unreadable_ranges(evidence.source).tolist() == [[lost[0], sample.stat().st_size]]


def test_a_cut_container_knows_what_is_behind_the_cut(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    for name in ("qcow2", "qcow2 subclusters", "vhd dynamic", "ewf best"):
        folder = tmp_path / name.replace(" ", "-")  # qemu-io's commands are split at spaces
        folder.mkdir()
        image = CONTAINERS[name](tool, sample, folder)
        with image.open("r+b") as file:
            file.truncate(image.stat().st_size * 2 // 3)
        with open_evidence(image) as evidence:
            before = unreadable_ranges(evidence.source).tolist()
            told = {at for at in range(0, evidence.source.size, STEP)
                    if any(start < at + STEP and at < end for start, end in before)}  # fmt: skip
            lost = set(_compared(evidence.source, sample, STEP))
            assert lost <= told if name.startswith("vhd") else lost == told, name
            assert lost, name


@pytest.mark.heavy
def test_no_file_with_lost_bytes_is_intact(
    tool: Tool, sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad chunk under a deleted file, and segments that are missing: told before and after."""
    image = CONTAINERS["ewf none, split"](tool, sample, tmp_path)
    assert run(["deleted", str(image), "--json"]) == 0
    files = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first = min(each["extents"][0][1] for each in files if each.get("extents"))
    block = sample.read_bytes()[first * 4096 : first * 4096 + 64]
    segment = next(each for each in sorted(tmp_path.glob("disk.E*")) if block in each.read_bytes())
    _overwrite(segment, segment.read_bytes().index(block), bytes(64))
    for each in sorted(tmp_path.glob("disk.E*"))[2:]:  # what is behind 10 MiB
        each.unlink()
    with open_evidence(image) as evidence:
        lost = {at // 4096 for at in _compared(evidence.source, sample, 4096)}
    assert first in lost
    for sources in ("all", "journal"):
        capsys.readouterr()
        assert run(["deleted", str(image), "--json", "--sources", sources]) == 1
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        out = tmp_path / sources
        assert run(["recover", str(image), "-o", str(out), "--sources", sources]) == 1
        _none_is_intact(list(read_records(out)), lost)
        if sources == "all":
            _none_is_intact(told, lost)
        not_read = json.loads((out / "case.json").read_text())["not_read"]
        missing = {at // 4096 for start, end in not_read["ranges"] for at in range(start, end, 512)}
        assert missing == lost


def _none_is_intact(records: list[dict[str, Any]], lost: set[int]) -> None:
    """None of those whose blocks are lost, and some of the others."""
    hit = [
        any(lost & set(range(first, first + count)) for _, first, count in each.get("extents", ()))
        for each in records
    ]
    grades = [each.get("grade") for each in records]
    assert sum(hit) > 3
    assert "intact" not in {grade for grade, is_hit in zip(grades, hit, strict=True) if is_hit}
    assert "intact" in grades


def test_a_damaged_table_of_an_e01_is_read_from_its_copy(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["ewf best"](tool, sample, tmp_path)
    _overwrite(image, image.read_bytes().index(b"table\0") + 76 + 24 + 8, b"\xff\xff\xff\x7f")
    with open_evidence(image) as evidence:
        assert not _compared(evidence.source, sample, MIB)
        assert ["copy is used" in problem.what for problem in evidence.problems] == [True]


def test_a_cut_qcow2_reads_up_to_the_cut(tool: Tool, sample: Path, tmp_path: Path) -> None:
    image = CONTAINERS["qcow2"](tool, sample, tmp_path)
    with image.open("r+b") as file:
        file.truncate(image.stat().st_size // 2)
    with open_evidence(image) as evidence:
        lost = _compared(evidence.source, sample, STEP)
        assert lost
        # Clusters lie in the file in their order: what is lost is behind what is there.
        content = sample.read_bytes()
        full = [at for at in range(0, len(content), STEP) if any(content[at : at + STEP])]
        assert lost == [at for at in full if at >= lost[0]]
        cut = unreadable_ranges(evidence.source)
        assert sorted(each.where for each in evidence.problems) == sorted(
            f"image, bytes {start:,} to {end - 1:,}" for start, end in cut.tolist()
        )
        assert lost == [at for start, end in cut.tolist() for at in range(start, end, STEP)]


def test_bad_compressed_clusters_are_lost(tool: Tool, sample: Path, tmp_path: Path) -> None:
    """QCOW2 has no checksums: only the one cluster that the damage begins in may go unnoticed."""
    image = CONTAINERS["qcow2 compressed"](tool, sample, tmp_path)
    size = image.stat().st_size
    _overwrite(image, size * 2 // 3, b"\xff" * (size // 3))  # no block of deflate begins so
    content, wrong, lost = sample.read_bytes(), 0, 0
    with open_evidence(image) as evidence:
        for at in range(0, len(content), STEP):
            try:
                wrong += evidence.source.read(at, STEP) != content[at : at + STEP]
            except AccessError:
                lost += 1
    assert lost > 3
    assert wrong <= 1


def test_a_missing_backing_file_or_extent_is_named(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["qcow2 over raw"](tool, sample, tmp_path)
    (tmp_path / "base.img").unlink()
    assert "backing file 'base.img' is missing" in _refusal(image)
    split = CONTAINERS["vmdk split"](tool, sample, tmp_path)
    (tmp_path / "disk-s001.vmdk").unlink()
    assert "extent 'disk-s001.vmdk' is missing" in _refusal(split)


def test_a_parent_that_is_missing_or_another_disk_is_refused(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["vhd differencing"](tool, sample, tmp_path)
    base = tmp_path / "base.vhd"
    other = bytearray(base.read_bytes())
    other[68] ^= 1  # its identifier
    other[-512 + 68] ^= 1
    base.write_bytes(other)
    assert "base.vhd is not the parent that it was made from" in _refusal(image)
    base.unlink()
    assert "base.vhd' is missing" in _refusal(image)


def test_files_elsewhere_are_not_taken_into_an_image(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "evidence"
    folder.mkdir()
    (tmp_path / "own").write_bytes(b"the analyst's own" * 100_000)
    for name in (tmp_path / "own", Path("../own")):
        top = folder / "top.qcow2"
        top.unlink(missing_ok=True)
        tool("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", name, "-F", "raw", top, "1M")
        assert "is missing" in _refusal(top)


def test_a_chain_of_backing_files_without_an_end_is_refused(tool: Tool, tmp_path: Path) -> None:
    for name, base in (("a", "b"), ("b", "a")):
        tool("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", base, "-F", "qcow2",
             tmp_path / name, "1M")  # fmt: skip
    assert "does not end" in _refusal(tmp_path / "a")


@pytest.mark.heavy
def test_a_cut_vmdk_or_vhd_never_gives_wrong_bytes(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    for name in ("vmdk sparse", "vmdk stream-optimised", "vhd dynamic", "vhdx"):
        folder = tmp_path / name
        folder.mkdir()
        image = CONTAINERS[name](tool, sample, folder)
        with image.open("r+b") as file:
            file.truncate(image.stat().st_size * 2 // 3)
        try:
            evidence = open_evidence(image)
        except AccessError as error:
            assert str(image) in str(error)
            assert "\n" not in str(error)
            continue
        with evidence:
            assert _compared(evidence.source, sample, STEP), name


def test_a_cut_gzip_keeps_what_is_in_front_of_the_cut(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["gzip"](tool, sample, tmp_path)
    image.write_bytes(image.read_bytes()[: image.stat().st_size // 2])
    with open_evidence(image) as evidence:
        have = evidence.source.size
        wanted = hashlib.sha256(sample.read_bytes()[:have]).digest()
        assert hashlib.sha256(evidence.source.read(0, have)).digest() == wanted
        (told, _note) = evidence.problems
        assert told.where == f"image, the first {have:,} bytes"
