"""Openers: the modules that read containers and encrypted volumes, and the choice among them.

The modules of this package are imported when they are needed. Other packages add their own by entry
points: for a container in the group `ext4kit.sources`, with the name for `--format`; for the
encryption of a volume in `ext4kit.encryption`, with the volume's kind as in `volumes`. These are
tried only if no known format is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from ext4kit.errors import AccessError, CorruptError, Ext4kitError, RequestError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.partitions import disk_text
from ext4kit.evidence.raw import RawFile, SplitFile, open_raw
from ext4kit.evidence.signatures import LUKS, UNKNOWN, first_sector_kind, identify
from ext4kit.evidence.source import Source, peek
from ext4kit.problems import Problems, Severity

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ext4kit.evidence.containers.keys import Keys

RAW = "raw"
SOURCES, ENCRYPTION = "ext4kit.sources", "ext4kit.encryption"  # groups of entry points
_MODULES = "ext4kit.evidence.containers"
_CONTAINERS = {
    "ewf": "ewf",
    "ewf2": "libyal",
    "qcow2": "qcow2",
    "vmdk": "libyal",
    "vhd": "vhd",
    "vhdx": "libyal",
    "gzip": "packed",
    "xz": "packed",
    "bzip2": "packed",
}
FORMATS = (RAW, *_CONTAINERS)
ENCRYPTED = {LUKS: "luks"}  # kind -> its module, which is also the scheme of inner volumes
_FOOTER = 512  # bytes of a VHD's footer
_VHD_FIXED = 2
_DEPTH = 32  # longest chain of backing files


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Request to open a file as a container.

    Attributes:
        path: the file.
        kind: format of the file, as `--format` names it.
        limits: limits of opening.
        above: the images that led to this one in a chain of backing files.
    """

    path: Path
    kind: str = ""
    limits: OpenLimits = field(default_factory=OpenLimits)
    above: tuple[Path, ...] = ()

    def below(self, found: Path, problems: Problems) -> Evidence:
        """Open the next image of a chain: a backing file or a parent.

        Args:
            found: path of the next image.
            problems: problems of this image; those of the next one are added.

        Raises:
            AccessError: the image cannot be opened, or the chain does not end.
        """
        chain = (*self.above, self.path.resolve())
        if found.resolve() in chain or len(chain) > _DEPTH:
            raise AccessError(f"{self.path}: its chain of images in each other does not end")
        below = _open(OpenRequest(found, "", self.limits, chain))
        if below.other is not None:  # such a backing file is most often a raw disk
            text = f"{below.disguise}; it is read as {RAW}"
            problems.add(found.name, text, Severity.WARNING)
            below.source.close()
            below = below.other
        for problem in below.problems:
            problems.add(problem.where, problem.what, problem.severity)
        return below


class Opener(Protocol):
    """A module or object that opens a container."""

    def open_container(self, request: OpenRequest) -> Evidence:
        """The disk in the container.

        Raises:
            AccessError: the container cannot be read, or a part of it is missing.
            CorruptError: the container is damaged; the caller adds the path.
            UnsupportedError: it has an unsupported feature, or needs an extra.
        """


class ProbingOpener(Opener, Protocol):
    """An opener of another package."""

    def probe(self, source: Source) -> bool:
        """Whether a file is such a container."""


class Unlocker(Protocol):
    """A module or object that decrypts volumes of one kind."""

    def unlock(self, volume: Source, keys: Keys) -> Source | None:
        """The decrypted bytes of an encrypted volume; None if no passphrase or key opens it.

        Raises:
            AccessError: the volume cannot be read, or opening it exceeds the limits.
            CorruptError: the header is damaged.
            UnsupportedError: it has an unsupported feature, or needs an extra.
        """


def formats() -> tuple[str, ...]:
    """Names of all container formats that can be read, including those of other packages."""
    return (*FORMATS, *(each.name for each in _entry_points(SOURCES) if each.name not in FORMATS))


