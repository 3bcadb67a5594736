"""Small sound images of many formats, made without the kernel, for others to damage.

debugfs fills them, removes files and writes transactions into the log, so that the readers of
deleted files and of the log have something to read. The same bytes come out each time.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sample_images import unpack
from tests import environment
from tests.fuzz.places import COMMIT, Anatomy, anatomy

UUID = "6ef1c1f0-3c5e-4c8a-9a51-0f5a3f0e1d2b"
SEED = "0f1e2d3c-4b5a-4697-8877-665544332211"
NOW = "1700000000"
ENVIRONMENT = {
    **os.environ,
    "E2FSPROGS_FAKE_TIME": NOW,
    "MKE2FS_FIRST_META_BG": "0",
    "DEBUGFS_PAGER": "cat",
}
PROGRAMS = ("mke2fs", "debugfs")


@dataclass(frozen=True, slots=True)
class Base:
    """A small image to make.

    Attributes:
        options: of mke2fs.
        size: as mke2fs takes it.
        log: the options of debugfs' `jo` where transactions are to be in the log, else None.
        unreplayed: the newest transaction is in the log alone.
        crowd: entries of the hashed directory.
    """

    options: str
    size: str = "4M"
    log: str | None = "-c"
    unreplayed: bool = False
    crowd: int = 150


_SMALL_LOG = "-J size=1"
BASES = {
    "ext4": Base(f"-t ext4 -b 1024 {_SMALL_LOG}"),
    "ext4_unreplayed": Base(f"-t ext4 -b 1024 {_SMALL_LOG}", unreplayed=True),
    "ext4_4k": Base("-t ext4 -b 4096 -J size=4", "12M", unreplayed=True),
    "ext3": Base(f"-t ext3 -b 1024 {_SMALL_LOG}", log=""),
    "ext2": Base("-t ext2 -b 1024", "2M", log=None),
    "revision_0": Base("-t ext2 -b 1024 -r 0 -O none", "2M", log=None),
    "bigalloc": Base(f"-t ext4 -b 1024 -O bigalloc -C 4096 {_SMALL_LOG}", "8M"),
    "inline_data": Base(f"-t ext4 -b 1024 -O inline_data -I 512 {_SMALL_LOG}"),
    "no_checksums": Base(f"-t ext4 -b 1024 -O ^metadata_csum,^uninit_bg {_SMALL_LOG}", log=""),
    "crc16": Base(
        f"-t ext4 -b 1024 -O ^metadata_csum,^64bit,uninit_bg {_SMALL_LOG}", log="-c -v 1"
    ),
    "small_groups": Base(
        f"-t ext4 -b 1024 -g 256 -N 512 -O meta_bg,^resize_inode,^flex_bg {_SMALL_LOG}",
        unreplayed=True,
    ),
    "orphan_file": Base(f"-t ext4 -b 1024 -O orphan_file {_SMALL_LOG}"),
    "ea_inode": Base(f"-t ext4 -b 1024 -O ea_inode,large_dir {_SMALL_LOG}"),
    "casefold": Base(f"-t ext4 -b 1024 -O casefold,encrypt,verity {_SMALL_LOG}", unreplayed=True),
    "quota": Base(f"-t ext4 -b 1024 -O quota,project,sparse_super2 {_SMALL_LOG}"),
    "fast_commit": Base("-t ext4 -b 1024 -O fast_commit -J size=1,fast_commit_size=64"),
}


def makeable() -> list[str]:
    """Names of the bases that the mke2fs of this machine makes."""
    has_old = environment.makes_revision_0()
    return [name for name, base in BASES.items() if has_old or "-r 0" not in base.options]


def missing() -> str:
    """Why no images can be made here, or an empty string."""
    return environment.missing(*PROGRAMS)


def run(*words: str | Path, accepted: Sequence[int] = (0,)) -> str:
    """The output of a program.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, errors="replace", env=ENVIRONMENT,
        check=False,
    )  # fmt: skip
    if done.returncode not in accepted:
        raise RuntimeError(f"{words} -> {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def debugfs(image: Path, *requests: str) -> str:
    """Requests to debugfs, which may write."""
    script = image.with_suffix(".requests")
    script.write_text("\n".join([f"set_current_time {NOW}", *requests, ""]))
    try:
        return run("debugfs", "-w", "-f", script, image)
    finally:
        script.unlink()


def empty(image: Path, options: str, size: str) -> None:
    """A file system without a trace of when or where it was made."""
    image.unlink(missing_ok=True)
    words = ["mke2fs", "-q", "-F", "-U", UUID, "-E", f"hash_seed={SEED}", *options.split()]
    run(*words, image, size)


def _filling(tree: Path, base: Base) -> list[str]:
    """Requests that copy the tree in, always in the same order."""
    fill(tree, base)
    requests = []
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if path.is_symlink():
            requests.append(f'symlink "/{name}" "{path.readlink()}"')
        elif path.is_dir():
            requests.append(f'mkdir "/{name}"')
        else:
            requests.append(f'write "{path}" "/{name}"')
    return requests


def fill(folder: Path, base: Base) -> None:
    """Files of many kinds, all small."""
    chance = random.Random("a small tree")
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "gone").mkdir()
    (folder / "crowd").mkdir()
    for number in range(base.crowd):
        (folder / "crowd" / f"an entry with a longer name {number:04}").write_bytes(b"")
    for number, size in enumerate((0, 1, 50, 200, 1024, 5000, 20_000)):
        (folder / "sub" / f"file {number}").write_bytes(chance.randbytes(size))
        (folder / "gone" / f"removed {number}").write_bytes(chance.randbytes(size))
    with (folder / "sub" / "holes").open("wb") as stream:
        for block in range(0, 120, 2):  # more extents than an inode holds
            stream.seek(block * 4096)
            stream.write(bytes([block + 1]) * 1024)
    (folder / "short link").symlink_to("sub/file 1")
    (folder / "long link").symlink_to("sub/" * 40)


