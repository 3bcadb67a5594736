"""The image that everything is measured on: 400,000 files, one of 2 GiB, 20,000 deleted.

The kernel writes it through a loop device. The deleted files are removed after a remount, so
the log has their inodes from before and after.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes.machine import loop_device, mount, run, unmount

IMAGE_BYTES = 6 << 30
BIG_FILE = "/big.bin"
BIG_BYTES = 2 << 30
JOURNAL_MEBIBYTES = 256
TOGETHER = 20  # files written one after the other that are deleted
FORMAT = 2  # part of the file names: counted up when the recipe changes
_CHUNK = 1 << 20
_LARGEST = 8192


@dataclass(frozen=True, slots=True)
class Shape:
    """How many of everything.

    Attributes:
        trees, folders: `trees` folders in the root with `folders` folders each.
        files: files in each of those.
        wide, wide_files: folders with very many files.
        deleted: files deleted at the end, out of all folders, beside the others.
        big_bytes, image_bytes: of the one large file, of the file system.
        journal_mebibytes: size of the log.
    """

    trees: int = 20
    folders: int = 200
    files: int = 90
    wide: int = 4
    wide_files: int = 10_000
    deleted: int = 20_000
    big_bytes: int = BIG_BYTES
    image_bytes: int = IMAGE_BYTES
    journal_mebibytes: int = JOURNAL_MEBIBYTES

    @property
    def live(self) -> int:
        """Small files that stay."""
        return self.trees * self.folders * self.files + self.wide * self.wide_files


@dataclass(frozen=True, slots=True)
class Bench:
    """A built image and what is true of it.

    Attributes:
        live: files on it, the large one included.
        big_bytes: size of the large one.
        deleted: SHA-256 of each deleted file by path.
    """

    image: Path
    live: int
    big_bytes: int
    deleted: dict[str, str]


def build(work: Path, shape: Shape) -> Bench:
    """The image in the folder `work`, made unless it is there already.

    Raises:
        MachineError: a tool of the recipe failed.
    """
    mark = hashlib.sha256(repr((FORMAT, shape)).encode()).hexdigest()[:8]
    image, truth = work / f"bench-{mark}.img", work / f"bench-{mark}.json"
    if not truth.exists():
        image.unlink(missing_ok=True)
        _make(image, shape)
        deleted = _fill(image, shape)
        truth.write_text(json.dumps(deleted), encoding="utf-8")
    deleted = json.loads(truth.read_text(encoding="utf-8"))
    return Bench(image, shape.live + 1, shape.big_bytes, deleted)


def _make(image: Path, shape: Shape) -> None:
    with image.open("xb") as made:
        made.truncate(shape.image_bytes)
    inodes = shape.live + shape.deleted + shape.trees * (shape.folders + 1) + 1000
    journal = f"size={shape.journal_mebibytes}"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-N", str(inodes), "-J", journal, image)


def _fill(image: Path, shape: Shape) -> dict[str, str]:
    """Write everything, then delete; SHA-256 of the deleted files by path."""
    where = Path(tempfile.mkdtemp(prefix="bench-"))
    source = random.Random(1).randbytes(4 << 20)
    try:
        with loop_device(image) as device:
            with _mounted(device, where):
                _write_big(where / BIG_FILE.strip("/"), shape.big_bytes, source)
                deleted = dict(_write_small(where, shape, source))
            with _mounted(device, where):
                for path in deleted:
                    (where / path.strip("/")).unlink()
    finally:
        where.rmdir()
    return deleted


@contextmanager
def _mounted(device: Path, where: Path) -> Iterator[None]:
    mount(device, where, "noatime")
    try:
        yield
    finally:
        unmount(where)


def _write_big(path: Path, size: int, source: bytes) -> None:
    with path.open("xb") as target:
        for number in range(size // _CHUNK):
            target.write(number.to_bytes(8, "little") + source[: _CHUNK - 8])


def _folders(shape: Shape) -> Iterator[tuple[str, int]]:
    """(folder, files in it)."""
    for tree in range(shape.trees):
        for number in range(shape.folders):
            yield f"tree-{tree:02}/folder-{number:03}", shape.files
    for number in range(shape.wide):
        yield f"wide-{number}", shape.wide_files


def _write_small(where: Path, shape: Shape, source: bytes) -> Iterator[tuple[str, str]]:
    """Write the small files; (path, SHA-256) of those that are to be deleted."""
    every = (shape.live + shape.deleted) // max(shape.deleted // TOGETHER, 1)
    written = doomed = 0
    for folder, count in _folders(shape):
        (where / folder).mkdir(parents=True)
        kept = 0
        while kept < count:
            data = _content(written, source)
            dies = doomed < shape.deleted and written % every < TOGETHER
            path = f"{folder}/{'deleted' if dies else 'file'}-{written:06}.dat"
            (where / path).write_bytes(data)
            written += 1
            kept += not dies
            if dies:
                doomed += 1
                yield "/" + path, hashlib.sha256(data).hexdigest()


def _content(number: int, source: bytes) -> bytes:
    """The bytes of a small file, 8 to 8,192 of them, no two files alike."""
    start = number * 2_654_435_761 % (len(source) - _LARGEST)
    size = start % (_LARGEST - 8)
    return number.to_bytes(8, "little") + source[start : start + size]
