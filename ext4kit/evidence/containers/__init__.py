"""Containers: the disk in an EWF, QCOW2, VMDK, VHD(X) or compressed image, detected by magic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ext4kit.errors import (
    AccessError,
    CorruptError,
    Ext4kitError,
    RequestError,
    UnsupportedError,
)
from ext4kit.evidence.beside import find_beside
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.partitions import disk_text
from ext4kit.evidence.raw import RawFile, SplitFile, open_raw
from ext4kit.evidence.signatures import first_sector_kind
from ext4kit.evidence.source import Source, Window, peek
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from ext4kit.parsers.qcow2 import Qcow2Header

RAW = "raw"
FORMATS = (RAW, "ewf", "ewf2", "qcow2", "vmdk", "vhd", "vhdx", "gzip", "xz", "bzip2")
_FOOTER = 512  # of a VHD
_VHD_FIXED = 2
_DEPTH = 32  # of chains of backing files


@dataclass(frozen=True, slots=True)
class _Opening:
    """What opening may cost, and the chain of images that led to this one."""

    limits: OpenLimits
    above: tuple[Path, ...] = ()


def open_source(path: Path, form: str | None = None, limits: OpenLimits | None = None) -> Evidence:
    """The bytes of a device, or of the disk in a file of any supported container format.

    A file that begins like a container, but is a disk without it, has two readings: the disk in
    the container, with the file itself as `other`. Where the container cannot be opened, the file
    is the disk.

    Args:
        path: the file.
        form: one of `FORMATS`, to read it as nothing else.
        limits: of what opening may cost; the usual ones without it.

    Raises:
        AccessError: the file cannot be opened or read, or a part of it is missing.
        RequestError: a device or a split image is to be read as a container.
        UnsupportedError: the image uses an unsupported feature of its format, or needs an extra.
    """
    return _open(path, _Opening(limits or OpenLimits()), form)


def _open(path: Path, opening: _Opening, form: str | None = None) -> Evidence:
    raw = open_raw(path)
    if isinstance(raw, SplitFile) or not raw.is_regular:
        name = "split raw" if isinstance(raw, SplitFile) else "device"
        if form not in (None, RAW):
            raw.close()
            raise RequestError(f"{path}: is read as {name}, not as {form}; omit --format")
        return Evidence(raw, raw.paths, name, problems=raw.problems)
    kind = form or first_sector_kind(raw)
    if kind not in FORMATS and _is_fixed_vhd(raw):
        kind = "vhd"
    if kind not in FORMATS or kind == RAW:
        return Evidence(raw, raw.paths, RAW, problems=raw.problems)
    # a fixed VHD is a disk with a footer, and begins like one
    disk = "" if form or _is_fixed_vhd(raw) else disk_text(raw)
    disguise = f"begins like {kind} and is also a disk, with {disk}" if disk else ""
    try:
        found = _container(path, raw, kind, opening)
    except Ext4kitError as error:
        if not disk:
            raise
        found, why = _as_raw(path), str(error).removeprefix(f"{path}: ")
        found.disguise = disguise
        text = f"{found.disguise}; it is read as raw, because as {kind} it cannot be: {why}"
        found.problems.add(path.name, text, Severity.WARNING)
        return found
    if disk:
        found.other = _as_raw(path)
        found.disguise = found.other.disguise = disguise
    return found


def _as_raw(path: Path) -> Evidence:
    file = RawFile(path)
    return Evidence(file, file.paths, RAW, problems=file.problems)


def _container(path: Path, raw: RawFile, kind: str, opening: _Opening) -> Evidence:
    """The disk in a container of a kind, whose module is imported now; `raw` is used, or closed."""
    if kind == "qcow2":
        return _qcow2(path, raw, opening)
    if kind == "vhd" and _is_fixed_vhd(raw):
        disk = Window(raw, 0, raw.size - _FOOTER, owns=True)
        return Evidence(disk, raw.paths, "vhd", problems=raw.problems)
    if kind == "vhd":
        return _vhd(path, raw, opening)
    raw.close()
    if kind == "ewf":
        from ext4kit.evidence.containers.ewf import open_ewf

        return open_ewf(path)
    if kind in ("ewf2", "vmdk", "vhdx"):
        from ext4kit.evidence.containers.libyal import open_library_image

        return open_library_image(path, kind)
    from ext4kit.evidence.containers.packed import open_packed

    return open_packed(path, kind, opening.limits)


def _is_fixed_vhd(raw: Source) -> bool:
    """Whether the file is a raw disk followed by a VHD footer with a correct checksum."""
    footer = peek(raw, raw.size - _FOOTER, _FOOTER)
    if footer[:8] != b"conectix" or int.from_bytes(footer[60:64], "big") != _VHD_FIXED:
        return False
    rest = sum(footer[:64]) + sum(footer[68:])
    return ~rest & 0xFFFFFFFF == int.from_bytes(footer[64:68], "big")


def _qcow2(path: Path, raw: RawFile, opening: _Opening) -> Evidence:
    """A QCOW2 image and its chain of backing files."""
    from ext4kit.evidence.containers.qcow2 import Qcow2

    problems = Problems()
    try:
        header, name = _qcow2_header(path, raw)
        below = None
        if name:
            below = _below(path, find_beside(path, name, "backing file"), opening, problems)
    except Ext4kitError:
        raw.close()
        raise
    if header.marked_corrupt:
        problems.add(path.name, "QEMU marked this image as corrupt", Severity.WARNING)
    if header.snapshots:
        text = f"has {header.snapshots} internal snapshots; the current state is read"
        problems.add(path.name, text, Severity.NOTE)
    files = (path, *(below.files if below else ()))
    try:
        source = Qcow2(path, raw, header, below.source if below else None, problems)
    except CorruptError as error:
        for opened in (raw, below.source if below else None):
            if opened is not None:
                opened.close()
        raise AccessError(f"{path}: cannot be read: {error}") from error
    return Evidence(source, files, "qcow2", problems=problems)


def _qcow2_header(path: Path, raw: RawFile) -> tuple[Qcow2Header, str]:
    """The header and the name of the backing file."""
    from ext4kit.evidence.containers.qcow2 import backing_name, require_zstd
    from ext4kit.parsers.qcow2 import parse_header

    try:
        header = parse_header(peek(raw, 0, 4096))
        if header.zstd:
            require_zstd()
        return header, backing_name(raw, header)
    except CorruptError as error:
        raise AccessError(f"{path}: cannot be read: {error}") from error
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from error


def _below(path: Path, found: Path, opening: _Opening, problems: Problems) -> Evidence:
    """The next image of a chain; its problems become those of the first."""
    chain = (*opening.above, path.resolve())
    if found.resolve() in chain or len(chain) > _DEPTH:
        raise AccessError(f"{path}: its chain of images in each other does not end")
    below = _open(found, _Opening(opening.limits, chain))
    if below.other is not None:  # a backing file is what its owner made it from, most often a disk
        text = f"{below.disguise}; it is read as {RAW}"
        problems.add(found.name, text, Severity.WARNING)
        below.source.close()
        below = below.other
    for problem in below.problems:
        problems.add(problem.where, problem.what, problem.severity)
    return below


def _vhd(path: Path, raw: RawFile, opening: _Opening) -> Evidence:
    """A dynamic or differencing VHD and its parent."""
    from ext4kit.evidence.containers import vhd

    problems, below = Problems(), None
    try:
        footer = vhd.read_footer(raw)
        header = vhd.read_header(raw, footer)
        if not (footer.is_sound and header.is_sound):
            problems.add(path.name, "the checksum of its header is wrong", Severity.WARNING)
        if names := vhd.parent_names(raw, footer, header):
            found = _parent(path, names, header.parent)
            below = _below(path, found, opening, problems)
        source = vhd.Vhd(raw, footer, header, below.source if below else None, problems)
    except Ext4kitError as error:
        for opened in (raw, below.source if below else None):
            if opened is not None:
                opened.close()
        if isinstance(error, CorruptError):
            raise AccessError(f"{path}: cannot be read: {error}") from error
        raise
    return Evidence(source, (path, *(below.files if below else ())), "vhd", problems=problems)


def _parent(path: Path, names: tuple[str, ...], identifier: bytes) -> Path:
    """The file of a VHD's parent.

    Raises:
        AccessError: the parent is missing, or has another identifier.
    """
    from ext4kit.evidence.containers.vhd import read_footer

    failure = AccessError(f"{path}: its parent is missing")
    for name in names:
        try:
            found = find_beside(path, name, "parent")
        except AccessError as error:
            failure = error
            continue
        file = RawFile(found)
        try:
            if read_footer(file).identifier == identifier:
                return found
        except (CorruptError, UnsupportedError):
            pass
        finally:
            file.close()
        failure = AccessError(f"{path}: {found.name} is not the parent that it was made from")
    raise failure
