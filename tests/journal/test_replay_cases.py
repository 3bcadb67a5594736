"""Replay against the reference answers for e2fsprogs' own test images, where they are at hand."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.journal import Log, replay
from tests.cases import MISSING, records, unpack
from tests.journal.crashes import our_tree, pieces
from tests.journal.kernel_log import opened
from tests.journal.replaying import replayed

REPLAYED = [record for record in records() if record.get("replay")]
CASES = [record for record in REPLAYED if record["replay"]["reference"] == "blocks"]
FAST_COMMITS = [record for record in REPLAYED if record not in CASES]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    devices = [record["journal_device"] for record in CASES if record.get("journal_device")]
    trees = [_listing(record) for record in FAST_COMMITS]
    unpack(folder, (*(record["image"] for record in REPLAYED), *devices, *trees))
    return folder


def _listing(record: dict[str, Any]) -> str:
    """The tree that a replay has to give: e2fsck loses data where the kernel's is there."""
    whose = "kernel" if record["replay"]["reference"].startswith("kernel") else "after"
    end = {"kernel": "listing_kernel_replay", "after": "listing_after_replay"}[whose]
    return f"ref/{record['name']}/{end}.jsonl"


@pytest.mark.heavy
@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_replay_changes_the_blocks_that_the_reference_changes(
    case: dict[str, Any], images: Path
) -> None:
    fs = opened(images / case["image"])
    device = case.get("journal_device")
    if device:
        fs.journal_device = open_evidence(images / device).source
    log = Log.open(fs)
    if log is None:
        assert not case["replay"]["blocks"]
        assert any("journal" in problem.where for problem in fs.problems)
        return
    blocks = replay(log)
    expected = {int(block): digest for block, digest in case["replay"]["blocks"].items()}
    touched = sorted(expected.keys() | set(blocks.plan.blocks.tolist()))
    masked = [range(*span) for span in case["replay"]["masked_ranges"]]
    for block in touched:
        start = block * blocks.block_size
        if any(start < span.stop and span.start < start + blocks.block_size for span in masked):
            continue
        data = blocks.read(block)
        got = hashlib.sha256(data).hexdigest()
        unchanged = hashlib.sha256(fs.blocks.read(block)).hexdigest()
        assert got == expected.get(block, unchanged), f"block {block}"


@pytest.mark.heavy
@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_copy_is_the_references_whole_image(
    case: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    image, copy, device = images / case["image"], tmp_path / "copy.img", case.get("journal_device")
    done = replayed(image, copy, *(("--journal", images / device) if device else ()))
    complete = done.exit_code == 0
    if not copy.exists():  # refused: the reference changed nothing
        assert not case["replay"]["blocks"]
        assert not complete
        copy = image
    reference = case["replay"]
    assert _masked(copy, reference["masked_ranges"]) == reference["masked_sha256"]
    assert complete or case["damage"]


def _masked(path: Path, ranges: list[list[int]]) -> str:
    """SHA-256 of a file with the bytes of (first, end) ranges as zeros; holes are not read."""
    digest, position, blank = hashlib.sha256(), 0, bytes(1 << 20)
    for start, data in [*sorted(pieces(path).items()), (path.stat().st_size, b"")]:
        while position < start:
            step = min(start - position, len(blank))
            digest.update(blank[:step])
            position += step
        body = bytearray(data)
        for first, end in ranges:
            inside = slice(max(first - start, 0), max(end - start, 0))
            body[inside] = bytes(len(body[inside]))
        digest.update(body)
        position += len(body)
    return digest.hexdigest()


@pytest.mark.skipif(not FAST_COMMITS, reason=MISSING)
@pytest.mark.parametrize("case", FAST_COMMITS, ids=lambda case: case["name"])
def test_a_copy_with_fast_commits_shows_the_references_tree_and_is_sound(
    case: dict[str, Any], images: Path, tmp_path: Path
) -> None:
    copy, reference = tmp_path / "copy.img", case["replay"]
    replayed(images / case["image"], copy)
    found = our_tree(opened(copy))
    expected = [json.loads(line) for line in (images / _listing(case)).read_text().splitlines()]
    assert {os.fsencode(each["path"]) for each in expected} | {b"/"} == set(found)
    for each in expected:
        number, _, _, _, size, *rest = found[os.fsencode(each["path"])]
        assert number == each["ino"]
        assert each["size"] in (None, size)
        assert each.get("sha256") in (None, rest[3])
    if reference["aborted"]:
        return
    if shutil.which("e2fsck"):
        done = subprocess.run(["e2fsck", "-fn", copy], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
