"""Logical volumes of LVM2, linear and striped, as maps into their physical volumes.

This module is used instead of libvslvm, which refuses the metadata of a group with a striped
volume. In addition, a linear volume on a raw image stays a range of an open file here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.errors import AccessError, CorruptError, Ext4kitError
from ext4kit.evidence.lost import merge_ranges, shift_ranges, unreadable_ranges
from ext4kit.evidence.source import Source, check_range, fileno_range, peek
from ext4kit.parsers.lvm import Group, parse_label, parse_text, text_place
from ext4kit.problems import Problems, Severity
from ext4kit.units import SECTOR

_MOST_TEXT = 64 << 20
_PLAIN = ("striped", "linear")
_LARGEST = 1 << 60
_MOST_STRIPES = 1 << 20  # most unreadable stripes that are listed one by one


@dataclass(frozen=True, slots=True)
class Run:
    """A range of a logical volume, `length` bytes from `start` on, striped over `places`.

    Attributes:
        stripe: bytes per stripe; `length` if there is one source.
        places: (name of the physical volume, its source or None if missing, byte offset) for each
            source.
    """

    start: int
    length: int
    stripe: int
    places: tuple[tuple[str, Source | None, int], ...]


class LogicalVolume:
    """The bytes of a logical volume.

    Args:
        name: its name in messages.
        runs: its runs in order, without gaps, at least one.
    """

    def __init__(self, name: str, runs: tuple[Run, ...]) -> None:
        self.name = name
        self.size = runs[-1].start + runs[-1].length
        self._runs = runs
        self._starts = [run.start for run in runs]

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from byte `offset` on.

        Raises:
            AccessError: the range is outside the volume, or a physical volume cannot be read.
        """
        check_range(self, offset, length)
        parts = [
            self._there(place).read(at, count)
            for place, at, count in self._parts(offset, length)
        ]  # fmt: skip
        if len(parts) == 1:
            return parts[0]
        return memoryview(b"".join(parts))

    def _there(self, place: tuple[str, Source | None, int]) -> Source:
        if place[1] is None:
            raise AccessError(f"{self.name}: physical volume {place[0]} is missing")
        return place[1]

    def _parts(
        self, offset: int, length: int
    ) -> Iterator[tuple[tuple[str, Source | None, int], int, int]]:
        """(place, byte offset in the place's source, bytes) of each part of a range, in order."""
        end = offset + length
        index = bisect_right(self._starts, offset) - 1
        while offset < end:
            run = self._runs[index]
            within = offset - run.start
            row, column = divmod(within // run.stripe, len(run.places))
            skip = within % run.stripe
            count = min(end - offset, run.stripe - skip, run.length - within)
            place = run.places[column]
            yield place, place[2] + row * run.stripe + skip, count
            offset += count
            index += offset >= run.start + run.length

    def _alone(self, offset: int, length: int) -> tuple[Source, int] | None:
        """(source, byte offset) of a range that is contiguous in one source, else None."""
        parts = self._parts(offset, length)
        first = next(parts, None)
        if first is None or first[2] != length or first[0][1] is None:
            return None
        return first[0][1], first[1]

    def stored_at(self, offset: int) -> tuple[Source, int] | None:
        """(physical volume that stores a byte, its offset there); None if the volume is missing."""
        place, at, _count = next(self._parts(offset, 1))
        return None if place[1] is None else (place[1], at)

    def fileno_range(self, offset: int, length: int) -> tuple[int, int] | None:
        """(file descriptor, byte offset) of the range in an open regular file, or None.

        Raises:
            AccessError: the range is outside the volume.
        """
        check_range(self, offset, length)
        found = self._alone(offset, length)
        return fileno_range(found[0], found[1], length) if found else None

    def unreadable(self) -> Int64s:
        """(first byte, end) of ranges that are on missing volumes or unreadable on present ones."""
        found = [_lost_of(run, column) for run in self._runs for column in range(len(run.places))]
        return merge_ranges(*found)

    def close(self) -> None:
        """Do nothing: the evidence is closed by its owner."""


def _lost_of(run: Run, column: int) -> Int64s:
    """Unreadable ranges of a run on one of its sources, as ranges of the logical volume."""
    _, source, base = run.places[column]
    stripe, width = run.stripe, len(run.places)
    size = -(-run.length // (stripe * width)) * stripe
    lost = (
        np.array([[0, size]])
        if source is None
        else shift_ranges(unreadable_ranges(source), -base, size)
    )
    first, end = lost[:, 0] // stripe, -(-lost[:, 1] // stripe)
    if (end - first).sum() > _MOST_STRIPES:
        lost, first, end = np.array([[0, run.length]]), np.zeros(1, int), np.ones(1, int)
        stripe, width, column = run.length, 1, 0
    count = end - first
    which = np.repeat(np.arange(len(lost)), count)
    row = np.arange(len(which)) - np.repeat(np.cumsum(count) - count - first, count)
    low = np.maximum(lost[which, 0], row * stripe)
    high = np.minimum(lost[which, 1], (row + 1) * stripe)
    shift = (row * (width - 1) + column) * stripe
    ranges: Int64s = np.stack([low + shift, high + shift], axis=1)
    return run.start + ranges.clip(max=run.length)


@dataclass(frozen=True, slots=True)
class LogicalVolumeFacts:
    """A logical volume as described in the metadata of its group.

    Attributes:
        name: "group/volume".
        uuid: UUID in LVM's notation.
        what: text that describes its kind: "linear", "striped (2)", "snapshot of root" ...
        holder: index of the physical volume that stores the first byte or, if that one is missing,
            of one that has the metadata.
        size: bytes according to the metadata.
        source: source of the bytes; None if they cannot be read.
    """

    name: str
    uuid: str
    what: str
    holder: int
    size: int
    source: LogicalVolume | None


def find_logical(volumes: list[Source], problems: Problems) -> list[LogicalVolumeFacts]:
    """The logical volumes of all groups that the given physical volumes belong to, by group.

    Args:
        volumes: physical volumes.
        problems: collects their defects.
    """
    known: dict[str, int] = {}
    groups: dict[str, tuple[str, Group, int]] = {}
    for place, volume in enumerate(volumes):
        try:
            uuid, name, group = _group(volume)
        except (CorruptError, AccessError) as error:
            problems.add(f"{volume.name}: LVM", f"its metadata cannot be read: {error}")
            continue
        known[uuid] = place
        if group and _number(group, "seqno") > _number(
            groups.get(group["id"], ("", {}, 0))[1], "seqno"
        ):
            groups[group["id"]] = (name, group, place)
    found: list[LogicalVolumeFacts] = []
    for name, group, place in groups.values():
        found += _Group(name, group, volumes, known, place, problems).volumes()
    return found


def _number(group: Group, name: str) -> int:
    value = group.get(name, 0)
    return value if isinstance(value, int) and value >= 0 else 0


def _group(volume: Source) -> tuple[str, str, Group]:
    """(UUID of a physical volume, name of its group, metadata of the group if it has a copy)."""
    label = parse_label(peek(volume, 0, 8 * SECTOR))
    if label is None:
        raise CorruptError("LVM label", None, "is not in the first four sectors")
    failure: Ext4kitError | None = None
    for offset, _size in label.metadata:
        try:
            content = parse_text(_text(volume, offset))
        except Ext4kitError as error:
            failure = error
            continue
        for name, group in content.items():
            if isinstance(group, dict) and isinstance(group.get("id"), str):
                return label.uuid, name, group
    if failure is not None:
        raise failure
    return label.uuid, "", {}


def _text(volume: Source, offset: int) -> str:
    """The current text of a metadata area; it may wrap from the end of the area to its start."""
    start, length, size = text_place(peek(volume, offset, SECTOR))
    if length > min(_MOST_TEXT, volume.size):
        raise CorruptError("LVM metadata area", offset, f"a text of {length:,} bytes")
    first = min(length, size - start)
    raw = bytes(volume.read(offset + start, first))
    if first < length:
        raw += bytes(volume.read(offset + SECTOR, length - first))
    return raw.decode("utf-8", "backslashreplace")


class _Group:
    """One volume group, from which its logical volumes are built."""

    def __init__(
        self,
        name: str,
        group: Group,
        volumes: list[Source],
        known: dict[str, int],
        holder: int,
        problems: Problems,
    ) -> None:
        self.name = name
        self.problems = problems
        self.holder, self.sources = holder, volumes
        self.extent = _number(group, "extent_size") * SECTOR
        self.logical = group.get("logical_volumes")
        self.physical: dict[str, tuple[Source | None, int]] = {}
        for each, facts in _sections(group.get("physical_volumes", {})):
            place = known.get(str(facts.get("id", "")).replace("-", ""))
            self.physical[each] = (
                None if place is None else volumes[place],
                _number(facts, "pe_start") * SECTOR,
            )
            if place is None:
                problems.add(f"volume group {name}", f"physical volume {each} is missing")

    def volumes(self) -> Iterator[LogicalVolumeFacts]:
        """The visible volumes, and hidden ones that can be read."""
        origins = self._origins()
        for name, facts in _sections(self.logical):
            if "VISIBLE" not in _list(facts, "status") and name not in origins:
                continue
            full = f"{self.name}/{name}"
            what, source = self._made(full, facts)
            if name in origins:
                what = f"snapshot of {origins[name]}; its changes"
            if what == "snapshot":  # only links the store of changes to the origin
                continue
            uuid, size = str(facts.get("id", "")), self._size(facts)
            yield LogicalVolumeFacts(full, uuid, what, self._holder(source), size, source)

    def _holder(self, source: LogicalVolume | None) -> int:
        """Index of the physical volume under which a logical volume is listed."""
        first = source.stored_at(0) if source else None
        return self.holder if first is None else self.sources.index(first[0])

    def _size(self, facts: Group) -> int:
        counts = sum(_number(part, "extent_count") for part in _parts(facts))
        return min(counts * self.extent, _LARGEST)

    def _origins(self) -> dict[str, str]:
        """The origin volume of each store of a snapshot's changes, by the store's name."""
        segments = [part for _, facts in _sections(self.logical) for part in _parts(facts)]
        return {
            str(part["cow_store"]): str(part.get("origin", ""))
            for part in segments
            if part.get("type") == "snapshot" and "cow_store" in part
        }

    def _made(self, full: str, facts: Group) -> tuple[str, LogicalVolume | None]:
        kinds = sorted({str(part.get("type", "")) for part in _parts(facts)})
        try:
            runs = tuple(self._runs(facts))
        except CorruptError as error:
            text = f"{error.reason}; it is not read"
            self.problems.add(f"logical volume {full}", text, Severity.WARNING)
            return "+".join(kinds), None
        width = max((len(run.places) for run in runs), default=1)
        what = "+".join(kinds) if kinds != ["striped"] else "linear"
        return (f"striped ({width})" if width > 1 else what), LogicalVolume(full, runs)

    def _runs(self, facts: Group) -> Iterator[Run]:
        """A volume's runs in order.

        Raises:
            CorruptError: the segment type is not supported, or its values are not valid.
        """
        wanted = 0
        parts = sorted(_parts(facts), key=lambda part: _number(part, "start_extent"))
        for part in parts:
            length = _number(part, "extent_count") * self.extent
            gap = _number(part, "start_extent") * self.extent != wanted
            if gap or not 0 < length < _LARGEST - wanted:
                raise CorruptError("LVM", None, "its segments leave a gap or overlap")
            if part.get("type") not in _PLAIN:
                raise CorruptError("LVM", None, _needs_more(part))
            yield self._striped(part, wanted, length)
            wanted += length
        if not wanted:
            raise CorruptError("LVM", None, "it has no segments")

    def _striped(self, part: Group, start: int, length: int) -> Run:
        stripes = _list(part, "stripes")
        places = []
        for name, extent in zip(stripes[::2], stripes[1::2], strict=False):
            if name not in self.physical or not isinstance(extent, int) or extent < 0:
                raise CorruptError("LVM", None, "its stripes are not described")
            source, first = self.physical[str(name)]
            places.append((str(name), source, first + extent * self.extent))
        if not places:
            raise CorruptError("LVM", None, "its stripes are not described")
        stripe = _number(part, "stripe_size") * SECTOR if len(places) > 1 else length
        if not stripe:
            raise CorruptError("LVM", None, "its stripes have no size")
        return Run(start, length, stripe, tuple(places))


def _needs_more(part: Group) -> str:
    """Text that says why a segment does not map to physical volumes, and gives the remedy."""
    kind, pool = part.get("type"), part.get("thin_pool")
    if kind == "thin":
        return (
            f"it is a thin volume: the metadata of its pool {pool} places its blocks, and that is"
            " not read here; activate it read only on a copy and image the device"
        )
    return f"a segment of type {kind} needs more than a map"


def _sections(value: object) -> list[tuple[str, Group]]:
    if not isinstance(value, dict):
        return []
    return [(name, each) for name, each in value.items() if isinstance(each, dict)]


def _list(group: Group, name: str) -> list[object]:
    value = group.get(name)
    return value if isinstance(value, list) else []


def _parts(facts: Group) -> list[Group]:
    """The segments of a logical volume."""
    return [part for name, part in _sections(facts) if name.startswith("segment")]
