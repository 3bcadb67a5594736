"""An image with every structure that has a checksum, and where e2fsprogs says each of them lies."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.filesystem.matrix import run

BLOCK = 1024
MEBIBYTES = 40
SUPERBLOCK_BYTES = 1024
MANY_NAMES = 3000
PIECES = 400
VALUES = 30


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes that one checksum covers, or that hold it.

    Attributes:
        structure: what verify has to call it.
        start, length: bytes in the image.
    """

    structure: str
    start: int
    length: int


def debugfs(image: Path, *requests: str, write: bool = False) -> str:
    """What debugfs says to some requests."""
    command = ["debugfs", *(["-w"] if write else []), "-f", "-", str(image)]
    text = "\n".join(requests) + "\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def make(image: Path, folder: Path) -> None:
    """A file system with extent trees, an index, attributes, an orphan file and a log."""
    _fill(folder)
    with image.open("wb") as file:
        file.truncate(MEBIBYTES << 20)
    options = "-t ext4 -b 1024 -O orphan_file,metadata_csum,64bit -E lazy_itable_init=0"
    run(f"mke2fs -q -F {options} -d {folder}", image)
    subprocess.run(["e2fsck", "-fyD", image], capture_output=True, check=False)
    edits = [f"ea_set /small/{number:02} user.note {'n' * 200}{number}" for number in range(VALUES)]
    debugfs(image, *edits, "journal_open -c -v 3", "journal_close", write=True)
    run("e2fsck -fn", image)


def _fill(folder: Path) -> None:
    chance = random.Random("places")
    (folder / "names").mkdir(parents=True)
    (folder / "small").mkdir()
    for number in range(MANY_NAMES):
        (folder / "names" / f"a name of some length {number:06}").touch()
    for number in range(VALUES):
        (folder / "small" / f"{number:02}").write_bytes(chance.randbytes(100))
    with (folder / "pieces").open("wb") as file:
        for number in range(PIECES):
            file.seek(2 * number * BLOCK)
            file.write(chance.randbytes(BLOCK))


def make_protected(image: Path) -> None:
    """A file system with multiple mount protection."""
    with image.open("wb") as file:
        file.truncate(4 << 20)
    run("mke2fs -q -F -t ext4 -b 1024 -O mmp,metadata_csum", image)


def protected_places(image: Path) -> list[Place]:
    """The block of the protection."""
    block = _number(run("dumpe2fs -h", image), "MMP block number")
    return [Place("mmp block", block * BLOCK, 1024)]


def places(image: Path) -> list[Place]:
    """Every structure of the image that `make` made, from what dumpe2fs and debugfs say."""
    said = run("dumpe2fs", image)
    found = [
        *_groups(said),
        *_inodes(image),
        *_tree_blocks(image),
        *_directories(image),
        *_attributes(image),
    ]
    orphan = _number(said, "Orphan file inode")
    found += [Place("orphan file block", block * BLOCK, BLOCK) for block in _blocks(image, orphan)]
    log = _blocks(image, 8)[0]
    return [*found, Place("journal superblock", log * BLOCK, SUPERBLOCK_BYTES)]


def _number(text: str, label: str) -> int:
    return int(re.search(rf"^{label}:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]


def _groups(said: str) -> Iterator[Place]:
    clusters, inodes = _number(said, "Blocks per group"), _number(said, "Inodes per group")
    table = said[said.index("\nGroup 0:") :]
    descriptors = int(re.search(r"Group descriptors at (\d+)", table)[1])  # type: ignore[index]
    for number, part in enumerate(re.split(r"\nGroup \d+:", table)[1:]):
        yield Place("group descriptor", descriptors * BLOCK + number * 64, 64)
        copy = re.search(r"(Primary|Backup) superblock at (\d+)", part)
        if copy:
            name = "superblock" if copy[1] == "Primary" else "backup superblock"
            yield Place(name, int(copy[2]) * BLOCK, SUPERBLOCK_BYTES)
        for name, flag, bits in (
            ("Block bitmap", "BLOCK_UNINIT", clusters), ("Inode bitmap", "INODE_UNINIT", inodes)
        ):  # fmt: skip
            block = re.search(rf"{name} at (\d+)", part)
            if block and flag not in part.splitlines()[0]:
                yield Place(name.lower(), int(block[1]) * BLOCK, bits // 8)


def _inodes(image: Path) -> Iterator[Place]:
    numbers = [2, 8, *range(11, 11 + MANY_NAMES, 50)]
    said = debugfs(image, *(f"imap <{number}>" for number in numbers))
    for block, offset in re.findall(r"located at block (\d+), offset 0x([0-9a-f]+)", said):
        yield Place("inode", int(block) * BLOCK + int(offset, 16), 256)


def _tree_blocks(image: Path) -> Iterator[Place]:
    said = debugfs(image, "dump_extents -n /pieces")
    line = r"^ *\d+/ *\d+ +\d+/ *\d+ +\d+ - +\d+ +(\d+)"
    for block in re.findall(line, said, re.MULTILINE):
        yield Place("extent block", int(block) * BLOCK, BLOCK)


def _blocks(image: Path, inode: int | str) -> list[int]:
    name = f"<{inode}>" if isinstance(inode, int) else inode
    said = debugfs(image, f"blocks {name}")
    return [int(word) for line in said.splitlines()[1:] for word in line.split() if word.isdigit()]


def _directories(image: Path) -> Iterator[Place]:
    """Leaves whole; of the index what is in use."""
    blocks = _blocks(image, "/names")
    said = debugfs(image, "htree_dump /names")
    yield Place(
        "htree root", blocks[0] * BLOCK, 32 + 8 * _number(said, r"Number of entries \(count\)")
    )
    inner = r"block (\d+)\nNumber of entries \(count\): (\d+)"
    for logical, entries in re.findall(inner, said):
        yield Place("htree node", blocks[int(logical)] * BLOCK, 8 + 8 * int(entries))
    leaves = [int(block) for block in re.findall(r"Reading directory block \d+, phys (\d+)", said)]
    for block in leaves + _blocks(image, "/") + _blocks(image, "/small"):
        yield Place("directory block", block * BLOCK, BLOCK)


def _attributes(image: Path) -> Iterator[Place]:
    said = debugfs(image, *(f"stat /small/{number:02}" for number in range(VALUES)))
    for block in {int(number) for number in re.findall(r"File ACL: (\d+)", said)} - {0}:
        yield Place("xattr block", block * BLOCK, BLOCK)
