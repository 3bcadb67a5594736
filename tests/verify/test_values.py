"""Values of attributes in inodes of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ext4kit
from ext4kit.verify import verify
from tests.filesystem.matrix import run
from tests.verify.places import debugfs

CODE = "xattr-value-inode"
needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("mke2fs", "debugfs"))), reason="needs e2fsprogs"
)


def counts(image: Path) -> dict[str, int]:
    with ext4kit.open(image) as opened:
        return dict(verify(opened.volume().filesystem()).findings.counts)


@needs_tools
def test_a_value_inode_without_the_feature_is_an_error(tmp_path: Path) -> None:
    """The kernel does not read an inode that has one."""
    image, value = tmp_path / "image", tmp_path / "value"
    value.write_bytes(b"v" * 3000)
    with image.open("wb") as file:
        file.truncate(4 << 20)
    run("mke2fs -q -F -t ext4 -b 1024 -I 256 -O ea_inode", image)
    debugfs(image, f"write {value} owner", f"ea_set -f {value} owner user.large", write=True)
    assert CODE not in counts(image)
    debugfs(image, "feature -ea_inode", write=True)
    assert counts(image)[CODE] == 1
