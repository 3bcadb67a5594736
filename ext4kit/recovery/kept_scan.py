"""A scan of unallocated space in files, whole or in parts, which later commands take.

A file is a line of JSON, a `ScanRecord`, and the columns of the results, one after the other, in
little-endian order. It is data: every value in it is checked before it is used, and must be one
that a scan of the same space can find. Reading problems are not in it. The batches that had some
are read again instead, so that image and file system have the same problems as after a scan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, TypedDict, cast

import numpy as np
import numpy.typing as npt

from ext4kit.arrays.intervals import Intervals
from ext4kit.arrays.types import Bools, Int64s
from ext4kit.carving import BlockFeatures
from ext4kit.errors import RequestError
from ext4kit.filetypes.signatures import SIGNATURE_NAMES
from ext4kit.problems import Problems
from ext4kit.recovery.search_sources import ALL_SOURCES, SearchSource
from ext4kit.recovery.unallocated_scan import ScanRange, ScanResults, scan_range
from ext4kit.scan import KeptScan
from ext4kit.unallocated.metadata import EXTENTS, LOG, NO_SEED, MetadataBlocks
from ext4kit.unallocated.space import UnallocatedSpace
from ext4kit.units import Progress, part_of

SUFFIX = ".scan"
_MOST_HEADER = 64 << 20  # bytes of the first line
_WORD = 1 << 32
_Column = npt.NDArray[np.int64 | np.int32 | np.int8 | np.uint16 | np.uint8 | np.bool_]


class ScanRecord(TypedDict):
    """A scan of unallocated space, or a part of one (`scan`), and the first line of its file."""

    record: Literal["scan"]
    version: Annotated[str, "Of the program; a scan of another version is not taken."]
    uuid: Annotated[str, "Of the file system."]
    space: Annotated[str, "SHA-256 of what is scanned: which blocks, of which file system."]
    part: int
    parts: int
    bytes: Annotated[int, "Read by this part."]
    troubled: Annotated[list[int], "Batches that are read again, because reading met problems."]
    rows: Annotated[dict[str, int], "Number of values of each column, in the order of the file."]
    sha256: Annotated[str, "Of all columns."]


def scan_part(
    space: UnallocatedSpace,
    part: int,
    parts: int,
    watched: Sequence[Problems],
    version: str,
    progress: Progress | None = None,
) -> tuple[ScanRecord, list[bytes]]:
    """Scan a part of a space for all sources.

    Args:
        space: the space, from `whole_space`.
        part: from 1.
        parts: number of parts.
        watched: problems of image and file system.
        version: of this program.
        progress: called with (bytes done, total bytes).

    Returns:
        The record and the columns of the file.
    """
    chosen = ScanRange(space, part_of(space.batch_count, part, parts), watched)
    columns = _columns(scan_range(chosen, ALL_SOURCES, progress))
    digest, pieces = hashlib.sha256(), list[bytes]()
    for column in columns.values():
        pieces.append(column.astype(column.dtype.newbyteorder("<")).tobytes())
        digest.update(pieces[-1])
    record: ScanRecord = {
        "record": "scan",
        "version": version,
        "uuid": space.fs.superblock.uuid_text,
        "space": space_digest(space),
        "part": part,
        "parts": parts,
        "bytes": chosen.bytes,
        "troubled": chosen.troubled,
        "rows": {name: len(column) for name, column in columns.items()},
        "sha256": digest.hexdigest(),
    }
    return record, pieces


def space_digest(space: UnallocatedSpace) -> str:
    """What tells a space apart: the file system, and every block that is scanned."""
    superblock = space.fs.superblock
    facts = (superblock.uuid.hex(), superblock.block_size, superblock.blocks_count,
             superblock.inodes_count, superblock.mkfs_time, superblock.mount_time,
             superblock.write_time)  # fmt: skip
    digest = hashlib.sha256(repr(facts).encode())
    runs = space.runs_with_data
    for column in (runs.start, runs.length, space.untagged_positions):
        digest.update(column.astype("<i8").tobytes())
    return digest.hexdigest()


def read_scan(kept: KeptScan, space: UnallocatedSpace, sources: Set[SearchSource]) -> ScanResults:
    """The results of a scan, as a scan of the space for `sources` would give them.

    Args:
        kept: a file, or a folder with files of all parts in it or below it.
        space: the space, from `whole_space`.
        sources: the sources that are wanted.

    Raises:
        RequestError: there is no complete scan of this space, or a value of it is none that a scan
            can find.
    """
    parts = _parts(kept, space)
    for record, _ in parts:
        for number in record["troubled"]:
            space.batch(number)
    results = ScanResults.concat([results for _, results in parts])
    nothing = ScanResults.concat([])
    if SearchSource.BLOCKS not in sources:
        results = replace(nothing, block_features=results.block_features)
    if SearchSource.RUNS not in sources:
        results = replace(results, block_features=nothing.block_features)
    return results


def _parts(kept: KeptScan, space: UnallocatedSpace) -> list[tuple[ScanRecord, ScanResults]]:
    """All parts in their order.

    Raises:
        RequestError: one is missing, is there twice, or cannot be taken.
    """
    known, path = space_digest(space), kept.path
    found: dict[int, tuple[ScanRecord, ScanResults]] = {}
    for file in _files(path):
        record, results = _read_file(file, space, known, kept.version)
        if record["part"] in found:
            raise RequestError(f"{file}: part {record['part']} is there twice")
        found[record["part"]] = record, results
    counts = {record["parts"] for record, _ in found.values()}
    if len(counts) > 1:
        raise RequestError(f"{path}: has parts of several scans")
    count = max(counts)
    if missing := next((part for part in range(1, count + 1) if part not in found), 0):
        text = f"`ext4kit scan IMAGE --part {missing}/{count}` makes it"
        raise RequestError(f"{path}: part {missing} of {count} is missing; {text}")
    return [found[part] for part in sorted(found)]


def _files(path: Path) -> list[Path]:
    try:
        files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    except OSError as error:
        raise RequestError(f"{path}: could not be read: {error.strerror}") from error
    if not files:
        raise RequestError(f"{path}: has no file {SUFFIX}; `ext4kit scan` writes some")
    return files


def _read_file(
    path: Path, space: UnallocatedSpace, known: str, version: str
) -> tuple[ScanRecord, ScanResults]:
    try:
        with path.open("rb") as file:
            record = _record(path, file.readline(_MOST_HEADER))
            if record["version"] != version:
                raise RequestError(f"{path}: version {record['version']} made this scan, and this"
                                   f" is {version}; make it again")  # fmt: skip
            if record["space"] != known:
                raise RequestError(f"{path}: is a scan of another file system, or of another state"
                                   " of this one")  # fmt: skip
            results = _results(file, record, path.stat().st_size)
    except OSError as error:
        raise RequestError(f"{path}: could not be read: {error.strerror}") from error
    except ValueError as error:
        raise RequestError(f"{path}: is damaged, or no scan: {error}") from error
    if not _is_possible(results, record, space):
        raise RequestError(f"{path}: has values that no scan of this file system finds")
    return record, results


def _record(path: Path, line: bytes) -> ScanRecord:
    """The first line of a file.

    Raises:
        ValueError: it is none of a scan.
    """
    try:
        given: dict[str, object] = json.loads(line)
        rows, troubled = given["rows"], given["troubled"]
    except (RecursionError, TypeError, KeyError) as error:
        raise ValueError("its first line is no record") from error
    numbers = [given.get("part"), given.get("parts"), given.get("bytes")]
    if isinstance(rows, dict):
        numbers += rows.values()
    if isinstance(troubled, list):
        numbers += troubled
    texts = [given.get(name) for name in ("version", "uuid", "space", "sha256")]
    if (
        given.get("record") != "scan"
        or not (isinstance(rows, dict) and isinstance(troubled, list))
        or not all(type(each) is int and 0 <= each < 1 << 62 for each in numbers)
        or not all(isinstance(each, str) for each in texts)
    ):
        raise ValueError("its first line is no record of a scan")
    record = cast("ScanRecord", given)
    if not 1 <= record["part"] <= record["parts"]:
        raise ValueError(f"it is part {record['part']} of {record['parts']}")
    return record


def _results(file: BinaryIO, record: ScanRecord, size: int) -> ScanResults:
    """The results of a part.

    Raises:
        ValueError: the columns are damaged.
    """
    wanted = _columns(ScanResults.concat([]))
    if list(wanted) != list(record["rows"]):
        raise ValueError("it has other columns")
    digest, found = hashlib.sha256(), dict[str, _Column]()
    for name, column in wanted.items():
        length = record["rows"][name] * column.dtype.itemsize
        if length > size - file.tell():
            raise ValueError("it ends early")
        data = file.read(length)
        digest.update(data)
        if column.dtype == bool and max(data, default=0) > 1:
            raise ValueError(f"{name} has other values than 0 and 1")
        found[name] = np.frombuffer(data, column.dtype.newbyteorder("<")).astype(column.dtype)
    if file.read(1) or digest.hexdigest() != record["sha256"]:
        raise ValueError("its checksum is wrong")
    return _results_of(found)


# -- results as columns -------------------------------------------------------------------


_TABLES = ("metadata", "data_ends", "block_features")
_POINTERS = "pointers"


def _columns(results: ScanResults) -> dict[str, _Column]:
    """All columns of results, by name."""
    found: dict[str, _Column] = {_POINTERS: results.pointers}
    for table in _TABLES:
        held = getattr(results, table)
        for each in fields(held):
            found[f"{table}.{each.name}"] = getattr(held, each.name)
    return found


def _results_of(columns: dict[str, _Column]) -> ScanResults:
    nothing = ScanResults.concat([])
    tables = {}
    for name in _TABLES:
        table = getattr(nothing, name)
        given = {each.name: columns[f"{name}.{each.name}"] for each in fields(table)}
        tables[name] = replace(table, **given)
    return replace(nothing, pointers=columns[_POINTERS].astype(np.int64), **tables)


# -- checks of what was read --------------------------------------------------------------


def _is_possible(results: ScanResults, record: ScanRecord, space: UnallocatedSpace) -> bool:
    """Whether a part of a scan of this space can have these results."""
    numbers = part_of(space.batch_count, record["part"], record["parts"])
    runs = Intervals.union(space.runs_with_data.start, space.runs_with_data.length)
    positions = space.untagged_positions
    metadata, ends, features = results.metadata, results.data_ends, results.block_features
    size = space.fs.superblock.block_size
    logged = metadata.in_journal
    return (
        all(number in numbers for number in record["troubled"])
        and _are_even([getattr(metadata, each.name) for each in fields(metadata)])
        and _are_even([ends.position, ends.data_end, ends.of_group])
        and _are_in(results.pointers, runs)
        and _are_in(metadata.block[~logged], runs)
        and bool(np.isin(metadata.block[logged], positions).all())
        and _are_plausible(metadata, space)
        and bool(np.isin(ends.position, positions).all())
        and _are_between(ends.data_end, 0, size)
        and _are_features(features, runs, size)
    )


def _are_even(columns: Sequence[_Column]) -> bool:
    return len({len(column) for column in columns}) == 1


def _are_in(blocks: Int64s, runs: Intervals) -> bool:
    return bool(runs.contains(blocks, np.ones(len(blocks), np.int64)).all())


def _are_between(column: _Column, least: int, most: int) -> bool:
    fits: Bools = (column >= least) & (column <= most)
    return bool(fits.all())


def _are_plausible(metadata: MetadataBlocks, space: UnallocatedSpace) -> bool:
    superblock = space.fs.superblock
    return (
        _are_between(metadata.kind, EXTENTS, LOG)
        and _are_between(metadata.seed, NO_SEED, _WORD - 1)
        and _are_between(metadata.stated_number, 0, max(_WORD, superblock.blocks_count) - 1)
        and _are_between(metadata.entries, 0, superblock.block_size)
    )


def _are_features(features: BlockFeatures, runs: Intervals, size: int) -> bool:
    start, length, block = features.start, features.length, features.block
    if not _are_even([start, length]):
        return False
    if not _are_even([block, features.tail, features.kind, features.text, features.dense]):
        return False
    if not (_are_between(length, 1, 1 << 62) and runs.contains(start, length).all()):
        return False
    own = Intervals(start, length)
    return bool(
        (start[1:] > own.end[:-1]).all()
        and (np.diff(block) > 0).all()
        and _are_in(block, own)
        and _are_between(features.tail, 0, size - 1)
        and _are_between(features.kind, 0, len(SIGNATURE_NAMES) - 1)
    )


def scan_pieces(record: ScanRecord, columns: Sequence[bytes]) -> Iterator[bytes]:
    """The bytes of a file."""
    yield json.dumps(record).encode() + b"\n"
    yield from columns
