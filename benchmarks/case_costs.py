"""What the jobs of a case cost: processor time and bytes read, and what follows for many images.

    PYTHONPATH=. .venv/bin/python -m benchmarks.case_costs [--work DIR]

Three images, one for each thing that costs: many small files, one large file, and free space full
of what was deleted. Each task of `case run` is run on each of them. What a task costs on a larger
image is the sum: so much for each million files, each GiB of content, each GiB of free space that
is not zero. A GiB of the last kind holds several thousand deleted files, so their cost is in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import image, scan
from ext4kit.cases.tasks import TASKS, CaseTask

GIB = 1 << 30
FEW = {"trees": 1, "folders": 1, "files": 10, "wide": 0, "wide_files": 0, "deleted": 0}
CONTENT = 4 << 30
FILES = image.Shape(big_bytes=1 << 20)


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        seconds: of a processor.
        read: bytes that it asked the system for, from anywhere.
        memory: bytes, the most at one time.
    """

    seconds: float
    read: int
    memory: int


def _cost(words: Sequence[str | Path], folder: Path) -> Cost:
    """Run a command to its end; the kernel counts until its parent has asked how it ended."""
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    lines = Path(f"/proc/{process.pid}/io").read_text("ascii").splitlines()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, words))}: ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, int(lines[0].split()[1]), used.ru_maxrss << 10)


def _costs(task: CaseTask, made: Path, quick: bool) -> Cost:
    name, *rest = task.words
    extra = task.quick or () if quick else ()
    program = [sys.executable, "-m", "ext4kit", name, str(made), *rest, *extra, "--quiet"]
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        return _cost(program, Path(folder))


def main() -> None:
    """Print a table: for each task, what a unit of each kind costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="Folder of the images, which stay.")
    work = parser.parse_args().work or Path(tempfile.mkdtemp(prefix="costs-"))
    freed = work / "freed.img"
    if not freed.exists():
        scan.build(freed)
    content = image.Shape(**FEW, big_bytes=CONTENT, image_bytes=CONTENT + GIB)
    kinds = (
        ("million files", image.build(work, FILES).image, FILES.live / 1e6),
        ("GiB of content", image.build(work, content).image, CONTENT / GIB),
        ("GiB of free space", freed, scan.FILLED * scan.IMAGE_BYTES / GIB),
    )
    print("| task | processor s, GiB read for each "
          + " | processor s, GiB read for each ".join(kind for kind, _, _ in kinds)
          + " | most MiB |")  # fmt: skip
    print("|---|" + "---:|" * (len(kinds) + 1))
    runs = [(task, False) for task in TASKS.values() if task.name != "recover"]
    runs += [(task, True) for task in TASKS.values() if task.quick]
    for task, quick in runs:
        cells, most = [task.name + " (quick)" * quick], 0
        for _, made, units in kinds:
            cost = _costs(task, made, quick)
            cells.append(f"{cost.seconds / units:.1f} s, {cost.read / GIB / units:.2f}")
            most = max(most, cost.memory)
        print(f"| {' | '.join(cells)} | {most >> 20} |", flush=True)


if __name__ == "__main__":
    main()
