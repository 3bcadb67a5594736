"""Images whose log the kernel wrote: one churn, ended by a cut and by an unmount."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ext4kit.evidence import open_evidence
from ext4kit.filesystem import FileSystem
from tests.environment import missing
from tests.environment.kernel import missing_for_kernel

ROUNDS = 30
KEPT_ROUNDS = 4  # directories of older rounds are removed
FILES = 25
TIME_BASE = 1_000_000_000  # seconds; round r sets the file's times to this + r
SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
SHUTDOWN_LOGFLUSH = 1
MAGIC_BYTES = bytes.fromhex("c03b3998")


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to make a file system and to mount it."""

    name: str
    mkfs: str
    mount: str = "data=ordered"


KINDS = (
    Kind("v3-64bit", "-t ext4 -b 4096 -J size=4"),
    Kind("v3-32bit-1k-data", "-t ext4 -b 1024 -O ^64bit -J size=1", "data=journal"),
    Kind("no-checksums", "-t ext4 -b 4096 -O ^metadata_csum -J size=4"),
    Kind("v1-1k-data", "-t ext4 -b 1024 -O ^metadata_csum,^64bit -J size=1",
         "data=journal,journal_checksum"),
    Kind("ext3", "-t ext3 -b 1024 -J size=1"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """Two images of the same churn: `dirty` was cut off, `clean` was unmounted.

    Attributes:
        inode: of the file that every round rewrites in place and dates; the same in both.
        block: where its content lies in `clean`.
    """

    kind: Kind
    dirty: Path
    clean: Path
    inode: int
    block: int


def kernel_missing() -> str:
    """Why no image can be mounted and judged here; empty when it can."""
    return missing_for_kernel() or missing("mke2fs", "debugfs")


def run(*command: str | Path) -> str:
    """A command's output; what it says on failure is in the error."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@contextmanager
def mounted(image: Path, options: str) -> Iterator[Path]:
    """The image mounted on a loop device that the kernel may write to."""
    device = run("losetup", "-f", "--show", image).strip()
    place = Path(tempfile.mkdtemp(prefix="journal-mount-"))
    try:
        run("mount", "-o", options, device, place)
        try:
            yield place
        finally:
            run("umount", place)
    finally:
        run("losetup", "-d", device)
        place.rmdir()


def _flush(path: Path) -> None:
    """Commit the running transaction; metadata is not written in place by this."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def round_content(number: int) -> bytes:
    """What round `number` writes into the file."""
    head = MAGIC_BYTES if number % 2 else b"even"  # every other round is escaped in the log
    return (head + b" round %04d " % number).ljust(1024, b".")


def _churn(place: Path) -> None:
    known = place / "known"
    for number in range(ROUNDS):
        with known.open("r+b" if known.exists() else "wb") as file:
            file.write(round_content(number))
        folder = place / f"folder-{number:03}"
        folder.mkdir()
        for file_number in range(FILES):
            (folder / f"file-{file_number:03}").write_bytes(b"x" * (file_number * 100))
        _flush(known)
        os.utime(known, (TIME_BASE + number, TIME_BASE + number))
        if number >= KEPT_ROUNDS:
            shutil.rmtree(place / f"folder-{number - KEPT_ROUNDS:03}")
        _flush(known)


def _cut(place: Path) -> None:
    """Flush the log and let the file system change nothing from now on.

    Unmounting would still write the metadata in place: copy the image before that.
    """
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", SHUTDOWN_LOGFLUSH))
    finally:
        os.close(handle)


def _made(kind: Kind, image: Path, cut_to: Path | None = None) -> int:
    """Make one image, or a copy of it as a cut leaves it; the known file's inode number."""
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mke2fs", "-q", "-F", *kind.mkfs.split(), image)
    with mounted(image, kind.mount) as place:
        _churn(place)
        inode = (place / "known").stat().st_ino
        if cut_to:
            _cut(place)
            shutil.copyfile(image, cut_to)
    return inode


def build(kind: Kind, folder: Path) -> Built:
    """Make the images of one kind below `folder`."""
    clean, dirty = folder / "clean.img", folder / "dirty.img"
    inodes = {_made(kind, clean), _made(kind, folder / "cut.img", cut_to=dirty)}
    block = re.findall(r"\d+", run("debugfs", "-R", "blocks /known", clean))[0]
    return Built(kind, dirty, clean, inodes.pop(), int(block))


def opened(image: Path) -> FileSystem:
    """The file system as it is on disk."""
    return FileSystem.from_source(open_evidence(image).source)


@dataclass(frozen=True, slots=True)
class Dump:
    """debugfs' view of a log: (block, sequence, log block) and (block, sequence)."""

    copies: set[tuple[int, int, int]]
    revokes: set[tuple[int, int]]


def logdump(image: Path, options: str) -> Dump:
    """What `debugfs logdump` prints, with the sequence numbers that the blocks carry."""
    done = subprocess.run(
        ["debugfs", "-R", f"logdump {options}", str(image)], capture_output=True, check=False
    )
    dump, sequence = Dump(set(), set()), -1
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if found := re.match(r"Found expected sequence (\d+)", line):
            sequence = int(found[1])
        elif found := re.match(r"  FS block (\d+) logged at journal block (\d+)", line):
            dump.copies.add((int(found[1]), sequence, int(found[2])))
        elif found := re.match(r"  Revoke FS block (\d+)", line):
            dump.revokes.add((int(found[1]), sequence))
    return dump
