"""Replay against the reference answers for e2fsprogs' own test images, where they are at hand."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.journal import Log, replay
from tests.cases import MISSING, records, unpack
from tests.journal.kernel_log import opened

CASES = [
    record for record in records() if (record.get("replay") or {}).get("reference") == "blocks"
]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    devices = [record["journal_device"] for record in CASES if record.get("journal_device")]
    unpack(folder, (*(record["image"] for record in CASES), *devices))
    return folder


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
