"""Containers and volume managers with changed values, their checksums mended, through the commands.

A sample of each kind is made once by the kind's own tools. Names in it are made to lead outside
the folder of the image, to files and pipes that are watched.
"""

from __future__ import annotations

import bz2
import ctypes
import gzip
import hashlib
import lzma
import os
import random
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ext4kit.errors import AccessError, Ext4kitError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.limits import OpenLimits
from ext4kit.parsers.checksums import crc32c
from sample_images.recipes import machine
from tests.evidence.containers.conftest import PHRASE
from tests.evidence.containers.test_volumes_in_volumes import Group
from tests.fuzz import images
from tests.fuzz.inputs import Input
from tests.partition_tables import write_table

MIB = 1 << 20
EX01 = Path(__file__).parents[1] / "evidence" / "containers" / "numbered.Ex01"
NEAR = 4096  # bytes at the start in which most of what matters lies
END = 1024
READS = 30
KEY = "passphrase"
_TOKEN = re.compile(rb'\d+|"[^"\n]{1,60}"')
_OPENED = 0x20 | 0x01  # IN_OPEN, IN_ACCESS of inotify.h
_NUMBERS = (0, 1, 2, 3, 511, 512, 4096, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40,
            (1 << 62) + 512, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
Mend = Callable[[bytearray], None]
Make = Callable[[Path, Path], Path]  # (raw disk, folder) -> the file to open


def _nothing(_data: bytearray) -> None:
    """A kind without checksums that would stop a reader."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How samples of a kind are made and mended."""

    make: Make
    mend: Mend = _nothing
    order: str = "little"


# -------------------------------------------------------------------------------- checksums


def _mend_ewf(data: bytearray) -> None:
    at = 13
    for _ in range(1000):
        if at + 76 > len(data):
            return
        kind = bytes(data[at : at + 16]).rstrip(b"\0")
        body, size = at + 76, int.from_bytes(data[at + 24 : at + 32], "little")
        if kind in (b"volume", b"disk", b"data"):
            _adler(data, body, 1048, body + 1048)
        if kind in (b"table", b"table2"):
            count = int.from_bytes(data[body : body + 4], "little")
            _adler(data, body, 20, body + 20)
            _adler(data, body + 24, 4 * min(count, size // 4), body + 24 + 4 * count)
        _adler(data, at, 72, at + 72)
        following = int.from_bytes(data[at + 16 : at + 24], "little")
        if following <= at:
            return
        at = following


def _adler(data: bytearray, start: int, length: int, place: int) -> None:
    if place + 4 <= len(data):
        data[place : place + 4] = struct.pack("<I", zlib.adler32(data[start : start + length]))


def _mend_ewf2(data: bytearray) -> None:
    at = len(data) - 64
    for _ in range(1000):
        if at < 32:
            return
        _adler(data, at, 60, at + 60)
        before = int.from_bytes(data[at + 8 : at + 16], "little")
        if not before < at:
            return
        at = before


def _mend_vhd(data: bytearray) -> None:
    for at, length, field in ((0, 512, 64), (512, 1024, 36), (len(data) - 512, 512, 64)):
        data[at + field : at + field + 4] = bytes(4)
        total = ~sum(data[at : at + length]) & 0xFFFFFFFF
        data[at + field : at + field + 4] = struct.pack(">I", total)


def _mend_vhdx(data: bytearray) -> None:
    for at, length in ((64, 4), (128, 4), (192, 64), (256, 64)):  # KiB
        start, size = at << 10, length << 10
        data[start + 4 : start + 8] = bytes(4)
        data[start + 4 : start + 8] = struct.pack("<I", _crc32c(bytes(data[start : start + size])))


def _crc32c(data: bytes) -> int:
    return int(crc32c(0xFFFFFFFF, data)) ^ 0xFFFFFFFF


def _mend_xz(data: bytearray) -> None:
    block = 4 * (data[12] + 1)
    for start, end, place in ((6, 8, 8), (12, 8 + block, 8 + block),
                              (len(data) - 8, len(data) - 2, len(data) - 12)):  # fmt: skip
        if place + 4 <= len(data):
            data[place : place + 4] = struct.pack("<I", zlib.crc32(data[start:end]))


def _mend_gpt(data: bytearray) -> None:
    for at in (512, len(data) - 512):
        size, first = struct.unpack_from("<I", data, at + 12)[0], data[at + 72 : at + 80]
        count, each = struct.unpack_from("<II", data, at + 80)
        start = int.from_bytes(first, "little") * 512
        if start < len(data):
            entries = zlib.crc32(data[start : start + min(count * each, MIB)])
            struct.pack_into("<I", data, at + 88, entries)
        data[at + 16 : at + 20] = bytes(4)
        struct.pack_into("<I", data, at + 16, zlib.crc32(data[at : at + min(size, 512)]))


def _mend_lvm(data: bytearray) -> None:
    area = 4096
    start, size = struct.unpack_from("<QQ", data, area + 40)
    text = data[area + start : area + start + min(size, MIB)]
    struct.pack_into("<I", data, area + 56, _lvm_crc(text))
    struct.pack_into("<I", data, area, _lvm_crc(data[area + 4 : area + 512]))
    struct.pack_into("<I", data, 512 + 16, _lvm_crc(data[512 + 20 : 1024]))


def _lvm_crc(data: bytearray) -> int:
    return zlib.crc32(data, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def _mend_luks2(data: bytearray) -> None:
    size = int.from_bytes(data[8:16], "big")
    if 4096 < size <= 4 * MIB:
        data[448:512] = bytes(64)
        data[448:480] = hashlib.sha256(data[:size]).digest()


# ---------------------------------------------------------------------------------- samples


def _run(*words: str | Path) -> None:
    subprocess.run([*map(str, words)], check=True, capture_output=True)


def _qemu(name: str, *options: str) -> Make:
    def make(disk: Path, folder: Path) -> Path:
        _run("qemu-img", "convert", "-f", "raw", *options, disk, folder / name)
        return folder / name

    return make


def _overlay(disk: Path, folder: Path) -> Path:
    shutil.copy(disk, folder / "base.img")
    top = folder / "top.qcow2"
    _run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.img", top)
    return top


def _ewf(disk: Path, folder: Path) -> Path:
    _run("ewfacquire", "-u", "-q", "-S", "1474560", "-c", "fast", "-t", folder / "disk", disk)
    return folder / "disk.E01"


def _packed(pack: Callable[[bytes], bytes]) -> Make:
    def make(disk: Path, folder: Path) -> Path:
        (folder / "disk.packed").write_bytes(pack(disk.read_bytes()))
        return folder / "disk.packed"

    return make


def _split(disk: Path, folder: Path) -> Path:
    data = disk.read_bytes()
    for number in range(4):
        (folder / f"disk.{number + 1:03}").write_bytes(data[number * MIB : (number + 1) * MIB])
    return folder / "disk.001"


def _table(label: str) -> Make:
    def make(disk: Path, folder: Path) -> Path:
        path, data = folder / "disk.img", disk.read_bytes()
        with path.open("xb") as file:
            file.seek(MIB)
            file.write(data)
            file.truncate(len(data) + 3 * MIB)
        size = len(data) // 512
        more = "" if label == "gpt" else "start=11000, size=2000, type=5\nstart=11100, size=900\n"
        write_table(path, f"label: {label}\nstart=2048, size={size}\n{more}")
        return path

    return make


def _lvm(disk: Path, folder: Path) -> Path:
    path, size = folder / "pv", disk.stat().st_size
    with path.open("xb") as file:
        file.truncate(size + 4 * MIB)
    device = Path(machine.run("losetup", "-f", "--show", path).decode().strip())
    try:
        group = Group(lambda *words: machine.run(*words).decode(), [device])
        group.create("root", "-L", f"{size // MIB}m")
    finally:
        machine.run("losetup", "-d", device)
    with path.open("r+b") as file:
        file.seek(MIB)
        file.write(disk.read_bytes())
    return path


def _luks(*options: str) -> Make:
    def make(disk: Path, folder: Path) -> Path:
        path = folder / "disk"
        with path.open("xb") as file:
            file.truncate(disk.stat().st_size + (17 * MIB if "luks2" in options else 2 * MIB))
        (folder / KEY).write_text(PHRASE)
        form = ("cryptsetup", "luksFormat", "-q", "--key-file", str(folder / KEY))
        _run(*form, "--pbkdf-force-iterations", *options, path)
        return path

    return make


_VMDK = ("-O", "vmdk", "-o")
KINDS = {
    "split": Kind(_split),
    "ewf": Kind(_ewf, _mend_ewf),
    "ewf2": Kind(lambda _disk, folder: Path(shutil.copy(EX01, folder)), _mend_ewf2),
    "qcow2": Kind(_qemu("disk", "-c", "-O", "qcow2"), order="big"),
    "qcow2-overlay": Kind(_overlay, order="big"),
    "vmdk": Kind(_qemu("disk", *_VMDK, "subformat=monolithicSparse")),
    "vmdk-stream": Kind(_qemu("disk", *_VMDK, "subformat=streamOptimized")),
    "vmdk-flat": Kind(_qemu("disk.vmdk", *_VMDK, "subformat=monolithicFlat")),
    "vhd": Kind(_qemu("disk", "-O", "vpc", "-o", "force_size=on"), _mend_vhd, "big"),
    "vhdx": Kind(_qemu("disk", "-O", "vhdx"), _mend_vhdx),
    "gzip": Kind(_packed(gzip.compress)),
    "xz": Kind(_packed(lzma.compress), _mend_xz),
    "bzip2": Kind(_packed(bz2.compress)),
    "gpt": Kind(_table("gpt"), _mend_gpt),
    "mbr": Kind(_table("dos")),
    "lvm2": Kind(_lvm, _mend_lvm),
    "luks1": Kind(_luks("1000", "--type", "luks1"), order="big"),
    "luks2": Kind(_luks("1000", "--type", "luks2", "--pbkdf", "pbkdf2"), _mend_luks2),
    "luks2-argon2": Kind(_luks("4", "--pbkdf-memory", "64", "--type", "luks2"), _mend_luks2),
}


# -------------------------------------------------------------------------------- mutations


def _changed(data: bytearray, kind: Kind, bait: Path, chance: random.Random) -> None:
    """One value changed: a number, a word of a text, a piece moved, or the end cut off."""
    choice = chance.random()
    if choice < 0.03:
        del data[chance.randrange(len(data)) :]
    elif choice < 0.3 and (tokens := list(_TOKEN.finditer(bytes(data[: 64 << 10])))):
        token = chance.choice(tokens)
        word = token[0]
        new = _name(bait, chance) if word.startswith(b'"') else str(_number(data, chance)).encode()
        if word.startswith(b'"'):
            new = b'"' + new + b'"'
        width = len(word) if chance.random() < 0.5 else len(new)
        data[token.start() : token.start() + width] = new[:width].ljust(width)
    elif choice < 0.36:
        length = chance.choice((16, 64, 512))
        source, target = _place(data, chance), _place(data, chance)
        data[target : target + length] = data[source : source + length]
    elif choice < 0.4:
        name, at = _name(bait, chance), _place(data, chance)
        data[at : at + len(name)] = name
    else:
        width = chance.choice((1, 2, 4, 4, 8, 8))
        at = _place(data, chance) // width * width
        old = int.from_bytes(data[at : at + width], kind.order)  # type: ignore[arg-type]
        value = _number(data, chance) if chance.random() < 0.6 else old + chance.choice((-1, 1, 64))
        value = old ^ 1 << chance.randrange(8 * width) if chance.random() < 0.2 else value
        raw = (value & ((1 << 8 * width) - 1)).to_bytes(width, kind.order)  # type: ignore[arg-type]
        data[at : at + width] = raw


def _place(data: bytearray, chance: random.Random) -> int:
    """An offset, most often of bytes that are not zero, near an end of the file."""
    size = max(len(data), 1)
    for _ in range(50):
        part = chance.random()
        at = chance.randrange(min(NEAR, size)) if part < 0.6 else chance.randrange(size)
        at = size - 1 - chance.randrange(min(END, size)) if part > 0.85 else at
        if any(data[at : at + 8]):
            return at
    return chance.randrange(size)


def _number(data: bytearray, chance: random.Random) -> int:
    return chance.choice((*_NUMBERS, len(data), len(data) // 512, chance.randrange(len(data) + 1)))


def _name(bait: Path, chance: random.Random) -> bytes:
    name = chance.choice(("secret", "pipe"))
    form = chance.choice((f"{bait}/{name}", f"../bait/{name}", name, "/dev/zero", f"{name}.link"))
    return form.encode("utf-16-le") if chance.random() < 0.2 else form.encode()


def _replaced(part: Path, bait: Path, chance: random.Random) -> None:
    """Another file of the image becomes something that is none of its parts."""
    part.unlink()
    choice = chance.randrange(6)
    if choice == 0:
        part.symlink_to(bait / "secret")
    elif choice == 1:
        part.symlink_to(bait / "pipe")
    elif choice == 2:
        os.mkfifo(part)
    elif choice == 3:
        part.mkdir()
    elif choice == 4:
        part.touch()


# ----------------------------------------------------------------------------------- inputs


_NO_TOOL = (
    OSError, RuntimeError, subprocess.CalledProcessError, pytest.skip.Exception,
)  # fmt: skip


class Watch:
    """Whether a file of a folder was opened, by whatever library."""

    def __init__(self, folder: Path) -> None:
        system = ctypes.CDLL(None)
        self._fd = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        system.inotify_add_watch(self._fd, os.fsencode(folder), _OPENED)

    def complaint(self) -> str:
        """A text if one was opened."""
        with suppress(BlockingIOError):
            if os.read(self._fd, 4096):
                return "a file outside the folder of the image was opened"
        return ""

    def close(self) -> None:
        """Stop."""
        os.close(self._fd)


def _read_failure(main: Path, chance: random.Random) -> str:
    """What reads in any order raise that they may not; a whole disk may have any size."""
    try:
        with open_evidence(main, [PHRASE.encode()], OpenLimits(5, 64 * MIB, 64 * MIB)) as evidence:
            source = evidence.source
            for _ in range(READS):
                start = chance.randrange(max(source.size, 1))
                length = min(chance.choice((1, 512, 1 << 16, MIB, 20 * MIB)), source.size - start)
                with suppress(AccessError):
                    source.read(start, length)
    except Ext4kitError:
        pass
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the finding
        return f"a read: {type(error).__name__}: {error}"
    return ""


class Containers:
    """A sample of each kind with one to four changed values."""

    def __init__(self, folder: Path, wanted: list[str]) -> None:
        disk = images.make("ext4", folder)
        self._folder = folder / "samples"
        self._main: dict[str, Path] = {}
        self.key = folder / KEY
        self.key.write_text(PHRASE)
        for name, kind in KINDS.items():
            if wanted and name not in wanted:
                continue
            (own := self._folder / name).mkdir(parents=True)
            try:
                self._main[name] = kind.make(disk, own)
            except _NO_TOOL as error:
                print(f"{name} is left out: {error}", flush=True)

    @property
    def kinds(self) -> int:
        """Number of kinds of which there is a sample."""
        return len(self._main)

    def base(self, seed: int) -> str:
        """The kind of a seed."""
        return list(self._main)[seed % len(self._main)]

    @contextmanager
    def image(self, seed: int, chance: random.Random, folder: Path) -> Iterator[Input]:
        """The changed sample in a folder of its own, beside what must not be opened."""
        name = self.base(seed)
        kind, place, bait = KINDS[name], folder / "image", folder / "bait"
        bait.mkdir()
        (bait / "secret").write_bytes(bytes(range(256)) * 4096)
        os.mkfifo(bait / "pipe")
        shutil.copytree(self._folder / name, place)
        for target in ("secret", "pipe"):
            (place / f"{target}.link").symlink_to(bait / target)
        main = place / self._main[name].name
        others = [path for path in place.iterdir() if path != main and path.suffix != ".link"]
        data = bytearray(main.read_bytes())
        for _ in range(chance.choice((1, 1, 2, 3, 4))):
            _changed(data, kind, bait, chance)
        if chance.random() < 0.75:
            with suppress(struct.error, IndexError):
                kind.mend(data)
        main.write_bytes(data or b"\0")
        others = [path for path in others if path.name != KEY]
        if others and chance.random() < (0.9 if name == "split" else 0.2):
            _replaced(chance.choice(others), bait, chance)
        watch = Watch(bait)
        try:
            yield Input(main, [], lambda: _read_failure(main, chance) or watch.complaint())
        finally:
            watch.close()
            shutil.rmtree(place)
            shutil.rmtree(bait)


@dataclass(frozen=True, slots=True)
class ContainerCommands:
    """The commands that read a container in different ways, three for each image."""

    key: Path

    def of(self, chance: random.Random) -> list[list[str]]:
        """The commands for one image."""
        some = chance.sample((["info"], ["ls", "-r"], ["deleted"], ["verify"]), 2)
        more = ["--password-file", str(self.key), "--kdf-limit", "5", "--unpack-limit", "64M"]
        json = ["--json"] if chance.random() < 0.5 else []
        return [[words[0], "IMAGE", *words[1:], *more, *json] for words in (["volumes"], *some)]
