"""Each transaction belongs to the mount during which the kernel committed it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes import machine
from tests.conftest import Cli

pytestmark = pytest.mark.kernel
OPTIONS = ("-t", "ext4", "-O", "^orphan_file", "-J", "size=4")
TICK = 10_000_000  # ns: commit blocks have the time of the last clock tick


def mount_count(image: Path) -> int:
    """As dumpe2fs says."""
    lines = machine.run("dumpe2fs", "-h", image).decode().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("Mount count"))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mounts") / "disk.img"
    machine.make_file_system(path, 64 << 20, OPTIONS)
    return path


@pytest.fixture(scope="module")
def spans(image: Path) -> list[tuple[int, int, int]]:
    """(begin, end, mount count) of each of eight mounts; the fifth writes no file."""
    told = []
    for turn in range(8):
        begin = time.time_ns()
        with machine.mounted(image, "noatime") as root:
            for number in range(3 if turn != 4 else 0):
                (root / f"{turn}-{number}").write_bytes(b"x" * 5000)
                machine.sync(root)
            if turn > 0 and turn != 4:
                (root / f"{turn - 1}-0").unlink(missing_ok=True)
        told.append((begin, time.time_ns(), mount_count(image)))
        time.sleep(3 * TICK / 1e9)  # no time is near two mounts
    return told


def transactions(ext4kit: Cli, image: Path) -> list[dict[str, Any]]:
    done = ext4kit("journal", "list", image, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_transactions_have_the_count_of_their_mount(
    ext4kit: Cli, image: Path, spans: list[tuple[int, int, int]]
) -> None:
    found = transactions(ext4kit, image)
    expected = [
        next(
            count
            for begin, end, count in spans
            if begin - TICK <= each["commit_time_ns"] <= end + TICK
        )
        for each in found
    ]
    told = [each["mount"] for each in found]
    wrong = [pair for pair in zip(told, expected, strict=True) if pair[0] not in (None, pair[1])]
    assert wrong == []
    # The kernel logs the superblock with the first file that is opened, and when it can at once.
    assert len({count for count in told if count is not None}) >= len(spans) // 2
