"""Volumes of an image and file systems found by their superblocks, as tables and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit import fields
from ext4kit.evidence import Volume
from ext4kit.filesystem.found import Basis, FoundFileSystem, Relation
from ext4kit.report.safe import printable, printable_text
from ext4kit.report.tables import table_lines
from ext4kit.report.times import time_text
from ext4kit.times import iso
from ext4kit.units import NANOSECONDS

_HEADINGS = ("index", "offset", "size", "kind", "label", "uuid", "scheme", "description")


def volume_lines(volumes: Sequence[Volume]) -> list[str]:
    """A heading, then a line for each volume, with offset and size in bytes.

    If volumes are nested, a column "in" has the number of the outer volume.
    """
    headings, rows, right = list(_HEADINGS), [], {0, 1, 2}
    for volume in volumes:
        kind = f"{volume.kind} (backup superblock)" if volume.backup else volume.format
        offset = volume.offset if has_offset(volume) else ""
        values = (volume.index, offset, volume.size, kind, volume.label, volume.uuid,
                  volume.scheme, description_text(volume))  # fmt: skip
        rows.append([printable_text(str(value)) or "-" for value in values])
    if any(volume.parent for volume in volumes):
        headings.insert(1, "in")
        for row, volume in zip(rows, volumes, strict=True):
            row.insert(1, str(volume.parent or "-"))
        right.add(3)
    return table_lines(headings, rows, right=right)


def has_offset(volume: Volume) -> bool:
    """Whether the volume has an offset: in the image, or in a volume of which it is a part."""
    return not volume.parent or volume.offset > 0


def place_text(volume: Volume) -> str:
    """`at 1,048,576`; `logical volume case/root, first byte at 1,048,576 of volume 1`."""
    if not volume.parent:
        return f"at {volume.offset:,}"
    within = f"at {volume.offset:,} of {volume.frame}" if has_offset(volume) else volume.frame
    return ", ".join(filter(None, (within, _first_byte_text(volume))))


def description_text(volume: Volume) -> str:
    """The description; for a volume without an offset in the image, also where its bytes begin."""
    name = "" if volume.description.startswith(volume.name) else f"in {volume.name}"
    return ", ".join(filter(None, (volume.description, name, _first_byte_text(volume))))


def _first_byte_text(volume: Volume) -> str:
    if not volume.parent or volume.first_byte is None:
        return ""
    return f"first byte at {volume.first_byte[1]:,} of volume {volume.first_byte[0]}"


class _ListedVolume(fields.VolumeFacts):
    description: str
    is_ext: bool
    backup: bool


class VolumeRecord(_ListedVolume):
    """A volume of the image (`volumes`, `report`)."""

    record: Literal["volume"]


class OtherVolumeRecord(_ListedVolume):
    """A volume in the reading of the image that was not taken (`volumes`)."""

    record: Literal["other volume"]
    reading: Annotated[str, "Value of `--format` for this reading of the image."]


def volume_record(volume: Volume) -> VolumeRecord:
    """A volume as a record."""
    return {"record": "volume", **_listed(volume)}


def other_volume_record(volume: Volume, reading: str) -> OtherVolumeRecord:
    """A volume of the other reading as a record."""
    return {"record": "other volume", **_listed(volume), "reading": reading}


def _listed(volume: Volume) -> _ListedVolume:
    return {
        **volume.as_facts(),
        "description": volume.description,
        "is_ext": volume.is_ext,
        "backup": volume.backup,
    }


MOST_NAMED = 4  # number of file systems named in a one-line message
_FOUND_HEADINGS = (
    "offset", "size", "kind", "label", "uuid", "mounted", "written", "superblock", "remarks",
)  # fmt: skip
_RELATIONS = {
    Relation.IN_FILE: "in a file of the one at {}",
    Relation.IN_FREE_SPACE: "in free space of the one at {}",
    Relation.EARLIER: "the one at {} was made over it",
}


def _iso_of(seconds: int) -> str | None:
    return iso(seconds * NANOSECONDS) if seconds else None


def found_lines(found: Sequence[FoundFileSystem]) -> list[str]:
    """A heading, then a line for each file system, with offset and size in bytes."""
    if not found:
        return ["no superblock of ext2, ext3 or ext4 was found"]
    return table_lines(_FOUND_HEADINGS, [_found_row(one) for one in found], right={0, 1})


def _found_row(one: FoundFileSystem) -> tuple[str, ...]:
    superblock = one.superblock
    times = (
        time_text(seconds * NANOSECONDS or None)
        for seconds in (superblock.mount_time, superblock.write_time)
    )
    label = printable(superblock.volume_name) or "-"
    which = f"block {one.block} (group {superblock.group_number})" if one.block else "primary"
    remarks = "; ".join(_remarks(one)) or "-"
    return (str(one.offset), str(one.size), superblock.kind, label, superblock.uuid_text,
            *times, which, remarks)  # fmt: skip


def _remarks(one: FoundFileSystem) -> Iterator[str]:
    if one.relation is not None:
        yield _RELATIONS[one.relation].format(one.other)
    if one.offset < 0:
        yield f"{min(-one.offset, one.size):,} bytes are before the image"
    if one.size > one.room:
        yield f"{one.size - max(one.room, 0):,} bytes are beyond the end of the image"
    if one.superblock.checksum_ok is False:
        yield "checksum wrong"
    if one.basis is Basis.ONE:
        yield "superblock alone, no root directory"


class FoundRecord(TypedDict):
    """A file system found by its superblocks (`volumes --scan`)."""

    record: Literal["found file system"]
    offset: Annotated[
        int,
        "Start of the file system in bytes, for `--offset`; negative if the "
        "image begins inside the file system.",
    ]
    size: fields.Size
    readable: Annotated[int, "Bytes of the file system that are in the image."]
    is_whole: bool
    kind: fields.Kind
    label: str
    uuid: fields.Uuid
    block_size: int
    mount_time: Annotated[int, "Last mount, seconds since 1970; 0 if it was never mounted."]
    mount_time_iso: fields.Iso | None
    write_time: Annotated[int, "Seconds since 1970."]
    write_time_iso: fields.Iso | None
    superblock: Literal["primary", "backup"]
    superblock_offset: Annotated[int, "Byte offset of the superblock copy that was read."]
    group: Annotated[int, "Block group of that copy."]
    block: Annotated[int | None, "Block of that copy if it is a backup, for `--superblock`."]
    copies: Annotated[int, ("minimum", 1), "Number of superblock copies that state this start."]
    checksum_ok: Annotated[
        bool | None, "Whether the checksum is right; null if the format stores none."
    ]
    basis: Annotated[Basis, "Evidence for the start of the file system."]
    relation: Annotated[
        Relation | None,
        "How the file system at `other` uses this place: in use (an image within a file), free, "
        "earlier (the other file system was created over this one).",
    ]
    other: Annotated[int | None, "Offset of another file system that includes this place."]


def found_record(one: FoundFileSystem) -> FoundRecord:
    """A found file system as a record; `block` is the value for `--superblock`."""
    superblock = one.superblock
    return {
        "record": "found file system",
        "offset": one.offset,
        "size": one.size,
        "readable": one.readable,
        "is_whole": one.is_whole,
        "kind": superblock.kind,
        "label": superblock.label,
        "uuid": superblock.uuid_text,
        "block_size": superblock.block_size,
        "mount_time": superblock.mount_time,
        "mount_time_iso": _iso_of(superblock.mount_time),
        "write_time": superblock.write_time,
        "write_time_iso": _iso_of(superblock.write_time),
        "superblock": "backup" if one.block else "primary",
        "superblock_offset": one.place,
        "group": superblock.group_number,
        "block": one.block,
        "copies": one.copies,
        "checksum_ok": superblock.checksum_ok,
        "basis": one.basis,
        "relation": one.relation,
        "other": one.other,
    }


def found_text(found: Sequence[FoundFileSystem], image: str) -> str:
    """The found file systems and the options that read them, in one line; "" for none."""
    fit = [one for one in found if one.offset >= 0 and (one.is_whole or one.basis is not Basis.ONE)]
    if not fit and any(one.offset >= 0 for one in found):
        return f"a superblock of {found[0].superblock.kind} was found, probably in its journal; " \
               f"`ext4kit ls {image} --lost` searches for the file system"  # fmt: skip
    if not fit:
        return ""
    named, options = [], []
    for one in fit[:MOST_NAMED]:
        label = one.superblock.label
        name = f" {printable_text(label)!r}" if label else ""
        option = f" --superblock {one.block}" if one.block else ""
        options.append(f"--offset {one.offset}{option}")
        named.append(f"{one.superblock.kind}{name} at {options[-1]}")
    more = f" and {len(fit) - MOST_NAMED} more" if len(fit) > MOST_NAMED else ""
    advice = f"`ext4kit ls {image} {options[0]}` reads the first"
    if len(fit) > 1:
        advice += f", `ext4kit volumes {image} --scan` tells more"
    return f"superblocks found: {', '.join(named)}{more}; {advice}"
