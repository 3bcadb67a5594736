"""Times of a case of 30 images: one job at once, two, and on a local Dask cluster.

    PYTHONPATH=. .venv/bin/python -m benchmarks.case [--images 30]

The images are the packed samples in several containers, each with a label of its own, so that none
is the same evidence as another; three of them are broken. Needs qemu-img and the extra `cluster`.
The outputs of all runs are compared.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ext4kit.parsers.checksums import crc32c
from sample_images import unpack
from tests.case.making import jobs_of, made_case, outputs

SAMPLES = (
    "ext3", "large_extent_leaves", "orphan_file", "power_cut", "removed_on_5_10", "rm_rf_tree",
)  # fmt: skip
CONTAINERS = ("raw", "qcow2", "vmdk", "gz", "vpc")
BROKEN = 3
_SUPERBLOCK = 1024
_LABEL, _FEATURES, _METADATA_CSUM = 0x78, 0x64, 0x400  # s_volume_name, s_feature_ro_compat


def _images(folder: Path, count: int) -> list[Path]:
    """The images of the case."""
    plain = {name: unpack(name, folder).image for name in SAMPLES}
    found = []
    for number in range(count - BROKEN):
        source = folder / f"host-{number:02}.img"
        shutil.copy(plain[SAMPLES[number % len(SAMPLES)]], source)
        _label(source, f"host-{number:02}")
        found.append(_contained(source, CONTAINERS[number % len(CONTAINERS)]))
    for image in plain.values():
        image.unlink()
    cut, wiped, noise = (folder / f"broken-{number}.img" for number in range(BROKEN))
    cut.write_bytes(found[1].read_bytes()[: 1 << 18])
    wiped.write_bytes(bytes(4 << 20) + found[0].read_bytes()[4 << 20 :])
    noise.write_bytes(bytes(range(256)) * (1 << 12))
    return [*found, cut, wiped, noise]


def _label(image: Path, label: str) -> None:
    """Write a label into the superblock, where tune2fs would ask for a file system check first."""
    with image.open("r+b") as stream:
        stream.seek(_SUPERBLOCK)
        data = bytearray(stream.read(1024))
        data[_LABEL : _LABEL + 16] = label.encode().ljust(16, b"\0")
        if int.from_bytes(data[_FEATURES : _FEATURES + 4], "little") & _METADATA_CSUM:
            data[-4:] = crc32c(0xFFFFFFFF, data[:-4]).to_bytes(4, "little")
        stream.seek(_SUPERBLOCK)
        stream.write(data)


def _contained(source: Path, container: str) -> Path:
    if container == "raw":
        return source
    target = source.with_suffix(f".{container}")
    if container == "gz":
        target.write_bytes(gzip.compress(source.read_bytes(), 1))
    else:
        subprocess.run(["qemu-img", "convert", "-O", container, source, target], check=True)
    source.unlink()
    return target


@contextmanager
def _cluster() -> Iterator[list[str]]:
    """The options for a scheduler with two workers."""
    import distributed

    start: Any = distributed.LocalCluster  # it has no types
    with start(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield ["-j", "2", "--scheduler", found.scheduler_address]


def _run(folder: Path, words: list[str]) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "ext4kit", "case", "run", "--case", str(folder), "-q", *words]
    subprocess.run(command, check=False)
    return time.perf_counter() - start


def main() -> None:
    """Print a row for each way of running, and whether the outputs are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=30)
    count = parser.parse_args().images
    with tempfile.TemporaryDirectory(prefix="case-") as name:
        folder = Path(name)
        (evidence := folder / "evidence").mkdir()
        images, found = _images(evidence, count), dict[str, dict[str, object]]()
        ways: tuple[tuple[str, list[str] | None], ...] = (
            ("-j 1", ["-j", "1"]), ("-j 2", ["-j", "2"]), ("Dask, 2", None),
        )  # fmt: skip
        print("| run | s | jobs | processor s of jobs | most memory of a job, MiB |")
        print("|---|---:|---:|---:|---:|")
        for way, words in ways:
            case = made_case(folder / f"case-{len(found)}", *images)
            if words is not None:
                seconds = _run(case, words)
            else:
                with _cluster() as options:
                    seconds = _run(case, options)
            jobs = [job for job in jobs_of(case) if job["state"] == "done"]
            used = sum(job["processor_seconds"] for job in jobs)
            memory = max(job["memory"] for job in jobs) >> 20
            print(f"| {way} | {seconds:.1f} | {len(jobs)} | {used:.1f} | {memory} |", flush=True)
            found[way] = outputs(case)
        first, *others = found.values()
        print("equal outputs:", all(other == first for other in others))


if __name__ == "__main__":
    main()
