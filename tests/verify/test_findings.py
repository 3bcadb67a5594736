"""The table of codes, its documentation, the bounds, and the command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.problems import Severity
from ext4kit.verify import CODES, Findings
from ext4kit.verify.context import VisitedBlocks
from ext4kit.verify.findings import KEPT_EACH
from tests.conftest import Cli
from tests.environment import ROOT
from tests.filesystem.matrix import run


def test_every_code_is_documented_with_its_severity() -> None:
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", text, re.MULTILINE))
    assert table == {code: str(kind.severity) for code, kind in CODES.items()}


def test_every_code_of_the_table_is_used() -> None:
    source = "".join(
        path.read_text() for path in (ROOT / "ext4kit" / "verify").glob("*.py")
        if path.name != "findings.py"
    )  # fmt: skip
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source))
    made = {f"{kind}-bitmap-{what}" for kind in ("block", "inode")
            for what in ("checksum", "marked", "unmarked")}  # fmt: skip
    assert CODES.keys() - used - made == set()


def test_findings_are_bounded_and_counts_true() -> None:
    findings = Findings()
    for number in range(3 * KEPT_EACH):
        findings.add("inode-size", "inode", inode=number)
    for number in findings.shown("link-count", np.arange(5 * KEPT_EACH)):
        findings.add("link-count", "inode", inode=number)
    findings.add("superblock-errors", "superblock")
    assert findings.counts == {
        "inode-size": 3 * KEPT_EACH, "link-count": 5 * KEPT_EACH, "superblock-errors": 1
    }  # fmt: skip
    assert len(findings.kept) == 2 * KEPT_EACH + 1
    assert findings.wrong == 8 * KEPT_EACH


def test_each_block_is_visited_once() -> None:
    visited, seen, rng = VisitedBlocks(), set(), np.random.default_rng(3)
    for _ in range(50):
        blocks = rng.integers(0, 300, 20)
        for block, fresh in zip(blocks.tolist(), visited.visit(blocks).tolist(), strict=True):
            assert fresh == (block not in seen)
            seen.add(block)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(4 << 20)
    run("mke2fs -q -F -t ext4", path)
    return path


def test_the_command_says_nothing_is_wrong(image: Path, ext4kit: Cli) -> None:
    done = ext4kit("verify", image)
    assert done.returncode == 0
    assert "no defect found" in done.stdout


def test_the_command_tells_findings_as_records_and_exits_with_1(image: Path, ext4kit: Cli) -> None:
    subprocess.run(
        ["debugfs", "-w", "-R", "set_inode_field / links_count 9", image],
        capture_output=True, check=True,
    )  # fmt: skip
    done = ext4kit("verify", image, "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    found = [record for record in records if record["record"] == "finding"]
    assert [record["code"] for record in found] == ["link-count"]
    assert (found[0]["inode"], found[0]["read"], found[0]["expected"]) == (2, "9", "3")
    assert found[0]["severity"] == Severity.ERROR
    assert records[-1]["findings"] == {"link-count": 1}
