"""A search ends where the stored bytes of a file end, whatever size the inode says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.environment import needs
from tests.program import run_program

pytestmark = needs("mke2fs", "debugfs")


@pytest.mark.parametrize("size", [40, 1 << 32, 1 << 60])
def test_a_damaged_size_does_not_keep_a_search(size: int, tmp_path: Path) -> None:
    (source := tmp_path / "source").mkdir()
    (source / "inside").write_text("harbour " * 5)  # small enough for the inode
    (source / "blocks").write_text("harbour " * 1000)
    image = tmp_path / "image"
    image.write_bytes(bytes(4 << 20))
    make: list[str | Path] = ["mke2fs", "-q", "-t", "ext4", "-O", "inline_data", "-I", "256"]
    subprocess.run([*make, "-d", source, image], check=True)
    change = ["debugfs", "-w", "-R", f"set_inode_field /inside size {size}", str(image)]
    subprocess.run(change, check=True, capture_output=True)
    words = ("search", image, "--text", "harbour", "--in", "live", "--json", "-q")
    lines = run_program(*words, timeout=60).stdout.splitlines()
    paths = [hit["path"] for hit in map(json.loads, lines) if hit["record"] == "hit"]
    assert (paths.count("/inside"), paths.count("/blocks")) == (5, 1000)
