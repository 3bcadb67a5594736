"""Images for a case: found in folders, opened, and told apart by what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.evidence.containers.keys import KeyProvider
from ext4kit.evidence.limits import OpenLimits
from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.opening import Image, ImageVolume, open_image
from ext4kit.report.safe import printable_text
from ext4kit.roots.host import host_name
from ext4kit.units import Progress

_SMALLEST = 64 << 10  # bytes of a file that may be an image
_NAMES_OTHERS = b"# Disk DescriptorFile"  # a small file that names those of a VMDK image
_SUPERBLOCK, _SUPERBLOCK_SIZE = 1024, 1024  # kernel Documentation/filesystems/ext4/super.rst


@dataclass(frozen=True)
class FoundVolume:
    """A volume of an image.

    Attributes:
        number: in the list of `volumes`.
        kind: what is on it, such as "ext4".
        is_ext: whether it has a file system that this program reads.
        label, uuid: of the file system.
        size: bytes.
        locator: its address, as one line.
        host: the name in /etc/hostname; "" for none.
        state: digest of the superblocks of file system and journal; "" for other volumes. Two
            images of one disk in the same state have the same.
    """

    number: int
    kind: str
    is_ext: bool
    label: str
    uuid: str
    size: int
    locator: str
    host: str = ""
    state: str = ""


@dataclass(frozen=True)
class FoundImage:
    """An image, or a file that should be one.

    Attributes:
        path: absolute.
        files: all files of the image, absolute.
        form: name of the format.
        size: bytes of the disk.
        volumes: its volumes.
        problem: why it could not be opened; "" if it was.
    """

    path: Path
    files: tuple[Path, ...]
    form: str = ""
    size: int = 0
    volumes: tuple[FoundVolume, ...] = ()
    problem: str = ""

    @property
    def has_ext(self) -> bool:
        """Whether there is something to examine."""
        return any(volume.is_ext for volume in self.volumes)

    @property
    def kinds(self) -> str:
        """What it is: its format, and what is on its volumes."""
        return f"{self.form} ({', '.join(dict.fromkeys(each.kind for each in self.volumes))})"


def examine(path: Path, keys: KeyProvider = (), limits: OpenLimits | None = None) -> FoundImage:
    """Open an image, and tell what is on it; an image that cannot be opened has a problem."""
    where = path.absolute()
    try:
        with open_image(where, keys, limits) as image:
            files = tuple(each.absolute() for each in image.evidence.files)
            volumes = tuple(_volume(image, each) for each in image.volumes)
            return FoundImage(where, files, image.evidence.format, image.evidence.source.size,
                              volumes)  # fmt: skip
    except Ext4kitError as error:
        return FoundImage(where, (where,), problem=printable_text(str(error)))


def images_below(
    folder: Path,
    keys: KeyProvider = (),
    limits: OpenLimits | None = None,
    progress: Progress | None = None,
) -> list[FoundImage]:
    """All files below a folder that could be images, by path; parts of another one are left out.

    Raises:
        RequestError: there is no such folder.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder}: is no folder")
    paths, found = sorted(_candidates(folder)), list[FoundImage]()
    for number, path in enumerate(paths):
        if progress is not None:
            progress(number, len(paths))
        found.append(examine(path, keys, limits))
    parts = {file for image in found for file in image.files[1:]}
    return [image for image in found if image.path not in parts]


def _candidates(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size >= _SMALLEST or _names_others(path):
            yield path


def _names_others(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(32).startswith(_NAMES_OTHERS)
    except OSError:
        return False


def _volume(image: Image, volume: ImageVolume) -> FoundVolume:
    facts = volume.facts
    found = FoundVolume(
        facts.index, facts.kind, facts.is_ext, printable_text(facts.label),
        printable_text(facts.uuid), facts.source.size, str(image.locator_of(volume)),
    )  # fmt: skip
    if not facts.is_ext:
        return found
    try:
        fs = volume.filesystem()
        host = printable_text(host_name(fs))
        state = _state(facts.source.read(_SUPERBLOCK, _SUPERBLOCK_SIZE), fs)
    except Ext4kitError:
        return found  # the jobs will tell what is wrong with it
    return replace(found, host=host, state=state)


def _state(superblock: bytes | memoryview, fs: FileSystem) -> str:
    digest = hashlib.sha256(superblock)
    try:
        log = Log.open(fs)
        if log is not None:
            digest.update(log.reader.blocks.read(log.superblock_block))
    except Ext4kitError:
        pass
    return digest.hexdigest()
