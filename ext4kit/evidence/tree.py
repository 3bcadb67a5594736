"""The volumes of a disk: partitions, encrypted and logical volumes, nested in any order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ext4kit.errors import (
    AccessError,
    CorruptError,
    Ext4kitError,
    RequestError,
    UnsupportedError,
)
from ext4kit.evidence.containers.keys import KeyProvider, Keys
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.magics import VolumeSignature
from ext4kit.evidence.mounts import writable_mounts
from ext4kit.evidence.openers import ENCRYPTED, open_source, unlocker
from ext4kit.evidence.partitions import (
    Partition,
    disk_text,
    find_partitions,
    looks_partitioned,
)
from ext4kit.evidence.raw import SplitFile
from ext4kit.evidence.signatures import (
    LVM,
    OWNERS_OF_FIRST_SECTOR,
    UNKNOWN,
    behind_first_sector,
    first_sector_kind,
    identify,
)
from ext4kit.evidence.source import Mapped, Source, Window
from ext4kit.evidence.volume import Volume
from ext4kit.problems import Problems, Severity

_LVM_SCHEME = "lvm2"
_WHOLE = "whole image"
_DEPTH = 8  # limit of nested volumes


@dataclass(slots=True, eq=False)
class _Node:
    """A volume and the volumes in it; numbers are assigned when all volumes are known.

    Attributes:
        stored: for a volume that is not a range of the image, where its first byte is stored:
            (source of a volume, offset there).
        state: for an encrypted volume, "open", "locked", or why it cannot be read; else "".
    """

    volume: Volume
    depth: int = 0
    inner: list[_Node] = field(default_factory=list)
    stored: tuple[Source, int] | None = None
    state: str = ""


def open_evidence(
    path: str | os.PathLike[str] | Source,
    phrases: KeyProvider = (),
    limits: OpenLimits | None = None,
    form: str | None = None,
    offset: int | None = None,
) -> Evidence:
    """Open an image in any supported container, or a block device, read-only.

    Args:
        path: a raw image, the first segment of a split image, a container or a device; or a source
            with the bytes of a disk, which is closed with the evidence.
        phrases: passphrases and contents of key files for encrypted volumes; or a function that
            returns those for the volume with a given UUID.
        limits: limits of opening; by default, the usual ones.
        form: the format to read the image in, one of `openers.formats()`; by default, it is
            detected.
        offset: byte at which the only volume starts; no partition table is read.

    Raises:
        AccessError: the path does not exist, is not accessible, is empty, or is something else
            (a directory, a pipe, a character device); a segment is missing; or no passphrase
            opens a volume.
        RequestError: the image ends before `offset`.
        UnsupportedError: the image uses an unsupported feature or needs an extra.
    """
    if isinstance(path, str | os.PathLike):
        evidence = open_source(Path(path), form, limits)
    else:
        evidence = Evidence(path, (Path(path.name),), "source")
    source = evidence.source
    try:
        if isinstance(source, SplitFile):
            _check_pieces(source, evidence.problems)
        for file in evidence.files if evidence.format != "source" else ():
            _report_mounts(file, evidence.problems)
        _find_volumes_of_each(evidence, Keys(phrases, limits), offset)
    except Ext4kitError:
        evidence.close()
        raise
    return evidence


def _find_volumes_of_each(evidence: Evidence, keys: Keys, offset: int | None) -> None:
    """Set the volumes of each reading; an error in one reading does not prevent the other."""
    readings = [evidence, *([evidence.other] if evidence.other else [])]
    failures = []
    for reading in readings:
        try:
            reading.volumes = _volumes_of(reading, keys, offset)
        except Ext4kitError as error:
            failures.append(error)
    if len(failures) == len(readings):
        raise failures[0]


def _volumes_of(evidence: Evidence, keys: Keys, offset: int | None) -> tuple[Volume, ...]:
    source, problems = evidence.source, evidence.problems
    if offset is None:
        pretended = first_sector_kind(source) if evidence.disguise else ""
        return find_volumes(source, keys, problems, pretended)
    if offset >= source.size:
        raise RequestError(f"{evidence.path}: ends at byte {source.size:,}, before --offset")
    window = Window(source, offset, source.size - offset)
    volume = Volume.of(window, identify(window), "", "at the offset given")
    return _with_inner(source, [volume], keys, problems)


def _report_mounts(path: Path, problems: Problems) -> None:
    """Warn of a mounted file system: it changes during the work and overwrites deleted content."""
    for place in writable_mounts(path):
        text = f"is mounted read-write at {os.fsdecode(place)}: it changes while it is read, and"
        text += " deleted content is overwritten; unmount it, or work on an image"
        problems.add(str(path), text, Severity.WARNING)


def _check_pieces(source: SplitFile, problems: Problems) -> None:
    """Report segments of unequal size: all except the last must be equal, else one is truncated."""
    for path, size in zip(source.paths[1:-1], source.sizes[1:-1], strict=True):
        if size != source.sizes[0]:
            text = f"has {size:,} bytes, the first has {source.sizes[0]:,}: check the copies"
            problems.add(f"piece {path.name}", text, Severity.WARNING)


def find_volumes(
    source: Source, keys: Keys, problems: Problems, pretended: str = ""
) -> tuple[Volume, ...]:
    """Every volume of a disk, each followed by the volumes in it.

    Args:
        source: the disk.
        keys: keys of encrypted volumes.
        problems: collects defects of tables and headers.
        pretended: a kind that the first bytes of the disk only imitate; it is not listed.

    Raises:
        AccessError: passphrases were given and none opens a volume.
        UnsupportedError: decryption needs an extra that is not installed.
    """
    listed = _listed(source, problems)
    known = [each for each in listed if not (each.hides and each.kind == pretended)]
    return _with_inner(source, known, keys, problems)


def _with_inner(
    source: Source, volumes: Sequence[Volume], keys: Keys, problems: Problems
) -> tuple[Volume, ...]:
    """The volumes of a disk, each followed by the volumes in it."""
    roots = [_Node(each) for each in volumes]
    waiting, seen = list(_unlocked(roots, keys, problems)), 0
    while seen < len(waiting):  # a logical volume may contain a physical one
        physical = [node for node in waiting[seen:] if node.volume.kind == LVM]
        seen = len(waiting)
        found = _logical(physical, problems) if physical else []
        waiting += _unlocked(found, keys, problems)
    return _numbered(source, roots, keys.are_given, problems)


def _unlocked(nodes: list[_Node], keys: Keys, problems: Problems) -> Iterator[_Node]:
    """The volumes, including those in encrypted volumes that a passphrase opens."""
    for node in nodes:
        yield node
        if node.depth < _DEPTH:
            _open_encrypted(node, keys, problems)
            yield from _unlocked(node.inner, keys, problems)


def _open_encrypted(node: _Node, keys: Keys, problems: Problems) -> None:
    """Add the volumes in an encrypted volume that a passphrase opens."""
    kind = node.volume.kind
    if kind in ENCRYPTED:
        node.state = "locked"
    opener = unlocker(kind) if keys.are_given else None
    if opener is None:
        return
    node.state = "locked"
    keys.ask(node.volume.uuid)
    try:
        plain = opener.unlock(node.volume.source, keys)
    except (AccessError, CorruptError, UnsupportedError) as error:
        node.state = str(error)
        return
    if plain is not None:
        node.state = "open"
        node.inner = _inside(node, plain, ENCRYPTED.get(kind, kind), "unlocked", problems)


def _inside(
    node: _Node,
    source: Source,
    scheme: str,
    description: str,
    problems: Problems,
    name: str = "",
) -> list[_Node]:
    """The volumes in a source built from a volume, as nodes below that volume."""
    found = Problems()
    whole = f"logical volume {name}" if name else f"encrypted volume {node.volume.uuid}"
    nodes = []
    for each in _listed(source, found):
        volume = replace(
            each,
            scheme="/".join(filter(None, (scheme, each.scheme))),
            description=each.description or description,
            name=name,
        )
        stored = None
        if isinstance(source, Mapped) and each.offset < source.size:
            stored = source.stored_at(each.offset)
        nodes.append(_Node(volume, node.depth + 1, stored=stored))
    for problem in found:
        where = whole if problem.where == _WHOLE else f"{whole}: {problem.where}"
        problems.add(where, problem.what, problem.severity)
    return nodes


def _logical(physical: list[_Node], problems: Problems) -> list[_Node]:
    """The logical volumes of all groups, each listed below a physical volume of its group."""
    from ext4kit.evidence.containers.lvm import find_logical

    found = []
    for each in find_logical([node.volume.source for node in physical], problems):
        holder = physical[each.holder]
        if holder.depth >= _DEPTH:
            continue
        if each.source is None:
            # a volume without its bytes, which cannot be assembled
            nothing = Window(holder.volume.source, 0, 0)
            signature = VolumeSignature(f"{each.what} logical volume", uuid=each.uuid)
            unread = Volume.of(nothing, signature, _LVM_SCHEME, f"{each.name}, {each.what}")
            unread = replace(unread, size=each.size, name=each.name)
            holder.inner.append(_Node(unread, holder.depth + 1))
            continue
        text = f"{each.name}, {each.what}"
        inner = _inside(holder, each.source, _LVM_SCHEME, text, problems, each.name)
        holder.inner += inner
        found += inner
    return found


def _numbered(
    source: Source, roots: list[_Node], has_phrases: bool, problems: Problems
) -> tuple[Volume, ...]:
    """All volumes with their numbers and parents; reports defects by the volume's number."""
    found: list[Volume] = []
    stored: list[tuple[Source, int] | None] = []
    states: list[tuple[Volume, str]] = []

    def visit(nodes: list[_Node], parent: int) -> None:
        for node in nodes:
            volume = replace(node.volume, index=len(found) + 1, parent=parent)
            found.append(volume)
            stored.append(node.stored if parent else (source, volume.offset))
            if volume.scheme and volume.source.missing:
                _tell_missing(volume, problems)
            if volume.hides:
                text = f"begins like {volume.format} and holds {volume.hides}; both are listed"
                problems.add(f"volume {volume.index}", text, Severity.WARNING)
            if node.state:
                states.append((volume, node.state))
            visit(node.inner, volume.index)

    visit(roots, 0)
    _tell_locked(source, states, has_phrases, problems)
    numbers = {id(source): 0} | {id(volume.source): volume.index for volume in found}
    return tuple(
        replace(volume, first_byte=(numbers[id(place[0])], place[1])) if place else volume
        for volume, place in zip(found, stored, strict=True)
    )


