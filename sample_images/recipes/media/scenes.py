"""Disks from which media were deleted, and whose journal has forgotten them."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ext4kit
from ext4kit.recovery import DeletedFile, find_deleted
from sample_images.recipes.contents import text
from sample_images.recipes.machine import make_file_system, mounted, run, sync
from sample_images.recipes.media.encoders import MIB, Encoded

LAYOUTS: dict[str, tuple[str, ...]] = {
    "ext4, 4 KiB": ("-t", "ext4", "-b", "4096"),
    "ext4, 2 KiB": ("-t", "ext4", "-b", "2048"),
    "ext4, 1 KiB": ("-t", "ext4", "-b", "1024"),
    "ext3, 4 KiB": ("-t", "ext3", "-b", "4096"),
    "ext3, 1 KiB": ("-t", "ext3", "-b", "1024"),
    "bigalloc, 64 KiB": ("-t", "ext4", "-O", "bigalloc", "-C", "65536"),
}
_SMALL_LOG = ("-J", "size=4", "-N", "65536")
_BALLAST = 600  # small files whose modes change until the log has wrapped
_ROUNDS = 60
_EXTENT = re.compile(r" +\d+: +\d+\.\. +\d+: +(\d+)\.\. +\d+: +(\d+):")


@dataclass(frozen=True, slots=True)
class Lost:
    """A deleted file.

    Attributes:
        encoded: how it was made.
        size, sha256: of its content.
        runs: (first block, number of blocks) in the order of the content, as the kernel mapped it.
    """

    encoded: Encoded
    size: int
    sha256: str
    runs: tuple[tuple[int, int], ...]


WAYS = ("reserved", "at once", "in turn")


def build(image: Path, layout: str, source: Path, files: Sequence[Encoded], way: str) -> list[Lost]:
    """Make a disk from which the files were deleted.

    Args:
        image: to make.
        layout: of `LAYOUTS`.
        source: folder of the files.
        files: those to copy there.
        way: of `WAYS`: into reserved space, at once, or in two to four parts in turn with others.
    """
    size = sum((source / one.name).stat().st_size for one in files)
    make_file_system(image, size * 5 // 4 + 256 * MIB, (*LAYOUTS[layout], *_SMALL_LOG))
    with mounted(image, "rw,noatime") as top:
        ballast = [top / f"small/{number:04d}" for number in range(_BALLAST)]
        ballast[0].parent.mkdir()
        for path in ballast:
            path.write_bytes(text(path.name, 700))
        folder = top / "lost"
        folder.mkdir()
        sync(top)
        if way == "in turn":
            _write_in_turn(source, folder, files)
        for one in files if way != "in turn" else ():
            if way == "reserved":
                with (folder / one.name).open("xb") as file:
                    os.posix_fallocate(file.fileno(), 0, (source / one.name).stat().st_size)
            _copy(source / one.name, folder / one.name)
            sync(top)
        runs = {one.name: _runs(folder / one.name) for one in files}
        for one in files:
            (folder / one.name).unlink()
        sync(top)
        for number in range(_ROUNDS):
            for path in ballast:
                path.chmod(0o600 + number % 8)
            sync(top)
    return [
        Lost(one, (source / one.name).stat().st_size, digest(source / one.name), runs[one.name])
        for one in files
    ]


def _copy(source: Path, target: Path) -> None:
    """Copy a file, by writing, into one that may be there."""
    target.touch()
    with source.open("rb") as old, target.open("r+b") as new:
        shutil.copyfileobj(old, new, 1 << 20)


def _write_in_turn(source: Path, folder: Path, files: Sequence[Encoded]) -> None:
    """Each file in two to four parts, with parts of another one and of a live file between."""
    dice = random.Random(11)
    for at in range(0, len(files), 2):
        group = files[at : at + 2]
        parts = [_parts(source / one.name, dice.randint(2, 4)) for one in group]
        for turn in range(4):
            for one, each in zip(group, parts, strict=True):
                if turn < len(each):
                    _append(folder / one.name, each[turn])
            _append(folder.parent / f"live-{at}", text(f"live {at} {turn}", 150_000))


def _parts(path: Path, count: int) -> list[bytes]:
    data = path.read_bytes()
    step = -(-len(data) // count)
    return [data[at : at + step] for at in range(0, len(data), step)]


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
    sync(path)


def _runs(path: Path) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for line in run("filefrag", "-v", path).decode().splitlines():
        if told := _EXTENT.match(line):
            first, count = int(told[1]), int(told[2])
            if runs and sum(runs[-1]) == first:
                first, count = runs[-1][0], runs.pop()[1] + count
            runs.append((first, count))
    return tuple(runs)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recovered(image: Path) -> Iterator[tuple[DeletedFile, str]]:
    """Each record with content, and its SHA-256."""
    with ext4kit.open(image) as evidence:
        for file in find_deleted(evidence.volumes[0].filesystem()):
            content = file.content() if file.kind == "file" else None
            if content is not None:
                found = hashlib.sha256()
                for chunk in content.chunks():
                    found.update(bytes(chunk.length) if chunk.data is None else chunk.data)
                yield file, found.hexdigest()