def unlocker(kind: str) -> Unlocker | None:
    """The module that decrypts volumes of a kind; None if the kind is unknown or not encrypted."""
    if kind in ENCRYPTED:
        return cast(Unlocker, import_module(f"{_MODULES}.{ENCRYPTED[kind]}"))
    found = [each for each in _entry_points(ENCRYPTION) if each.name == kind]
    return cast(Unlocker, found[0].load()) if found else None


def _entry_points(group: str) -> Sequence[EntryPoint]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group), key=lambda each: each.name)


def _opener(kind: str) -> Opener:
    if kind in _CONTAINERS:
        return cast(Opener, import_module(f"{_MODULES}.{_CONTAINERS[kind]}"))
    return cast(Opener, next(each for each in _entry_points(SOURCES) if each.name == kind).load())


def _probed(raw: RawFile) -> str:
    """The format of another package that recognises a file, else "raw"."""
    if disk_text(raw) or identify(raw).kind != UNKNOWN:
        return RAW
    found = (each for each in _entry_points(SOURCES) if _probe(each, raw))
    return next((each.name for each in found), RAW)


def _probe(entry: EntryPoint, raw: RawFile) -> bool:
    return cast(ProbingOpener, entry.load()).probe(raw)


def open_source(path: Path, form: str | None = None, limits: OpenLimits | None = None) -> Evidence:
    """The bytes of a device, or of the disk in a file of any supported container format.

    A file that begins like a container but is also a raw disk has two readings: the disk in the
    container, and the file itself as `other`. If the container cannot be opened, only the file
    itself is used.

    Args:
        path: the file.
        form: the format to read the file in, one of `formats()`; by default, it is detected.
        limits: limits of opening; by default, the usual ones.

    Raises:
        AccessError: the file cannot be opened or read, or a part of it is missing.
        RequestError: a device or a split image is to be read as a container, or the format does not
            exist.
        UnsupportedError: the image uses an unsupported feature of its format, or needs an extra.
    """
    if form not in (None, *FORMATS) and form not in formats():
        raise RequestError(f"{form} is no format of an image; there are: {', '.join(formats())}")
    return _open(OpenRequest(path, form or "", limits or OpenLimits()))


def _open(request: OpenRequest) -> Evidence:
    path, form = request.path, request.kind
    raw = open_raw(path)
    if isinstance(raw, SplitFile) or not raw.is_regular:
        name = "split raw" if isinstance(raw, SplitFile) else "device"
        if form not in ("", RAW):
            raw.close()
            raise RequestError(f"{path}: is read as {name}, not as {form}; omit --format")
        return Evidence(raw, raw.paths, name, problems=raw.problems)
    kind = form or first_sector_kind(raw)
    if kind not in FORMATS and not form:
        kind = "vhd" if is_fixed_vhd(raw) else _probed(raw) if kind == UNKNOWN else RAW
    if kind == RAW:
        return Evidence(raw, raw.paths, RAW, problems=raw.problems)
    # a fixed VHD begins like a raw disk, and has a footer at its end
    disk = "" if form or is_fixed_vhd(raw) else disk_text(raw)
    disguise = f"begins like {kind} and is also a disk, with {disk}" if disk else ""
    raw.close()
    try:
        found = _opened(replace(request, kind=kind))
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


def _opened(request: OpenRequest) -> Evidence:
    try:
        return _opener(request.kind).open_container(request)
    except CorruptError as error:
        raise AccessError(f"{request.path}: cannot be read: {error}") from error


def _as_raw(path: Path) -> Evidence:
    file = RawFile(path)
    return Evidence(file, file.paths, RAW, problems=file.problems)


def is_fixed_vhd(raw: Source) -> bool:
    """Whether the file is a raw disk followed by a VHD footer with a correct checksum."""
    footer = peek(raw, raw.size - _FOOTER, _FOOTER)
    if footer[:8] != b"conectix" or int.from_bytes(footer[60:64], "big") != _VHD_FIXED:
        return False
    rest = sum(footer[:64]) + sum(footer[68:])
    return ~rest & 0xFFFFFFFF == int.from_bytes(footer[64:68], "big")