def _attributes(base: Base, image: Path) -> list[str]:
    value = image.with_suffix(".value")
    value.write_bytes(b"a value " * (300 if "ea_inode" in base.options else 40))
    return [
        f"ea_set -f {value} /sub user.large",
        "ea_set /sub/deep user.small value",
        'ea_set "/sub/file 5" user.one first',
        f'ea_set -f {value} "/sub/file 5" user.two',
    ]


def _metadata_blocks(image: Path) -> list[int]:
    """Blocks of inodes and directories that the removed files need."""
    said = run("debugfs", "-R", "imap /gone", image)
    first = int(said.split("located at block ")[1].split(",")[0])
    blocks = run("debugfs", "-R", "blocks /gone", image).split()
    return list(range(first, first + 4)) + [int(word) for word in blocks if word != "0"]


def _logged(image: Path, base: Base, blocks: list[int], block_size: int) -> list[str]:
    """Requests that write the blocks, as they are now, as a transaction."""
    data = image.read_bytes()
    requests = [f"jo {base.log}"]
    for block in blocks:
        copy = image.with_suffix(f".{block}")
        copy.write_bytes(data[block * block_size : (block + 1) * block_size])
        requests.append(f"jw -b {block} {copy}")
    return [*requests, "jw -r 700", "jc"] if "-v 1" not in (base.log or "") else [*requests, "jc"]


def make(name: str, folder: Path) -> Path:
    """The image of a base, made in `folder`."""
    environment.skip_if_revision_0(BASES[name].options)
    base, image, tree = BASES[name], folder / f"{name}.img", folder / f"{name}.tree"
    tree.mkdir()
    empty(image, base.options, base.size)
    debugfs(image, *_filling(tree, base))
    if "-r 0" not in base.options:
        debugfs(image, *_attributes(base, image))
    block_size = int(base.options.split("-b ")[1].split()[0])
    if base.log is None:
        debugfs(image, *_removals())
    else:
        blocks = _metadata_blocks(image)
        debugfs(image, *_logged(image, base, blocks, block_size))
        debugfs(image, "jr")
        debugfs(image, *_removals())
        if base.unreplayed:
            debugfs(image, *_logged(image, base, blocks, block_size))
    if base.log is not None:
        _settle_commits(image)
    run("rm", "-rf", tree, *(path for path in folder.glob(f"{name}.*") if path != image))
    return image


def _settle_commits(image: Path) -> None:
    """Give the commit blocks, into which debugfs writes the clock's time, always the same one."""
    body = anatomy(image)
    data = bytearray(body.data)
    for place in body.places["journal"]:
        if int.from_bytes(data[place.offset + 4 : place.offset + 8], "big") == COMMIT:
            struct.pack_into(">QI", data, place.offset + 48, int(NOW), 0)
            body.seal(data, place)
    image.write_bytes(data)


def _removals() -> list[str]:
    return [f'rm "/gone/removed {number}"' for number in range(7)] + ["rmdir /gone"]


@cache
def folder_of_bases() -> Path:
    """Where the images of this process lie; they go when it ends."""
    import atexit
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ext4kit-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def made(name: str) -> Path:
    """A base's image, made once in a process; for reading alone."""
    return make(name, folder_of_bases())


@cache
def body_of(name: str) -> Anatomy:
    """A base's image, taken to pieces."""
    return anatomy(made(name))


@cache
def sound(name: str) -> Path:
    """The image of a base or of a packed sample; for reading alone."""
    return made(name) if name in BASES else unpack(name, folder_of_bases()).image
