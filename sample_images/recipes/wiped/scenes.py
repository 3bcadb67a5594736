"""Eight disks whose start is gone, and the files that ext4kit and e2fsck get from each."""

from __future__ import annotations

import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sample_images.recipes.contents import noise, text
from sample_images.recipes.machine import check, make_file_system, mounted, run, sync

MIB = 1 << 20
Wipe = Callable[[Path, int], None]  # the image, the size of its blocks


@dataclass(frozen=True, slots=True)
class WipedScene:
    """A file system and what overwrites its start.

    Attributes:
        size: bytes.
        options: of mke2fs.
        wipe: overwrites.
    """

    size: int
    options: tuple[str, ...]
    wipe: Wipe


def _zero_root(image: Path, _block: int) -> None:
    run("debugfs", "-w", "-R", "clri <2>", image)


def _over_share(share: float) -> Wipe:
    """An ISO of an installer: random bytes, text and zeros in turn."""

    def wipe(image: Path, _block: int) -> None:
        left, rng = int(image.stat().st_size * share) // 2048 * 2048, random.Random("iso")
        head = bytearray(bytes(32768) + b"\x01CD001\x01\0" + bytes(2040))
        struct.pack_into("<I", head, 32768 + 80, left // 2048)
        struct.pack_into("<H", head, 32768 + 128, 2048)
        with image.open("r+b") as file:
            file.write(head)
            while file.tell() < left:
                kind, length = rng.choice("nntz"), rng.randrange(1, 64) * 2048
                seed = f"iso {file.tell()}"
                data = bytes(length) if kind == "z" else b""
                data = data or (noise if kind == "n" else text)(seed, length)
                file.write(data[: left - file.tell()])

    return wipe


def _zero_groups(first: int, last: int) -> Wipe:
    """Zeros over whole block groups."""

    def wipe(image: Path, block: int) -> None:
        per_group = 8 * block * block
        with image.open("r+b") as file:
            file.seek(first * per_group)
            file.write(bytes((last - first) * per_group))

    return wipe


def _zero_descriptors(copies: bool) -> Wipe:
    """Zeros over superblock and descriptors, on request also over their copies."""

    def wipe(image: Path, block: int) -> None:
        per_group = 8 * block * block
        groups = [0, *((1, 3, 5, 7, 9) if copies else ())]
        with image.open("r+b") as file:
            for group in groups:
                start = group * per_group + (1024 if block == 1024 or group == 0 else 0)
                if start < image.stat().st_size:
                    file.seek(start)
                    file.write(bytes(8 * block - start % block))

    return wipe


def _second_mke2fs(image: Path, _block: int) -> None:
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-g", "4096", "-E", "nodiscard", image)


SMALL = ("-t", "ext4", "-b", "1024", "-O", "^flex_bg")
SCENES = {
    "root only": WipedScene(64 * MIB, ("-t", "ext4"), _zero_root),
    "first group": WipedScene(64 * MIB, SMALL, _zero_groups(0, 1)),
    "all descriptors": WipedScene(128 * MIB, SMALL, _zero_descriptors(False)),
    "ISO, 5 %": WipedScene(512 * MIB, ("-t", "ext4", "-O", "^flex_bg"), _over_share(0.05)),
    "ISO, 30 %": WipedScene(512 * MIB, ("-t", "ext4", "-O", "^flex_bg"), _over_share(0.3)),
    "copies of descriptors too": WipedScene(128 * MIB, SMALL, _zero_descriptors(True)),
    "meta_bg": WipedScene(
        128 * MIB, ("-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode,^flex_bg"),
        _zero_groups(0, 1),
    ),
    "ext3, 1 KiB": WipedScene(64 * MIB, ("-t", "ext3", "-b", "1024"), _over_share(0.1)),
    "flex_bg, ISO 10 %": WipedScene(512 * MIB, ("-t", "ext4"), _over_share(0.1)),
    "second mke2fs": WipedScene(64 * MIB, SMALL, _second_mke2fs),
}  # fmt: skip


def build(image: Path, scene: WipedScene) -> tuple[dict[str, str], set[str]]:
    """Make the image; (digest -> path of each file that was there, digests of deleted files)."""
    make_file_system(image, scene.size, ("-b", "4096", *scene.options))
    truth: dict[str, str] = {}
    with mounted(image, "defaults") as top:
        for folder in range(12):
            place = top / f"folder-{folder:02d}" / ("deep" if folder % 2 else "")
            place.mkdir(parents=True)
            for at in range(25):
                data = noise(f"{folder} {at}", 300 + 997 * ((folder * 25 + at) % 40))
                (place / f"file-{at:02d}.bin").write_bytes(data)
        sync(top)
        deleted = set[str]()
        for folder in range(2):
            deleted |= set(digests_below(top / f"folder-{folder:02d}"))
            shutil.rmtree(top / f"folder-{folder:02d}")
        for path in top.rglob("*"):
            if path.is_file():
                name = str(path.relative_to(top))
                truth[sha256(path.read_bytes()).hexdigest()] = name
    block = 1024 if "1024" in scene.options else 4096
    scene.wipe(image, block)
    return truth, deleted


def digests_below(top: Path) -> dict[str, list[str]]:
    """Digest -> paths of the regular files below a folder."""
    found: dict[str, list[str]] = {}
    for path in top.rglob("*"):
        if stat.S_ISREG(os.lstat(path).st_mode):
            digest = sha256(path.read_bytes()).hexdigest()
            found.setdefault(digest, []).append(str(path.relative_to(top)))
    return found


def run_program(words: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run ext4kit."""
    program = [sys.executable, "-m", "ext4kit", *map(str, words)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def options_for(image: Path) -> list[str]:
    """The options by which a user is told to open an image; --lost where none is told."""
    done = run_program(["ls", image])
    if (
        done.returncode != 3
        and "unattached" in done.stdout + done.stderr
        or "folder" in done.stdout
    ):
        return []
    found = re.search(r"`ext4kit ls \S+ (--offset [^`]+)`", done.stderr)
    return ["--lost"] if found is None else found[1].split()


def by_e2fsck(image: Path) -> dict[str, list[str]]:
    """What `e2fsck -y` on a copy leaves, by digest."""
    copy = image.with_suffix(".fsck")
    shutil.copyfile(image, copy)
    try:
        check(copy)
        with mounted(copy, "ro,noload") as top:
            return digests_below(top)
    except (OSError, RuntimeError):
        return {}
    finally:
        copy.unlink()


def tail_matches(path: str, truth: str) -> bool:
    """Whether a path ends as the true one does below its first folder."""
    parts = truth.split("/")
    return path.endswith("/".join(parts[1:])) if len(parts) > 1 else True
