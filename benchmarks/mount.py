"""How fast a mount is read, beside the kernel's own mount and fuse2fs.

python -m benchmarks.mount IMAGE [--runs N]

IMAGE is one of `benchmarks.image`, with its big file and its small files; it is read only. Each row
is the median of the runs; the first run of each is not counted. Needs root and loop devices.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.mount.mounting import mounted

GIBIBYTE = 1 << 30
FILES = 20_000
TASKS = {
    "find": "find . | wc -l",
    "cat 1 GiB": f"head -c {GIBIBYTE} big.bin > /dev/null",
    "grep -r": "grep -r zzzyyx tree-00 || true",
    "20,000 files": f"find tree-00 tree-01 -type f -print0 | head -z -n {FILES}"
    " | xargs -0 cat > /dev/null",
}  # fmt: skip


@contextmanager
def _by_kernel(image: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ext4kit-bench-") as folder:
        words = ["mount", "-o", "ro,noload,loop", image, folder]
        subprocess.run(list(map(str, words)), check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextmanager
def _by_fuse2fs(image: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ext4kit-bench-") as folder:
        words = ["fuse2fs", "-o", "ro,norecovery", str(image), folder]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["fusermount3", "-u", folder], check=True)


@contextmanager
def _by_ext4kit(image: Path) -> Iterator[Path]:
    with mounted(image) as mount:
        yield mount.root / "live"


WAYS = {"ext4kit": _by_ext4kit, "kernel": _by_kernel, "fuse2fs": _by_fuse2fs}


def _seconds(root: Path, command: str, limit: float) -> float:
    """Seconds of a command; the limit if it takes longer."""
    start = time.perf_counter()
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(["sh", "-c", command], cwd=root, stdout=subprocess.DEVNULL, check=True,
                       timeout=limit)  # fmt: skip
    return time.perf_counter() - start


def _measured(image: Path, way: str, task: str, runs: int, limit: float) -> float:
    """The median; each run has a fresh mount, so that only the image is in the page cache."""
    found = []
    for _ in range(runs + 1):
        with ExitStack() as stack:
            root = stack.enter_context(WAYS[way](image))
            found.append(_seconds(root, TASKS[task], limit))
    return statistics.median(found[1:])


def main() -> int:
    """Print a row for each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds of one run")
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=list(TASKS))
    chosen = parser.parse_args()
    ways = [way for way in WAYS if way != "fuse2fs" or shutil.which("fuse2fs")]
    print("| task |", " | ".join(f"{way}, s" for way in ways), "|")
    print("|---|" + "---:|" * len(ways))
    for task in chosen.tasks:
        each = [_measured(chosen.image, way, task, chosen.runs, chosen.limit) for way in ways]
        print(f"| {task} |", " | ".join(f"{seconds:.2f}" for seconds in each), "|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
