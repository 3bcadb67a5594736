"""The page of several volumes: a row for each, signs across hosts, all on one axis of time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ext4kit import __version__
from ext4kit.report.pages import html_pieces
from ext4kit.report.safe import printable_text

_STYLES = ("page.css", "case.css")
_BINS = 120  # of the axis of time
_MOST_SIGHTINGS = 500
MOST_SHARED = 200  # contents that several images have
_STRONG = "strong"
_WHOLE = ("intact", "consistent")


@dataclass(frozen=True)
class VolumeEntry:
    """What the page tells of a volume.

    Attributes:
        image: name of the image.
        volume: its number; 0 for an image that could not be opened.
        host: name in /etc/hostname; "" for none.
        page: link to its own page; "" for none, if there is no report on it.
        signs: the records of its signs.
        sightings: the records of their sightings.
        deleted, whole: deleted files, and those whose content is whole.
        since, until: first and last commit in the journal, ns; None for none.
        activity: the histogram of its events; None for none.
        problems: what could not be read or done.
        left_out: what was not searched.
        note: why there is nothing to tell; "" otherwise.
    """

    image: str
    volume: int = 0
    host: str = ""
    page: str = ""
    signs: tuple[Mapping[str, Any], ...] = ()
    sightings: tuple[Mapping[str, Any], ...] = ()
    deleted: int = 0
    whole: int = 0
    since: int | None = None
    until: int | None = None
    activity: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    note: str = ""

    @property
    def title(self) -> str:
        """Host or image, for tables of several."""
        return self.host or printable_text(self.image)

    def count(self, weight: str) -> int:
        """Number of signs of a weight."""
        return sum(sign["weight"] == weight for sign in self.signs)


def entry_of(
    records: Iterable[Mapping[str, Any]], image: str, volume: int, host: str = "", page: str = "",
    problems: Sequence[str] = (),
) -> VolumeEntry:  # fmt: skip
    """The entry of a volume from the records of `report --json`."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(str(record["record"]), []).append(record)

    def only(kind: str) -> Mapping[str, Any]:
        return next(iter(by_kind.get(kind, [])), {})

    grades = only("deletions").get("grades", {})
    log = only("log")
    found = [*problems]
    found += [f"{one['where']}: {one['what']}" for one in by_kind.get("problem", [])
              if one.get("severity") == "error"]  # fmt: skip
    return VolumeEntry(
        image, volume, host, page, tuple(by_kind.get("sign", [])),
        tuple(by_kind.get("sighting", [])), only("deletions").get("total", 0),
        sum(grades.get(grade, 0) for grade in _WHOLE), log.get("since_ns"), log.get("until_ns"),
        only("activity").get("histogram"), tuple(found), tuple(only("report").get("left_out", ())),
    )  # fmt: skip


def read_entry(
    path: Path, image: str, volume: int, host: str, page: str, problems: Sequence[str]
) -> VolumeEntry:
    """The entry of a volume from the file with the records of `report --json`."""
    with path.open(encoding="utf-8") as lines:
        wanted = (json.loads(line) for line in lines if not line.startswith(_UNUSED))
        return entry_of(wanted, image, volume, host, page, problems)


_UNUSED = tuple(f'{{"record": "{kind}"' for kind in ("event", "deleted", "disk map"))


@dataclass(frozen=True)
class SharedSign:
    """A sign, and the volumes that show it.

    Attributes:
        code, weight, title: of its rule.
        entries: the volumes, with the number of sightings in each.
    """

    code: str
    weight: str
    title: str
    entries: list[tuple[VolumeEntry, int]] = field(default_factory=list)


