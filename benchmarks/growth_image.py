"""One recipe in growing sizes: a tree of small files, of which 15 in 100 are deleted.

The kernel writes it through a loop device. Files are created, the file system is mounted anew,
files are deleted, and the journal is then overwritten twice by changes of other inodes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sample_images.recipes.documents import document
from sample_images.recipes.forgotten import goes
from sample_images.recipes.machine import make_file_system, mounted, sync

FORMAT = 1  # part of the file names: counted up when the recipe changes
DIRECTORY_FILES = 500
PARENT_DIRECTORIES = 100
CONTENT_EVERY = 8  # one file in so many has content, of one block at most; the others are empty
LARGEST = 4000  # bytes
JOURNAL_MEBIBYTES = 64
BLOCK = 4096
LAPS = 2  # how often the journal is overwritten at the end
BALLAST = 1600  # files for that, part of the count
INODES_PER_BLOCK = 16
OPTIONS = "noatime,noinit_itable"
_FIXED_BYTES, _FILE_BYTES = 256 << 20, 2048  # of the file system: per image, per file
_HEAD_LENGTH = 16


def build(work: Path, files: int) -> Path:
    """The image of so many files in the directory `work`, made unless it is there already.

    Args:
        work: where images are kept.
        files: regular files that are created, the deleted ones included.

    Raises:
        MachineError: a tool of the recipe failed.
    """
    mark = hashlib.sha256(repr((FORMAT, files)).encode()).hexdigest()[:8]
    image = work / f"growth-{files}-{mark}.img"
    if not image.exists():
        part = image.with_suffix(".part")
        part.unlink(missing_ok=True)
        _make(part, files)
        with mounted(part, OPTIONS) as root:
            create(root, files)
        with mounted(part, OPTIONS) as root:
            _delete(root, files)
            sync(root)
            _wrap_journal(root)
        part.rename(image)
    return image


def directory_of(number: int) -> str:
    """The directory of the file with this number."""
    directory = number // DIRECTORY_FILES
    return f"{directory // PARENT_DIRECTORIES:03}/{directory % PARENT_DIRECTORIES:02}"


def _name(number: int) -> str:
    return f"message-{number:07}.eml"


def _make(image: Path, files: int) -> None:
    inodes = files + files // DIRECTORY_FILES + 1000
    options = ("-t", "ext4", "-N", str(inodes), "-J", f"size={JOURNAL_MEBIBYTES}")
    make_file_system(image, _FIXED_BYTES + files * _FILE_BYTES, options)


def create(root: Path, files: int) -> None:
    """Create the files below `root`, the ballast among them."""
    ballast = root / "ballast"
    ballast.mkdir()
    for number in range(BALLAST):
        os.close(os.open(ballast / f"{number:05}", os.O_CREAT | os.O_WRONLY))
    source = document("many.log", 1 << 20)
    for first in range(0, files - BALLAST, DIRECTORY_FILES):
        directory = root / directory_of(first)
        directory.mkdir(parents=True)
        _fill(directory, range(first, min(first + DIRECTORY_FILES, files - BALLAST)), source)


def _fill(directory: Path, numbers: range, source: bytes) -> None:
    """Create the files of one directory."""
    at = os.open(directory, os.O_RDONLY)
    for number in numbers:
        file = os.open(_name(number), os.O_CREAT | os.O_WRONLY, dir_fd=at)
        if number % CONTENT_EVERY == 0:
            os.write(file, _content(number, source))
        os.close(file)
    os.close(at)


def _content(number: int, source: bytes) -> bytes:
    """The bytes of a file, no two files alike."""
    start = number * 2_654_435_761 % (len(source) - LARGEST)
    size = 1 + start % (LARGEST - _HEAD_LENGTH)
    return b"From %d\n" % number + source[start : start + size]


def _delete(root: Path, files: int) -> None:
    for number in range(files - BALLAST):
        if goes(number):
            Path(root, directory_of(number), _name(number)).unlink()


def _wrap_journal(root: Path) -> None:
    """Overwrite the journal: only the modes of some inodes change, a block of the table each."""
    paths = [root / "ballast" / f"{at:05}" for at in range(0, BALLAST, INODES_PER_BLOCK)]
    for turn in range(LAPS * (JOURNAL_MEBIBYTES << 20) // BLOCK // len(paths)):
        for path in paths:
            path.chmod(0o600 + turn % 8)
        sync(root)