def _tell_locked(
    source: Source, states: list[tuple[Volume, str]], has_phrases: bool, problems: Problems
) -> None:
    """Report the volumes that stay locked.

    Raises:
        AccessError: passphrases were given, and none opens a volume; the message says why.
    """
    if has_phrases and states and all(state != "open" for _, state in states):
        numbers = ", ".join(str(volume.index) for volume, _ in states)
        text = f"no pass phrase or key given opens its encrypted volume ({numbers})"
        reasons = [f"volume {volume.index}: {state}" for volume, state in states
                   if state != "locked"]  # fmt: skip
        raise AccessError("; ".join([f"{source.name}: {text}", *reasons]))
    for volume, state in states:
        where = f"volume {volume.index}"
        if state == "locked":
            text = "is encrypted and stays locked; --password-file or --key-file opens it"
            problems.add(where, text, Severity.WARNING if has_phrases else Severity.NOTE)
        elif state != "open":
            problems.add(where, f"cannot be unlocked: {state}")


def _listed(source: Source, problems: Problems) -> tuple[Volume, ...]:
    """The partitions of a source, or the source as one volume."""
    signature = identify(source)
    whole = Partition(0, source.size, "", "")
    is_owner = signature.kind in OWNERS_OF_FIRST_SECTOR
    hides = disk_text(source) if is_owner else ""
    if not looks_partitioned(source) or (is_owner and not hides.startswith("a partition")):
        return tuple(_volumes(source, whole, signature))
    found = find_partitions(source, problems)
    if not found:
        return tuple(_volumes(source, whole, signature))
    volumes = [volume for each in found for volume in _volumes(source, each)]
    if is_owner:
        volumes.insert(0, replace(_volume(source, whole, signature), hides=hides))
    elif signature.kind != UNKNOWN and signature.backup:
        text = f"holds a backup superblock of an {signature.kind} older than the partition table"
        text = f"{text}, at byte {signature.offset:,}"
        problems.add(_WHOLE, text, Severity.NOTE)
    elif signature.kind != UNKNOWN and not _is_of_partition(signature, volumes):
        # the evidence does not show which of the two is in use
        text = f"has a partition table and is also {signature.kind}; both are listed"
        problems.add(_WHOLE, text, Severity.WARNING)
        volumes.insert(0, _volume(source, whole, signature))
    return tuple(volumes)


