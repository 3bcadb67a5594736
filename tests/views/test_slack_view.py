"""The view of slack has the bytes after the end of each file in its blocks, and nothing else."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("mke2fs", "debugfs", "blkls"))), reason="needs e2fsprogs, sleuthkit"
)
BLOCK = 1024
FILES = {  # path: (bytes written, bytes that the inode says afterwards)
    "whole": (3 * BLOCK, 3 * BLOCK),
    "plain": (2500, 2500),
    "folder/cut in its last block": (2500, 2100),
    "folder/cut by blocks": (10_000, 5_000),
    "folder/below/empty now": (1500, 0),
}


def slack_image(folder: Path, *options: str) -> tuple[Path, dict[str, bytes]]:
    """An image whose files were cut without a write, and the slack of each."""
    image, source, slack = folder / "slack.img", folder / "source", {}
    changes = []
    for path, (written, size) in FILES.items():
        data = random.Random(path).randbytes(written)
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
        slack[path] = data[size:].ljust(-(-written // BLOCK) * BLOCK - size, b"\0")
        if size != written:
            changes.append(f'sif "/{path}" size {size}')
    words = ["mke2fs", "-q", "-t", "ext4", "-b", str(BLOCK), *options, "-d", source, image, "4M"]
    subprocess.run(list(map(str, words)), check=True)
    subprocess.run(["debugfs", "-w", "-f", "-", image], input="\n".join(changes).encode(),
                   check=True, capture_output=True)  # fmt: skip
    return image, {path: data for path, data in slack.items() if data.strip(b"\0")}


@needs_tools
@pytest.mark.parametrize("options", [(), ("-O", "^extents,^64bit"), ("-O", "^has_journal")])
def test_slack_is_what_was_cut_off(options: tuple[str, ...], tmp_path: Path) -> None:
    image, expected = slack_image(tmp_path, *options)
    with library.open(image) as opened:
        view = open_view(Workspace(opened.filesystem()), "slack")
        nodes = [node for some in view.walk() for node in some.nodes]
        found = {}
        for node in nodes:
            if node.kind == "file" and (content := node.content()) is not None:
                data = content.open().read()
                assert (content.read(7, 500), content.size) == (data[7:507], len(data))
                assert b"".join(bytes(chunk.data or b"") for chunk in content.chunks()) == data
                found[node.path.decode().strip("/")] = data
    assert found == expected
    assert {node.path for node in nodes if node.kind == "directory"} == {
        b"/folder", b"/folder/below", b"/lost+found"
    }  # fmt: skip
    others = subprocess.run(["blkls", "-s", image], capture_output=True, check=True).stdout
    ends = {path: data[: -FILES[path][1] % BLOCK] for path, data in found.items()}  # last blocks
    assert all(data.strip(b"\0") in others for data in ends.values())
    assert len(others.replace(b"\0", b"")) == sum(
        len(data.replace(b"\0", b"")) for data in ends.values()
    )
