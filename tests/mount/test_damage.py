"""A damaged image ends no mount: every call gets an answer, and memory stays bounded."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fuzz import images
from tests.mount.damage import damaged_image
from tests.mount.mounting import Mount, missing, mounted

REASON = missing() or images.missing()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
SEEDS = 12
MEMORY = 500 << 10  # KiB
SECONDS = 120
READ = "find {} -type f -exec cat {{}} + > /dev/null; find {} -ls > /dev/null"
TREES = ("live", "deleted", "unattached", "unallocated", "as-of", "roots", "metadata")


def _peak(mount: Mount) -> int:
    status = Path(f"/proc/{mount.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(SEEDS))
def test_every_file_of_a_damaged_image_is_read_or_refused(
    number: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed = request.config.option.seed * 1000 + number
    with damaged_image(seed, tmp_path) as image, mounted(image) as mount:
        _read(mount, seed)


def _read(mount: Mount, seed: int) -> None:
    for tree in TREES:
        words = READ.format(tree, tree)
        subprocess.run(["sh", "-c", words], cwd=mount.root, stderr=subprocess.DEVNULL,
                       timeout=SECONDS, check=False)  # fmt: skip
        assert mount.process.poll() is None, (seed, tree)
    assert sorted(path.name for path in mount.root.iterdir()), seed
    assert _peak(mount) < MEMORY, seed
    mount.end()
    assert "internal error" not in mount.errors.read_text(), seed


def test_bytes_that_are_lost_are_an_error() -> None:
    import numpy as np

    from ext4kit.errors import AccessError
    from ext4kit.filesystem.block_maps import Runs
    from ext4kit.filesystem.content import Content
    from ext4kit.mount.files import OpenContent

    class Blocks:
        block_size, blocks_count = 1024, 8

        def read(self, block: int, count: int = 1) -> memoryview:
            return memoryview(
                b"".join(bytes([each]) * 1024 for each in range(block, block + count))
            )

        def read_many(self, blocks: np.ndarray) -> np.ndarray:
            raise NotImplementedError

    content = Content(Blocks(), 4000, Runs.consecutive(2, 4))
    file = OpenContent(content, ((1024, 1024),))
    assert file.read(0, 1024) == bytes([2]) * 1024
    assert file.read(2048, 9999) == bytes([4]) * 1024 + bytes([5]) * (4000 - 3072)
    for offset, size in ((0, 1025), (1024, 1), (2047, 1), (1000, 4000)):
        with pytest.raises(AccessError):
            file.read(offset, size)
    assert (file.seek(0, True), file.seek(0, False), file.seek(4000, False)) == (4000, 0, None)


@pytest.mark.skipif(not shutil.which("debugfs"), reason="needs e2fsprogs")
def test_a_file_with_a_damaged_map_is_refused_as_the_kernel_refuses_it(tmp_path: Path) -> None:
    image, source = tmp_path / "damaged.img", tmp_path / "source"
    source.mkdir()
    for name in ("whole", "damaged"):
        (source / name).write_bytes(name.encode() * 2000)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", source, image, "4M"], check=True)
    request = "sif /damaged block[0] 0x12345678"  # the magic number of the extent tree
    subprocess.run(["debugfs", "-w", "-R", request, image], check=True, capture_output=True)
    with mounted(image) as mount:
        live = mount.root / "live"
        assert (live / "whole").read_bytes() == b"whole" * 2000
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(errno.EUCLEAN)):
                (live / "damaged").read_bytes()
        assert (live / "damaged").stat().st_size == len("damaged") * 2000
