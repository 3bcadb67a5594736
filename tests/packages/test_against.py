"""Lists from outside take memory for what is in them, not for the most that they may have."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

from ext4kit.packages.against import read_outside
from ext4kit.packages.roots import FolderRoot
from ext4kit.problems import Problems


def test_a_small_list_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "list.sha256"
    path.write_text(f"{hashlib.sha256(b'x').hexdigest()}  usr/bin/x\n")
    tracemalloc.start()
    try:
        found = read_outside(path, Problems())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.packages) == 1
    assert most < 16 << 20


def test_a_small_file_of_a_folder_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("Package: x\n")
    root = FolderRoot(tmp_path, Problems())
    tracemalloc.start()
    try:
        assert root.read(b"var/lib/dpkg/status") == b"Package: x\n"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20