def _is_of_partition(signature: VolumeSignature, volumes: Sequence[Volume]) -> bool:
    """Whether a signature in the last sectors of the disk belongs to a partition ending there."""
    return any(
        each.kind == signature.kind
        and 0 < each.offset <= signature.offset < each.offset + each.size
        for each in volumes
    )


def _volumes(
    source: Source, part: Partition, signature: VolumeSignature | None = None
) -> Iterator[Volume]:
    """The volume in a partition, and a second one if other bytes of it have another signature."""
    first = _volume(source, part, signature)
    behind = behind_first_sector(first.source, first.kind)
    if behind is None:
        yield first
    else:
        yield replace(first, hides=f"a signature of {behind.kind} at its byte {behind.offset:,}")
        yield _volume(source, part, behind)


def _volume(source: Source, part: Partition, signature: VolumeSignature | None) -> Volume:
    window = Window(source, part.offset, part.size)
    return Volume.of(window, signature or identify(window), part.scheme, part.description)


def _tell_missing(volume: Volume, problems: Problems) -> None:
    where, window = f"volume {volume.index}", volume.source
    end = f"{volume.frame} ends at byte {window.source.size:,}"
    if window.size == 0:
        problems.add(where, f"starts at byte {window.offset:,}, {end}: nothing of it is there")
        return
    claimed = window.size + window.missing
    text = f"the last {window.missing:,} of its {claimed:,} bytes are missing: {end}"
    problems.add(where, text)