def case_page(
    heading: str,
    entries: Sequence[VolumeEntry],
    shared: Sequence[Mapping[str, Any]] | None = None,
    facts: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """The page, piece by piece; it needs no other file and links to the page of each volume.

    Args:
        heading: name of the case.
        entries: the volumes.
        shared: contents that several images have: `sha256`, `size`, `places`; None if that was not
            asked.
        facts: name and number of the case, operator.
    """
    failed = [entry for entry in entries if entry.problems]
    read = [entry for entry in entries if entry.page]
    signs = _shared_signs(entries)
    seen = sorted(
        ((sighting["time_ns"], entry, sighting) for entry in entries for sighting in entry.sightings
         if sighting.get("time_ns") is not None), key=lambda one: one[0],
    )  # fmt: skip
    strong, look = (sum(entry.count(each) for entry in entries) for each in (_STRONG, "look"))
    yield from html_pieces(
        "case.html",
        _STYLES,
        heading=heading,
        entries=entries,
        read=len(read),
        failed=failed,
        signs=signs,
        seen=seen[:_MOST_SIGHTINGS],
        seen_count=len(seen),
        titles={sign.code: sign.title for sign in signs},
        axis=_axis(entries),
        shared=shared,
        facts={name: value for name, value in (facts or {}).items() if value},
        version=__version__,
        link=quote,
        tiles=[
            (f"{len(read):,}", "volumes", ""),
            (f"{strong:,}", "strong signs", "bad" * bool(strong)),
            (f"{look:,}", "signs to look at", "warn" * bool(look)),
            (f"{sum(entry.deleted for entry in entries):,}", "deleted files", ""),
            (f"{len(failed):,}", "with something not read", "warn" * bool(failed)),
        ],
    )


def _shared_signs(entries: Sequence[VolumeEntry]) -> list[SharedSign]:
    """The signs, strong ones first, then those of most volumes."""
    found: dict[str, SharedSign] = {}
    for entry in entries:
        for sign in entry.signs:
            code = sign["code"]
            one = found.setdefault(code, SharedSign(code, sign["weight"], sign["title"]))
            one.entries.append((entry, sign["count"]))
    return sorted(found.values(), key=lambda one: (one.weight != _STRONG, -len(one.entries)))


@dataclass(frozen=True)
class HostStrip:
    """The events of a volume along the axis of time.

    Attributes:
        entry: the volume.
        bars: (bin, share of the fullest bin of all volumes, 0 to 1), empty bins left out.
        marks: bins with sightings of signs.
    """

    entry: VolumeEntry
    bars: list[tuple[int, float]]
    marks: list[int]


@dataclass(frozen=True)
class TimeAxis:
    """One axis of time for all volumes.

    Attributes:
        start, end: ns.
        bins: number of bins.
        strips: one for each volume with events or sightings.
    """

    start: int
    end: int
    bins: int
    strips: list[HostStrip]


def _axis(entries: Sequence[VolumeEntry]) -> TimeAxis | None:
    """The events of all volumes within the time that the journals cover; None without events."""
    begins = [entry.since for entry in entries if entry.since is not None]
    ends = [entry.until for entry in entries if entry.until is not None]
    if not begins or not ends or min(begins) >= max(ends):
        return None
    start, end = min(begins), max(ends)
    width = (end - start) / _BINS
    counts = {id(entry): _spread(entry, start, width) for entry in entries}
    most = max((max(one) for one in counts.values()), default=0) or 1
    strips = [
        HostStrip(
            entry,
            [(at, count / most) for at, count in enumerate(counts[id(entry)]) if count],
            sorted({min(int((one["time_ns"] - start) / width), _BINS - 1)
                    for one in entry.sightings
                    if one.get("time_ns") is not None and start <= one["time_ns"] <= end}),
        )
        for entry in entries if entry.since is not None
    ]  # fmt: skip
    return TimeAxis(start, end, _BINS, strips)


def _spread(entry: VolumeEntry, start: int, width: float) -> list[float]:
    """The events of a volume in the bins of the axis; each is at the middle of its own bin."""
    found = [0.0] * _BINS
    histogram = entry.activity
    if not histogram:
        return found
    for counts in histogram["series"].values():
        for at, count in enumerate(counts):
            middle = histogram["start_ns"] + (at + 0.5) * histogram["width_ns"]
            bin_at = int((middle - start) / width)
            found[min(max(bin_at, 0), _BINS - 1)] += count
    return found
