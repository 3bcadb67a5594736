"""`python -m benchmarks.scan`: how fast the space that no live file has is read and looked at.

The image has some 4 GiB of freed blocks that are not zero: texts, archives, programs' bytes,
folders, extent leaves. `cat IMAGE > /dev/null` runs in turn with the scans, the image in the page
cache. The scans run in processes of their own; their speed is that of the survey, start-up and the
reading of the log left out.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Job, run_once
from benchmarks.run import ext4kit
from sample_images.recipes.documents import SUFFIXES, document
from sample_images.recipes.machine import (
    loop_device,
    make_file_system,
    missing_for_kernel,
    mount,
    sync,
    unmount,
)

IMAGE_BYTES = 4 << 30
FILLED = 0.93  # of the image
FOLDER = 100  # files in each
LARGEST = 16 << 20
MEGABYTE = 1_000_000
LEAST_SPEED = 500 * MEGABYTE  # bytes a second
MOST_MEMORY = 600 * MEGABYTE  # bytes
ROOT = Path(__file__).resolve().parent.parent
SCANS = {"read": (), "structures": ("structures",), "indirect": ("indirect",),
         "runs": ("runs",), "all": ("structures", "indirect", "runs")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figure:
    """One command's figures: medians of the runs, most memory of any.

    Attributes:
        seconds: wall time of the whole command.
        cpu: its processor time, seconds.
        peak: bytes of memory at most.
        speed: bytes a second: of the image for `cat`, of the space for a scan.
        met: whether the targets are met; None where there are none.
    """

    name: str
    seconds: float
    cpu: float
    peak: int
    speed: float
    met: bool | None


def build(image: Path) -> None:
    """A file system that was full of files, of which the kernel removed nearly all."""
    make_file_system(image, IMAGE_BYTES, ("-t", "ext4", "-J", "size=4"))
    with loop_device(image) as device, tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mount(device, place, "noatime")
        try:
            _fill(place)
            sync(place)
            for doomed in sorted(place.glob("gone-*")):
                shutil.rmtree(doomed)
        finally:
            unmount(place)


def _fill(place: Path) -> None:
    chance = random.Random("scan")
    stocks = [document(f"stock{suffix}", 4 << 20) for suffix in SUFFIXES]
    stocks += [chance.randbytes(LARGEST), Path(sys.executable).resolve().read_bytes() * 3]
    stocks += [stocks[-2]] * 5
    written = number = 0
    while written < FILLED * IMAGE_BYTES:
        name = f"{'kept' if number // FOLDER % 50 == 7 else 'gone'}-{number // FOLDER:04d}"
        if number % FOLDER == 0:
            (place / name).mkdir()
        size = min(int(chance.lognormvariate(10.5, 1.8)) + 1, LARGEST)
        stock = chance.choice(stocks)
        start = chance.randrange(max(len(stock) - size, 1))
        (place / name / f"file-{number:06d}").write_bytes(stock[start : start + size])
        written += -(-size // 4096) * 4096
        number += 1


def survey_once(image: Path, looks: Sequence[str]) -> dict[str, float]:
    """Survey an image in this process; bytes, and seconds of the survey alone."""
    import ext4kit
    from ext4kit.carving import block_features
    from ext4kit.history import read_history
    from ext4kit.scan import Scanner, scan
    from ext4kit.unallocated.indirect import indirect_scanner
    from ext4kit.unallocated.metadata import metadata_scanner
    from ext4kit.unallocated.space import UnallocatedSpace

    with ext4kit.open(image) as evidence:
        fs = evidence.volume().filesystem()
        every: dict[str, Scanner[object]] = {
            "structures": metadata_scanner(fs.superblock),
            "indirect": indirect_scanner(fs.superblock),
            "runs": block_features.feature_scanner,
        }
        space = UnallocatedSpace(read_history(fs))
        start = time.perf_counter()
        reading = Scanner("reading", len)
        found = scan(space, [reading, *(every[look] for look in looks)])
        stretches = len(found.of(reading))
        seconds = time.perf_counter() - start
    return {"bytes": space.bytes, "seconds": seconds, "stretches": stretches}


def measure(image: Path, runs: int, whole: bool) -> list[Figure]:
    """`cat`, the scans and, when wanted, a whole `deleted`, in turn."""
    scans = {name: _scan(image, looks) for name, looks in SCANS.items()}
    commands = {"cat": ["cat", str(image)], **scans}
    if whole:
        commands["deleted"] = ext4kit("deleted", "-q", str(image))
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told")
        rounds = [_round(commands, told, image) for _ in range(runs + 1)][1:]
    return [_figure(name, [one[name] for one in rounds]) for name in commands]


def _scan(image: Path, looks: Sequence[str]) -> list[str]:
    start = [sys.executable, "-m", "benchmarks.scan", "--survey", str(image.resolve())]
    return [*start, *looks]


Sample = tuple[float, float, int, float]  # seconds, CPU, memory, bytes a second


def _round(commands: dict[str, list[str]], told: Path, image: Path) -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for name, command in commands.items():
        output = told if name in SCANS else Path("/dev/null")
        once = run_once(Job(command, output, folder=ROOT))
        if once.code not in (0, 1):
            raise SystemExit(f"{' '.join(command)} ended with {once.code}")
        speed = image.stat().st_size / once.seconds
        if name in SCANS:
            said = json.loads(told.read_text())
            speed = said["bytes"] / said["seconds"]
        found[name] = (once.seconds, once.cpu, once.peak, speed)
    return found


def _figure(name: str, samples: list[Sample]) -> Figure:
    seconds, cpu, peak, speed = zip(*samples, strict=True)
    rate = statistics.median(speed)
    fits = max(peak) < MOST_MEMORY
    met = {"cat": None, "deleted": fits}.get(name, fits and rate >= LEAST_SPEED)
    return Figure(name, statistics.median(seconds), statistics.median(cpu), max(peak), rate, met)


def _line(figure: Figure) -> str:
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    return (
        f"{figure.name:<12}{figure.seconds:>7.2f} s{figure.cpu:>7.2f} s of CPU"
        f"{figure.speed / MEGABYTE:>8.0f} MB/s{figure.peak / MEGABYTE:>7.0f} MB  {verdict}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.scan", description=__doc__)
    parser.add_argument("--image", type=Path, help="made there when missing, and kept")
    parser.add_argument("--runs", type=int, default=3, help="runs after the warm-up (default 3)")
    parser.add_argument("--whole", action="store_true", help="a whole `deleted` as well")
    parser.add_argument("--json", action="store_true", help="JSON lines")
    parser.add_argument("--survey", nargs="+", metavar="IMAGE LOOK", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Build, measure, print; 1 when a target is missed."""
    arguments = _arguments()
    if arguments.survey:
        image, *looks = arguments.survey
        print(json.dumps(survey_once(Path(image), looks)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        image = arguments.image or Path(folder) / "scan.img"
        if not image.exists():
            if reason := missing_for_kernel():
                sys.exit(f"the image cannot be made here: {reason}")
            build(image)
        figures = measure(image, arguments.runs, arguments.whole)
    for figure in figures:
        print(json.dumps(asdict(figure)) if arguments.json else _line(figure))
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
