"""The evidence behind a record of a deleted file, as numbered sentences that can be checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal, Self, TypedDict, cast

import numpy as np

from ext4kit import fields
from ext4kit.errors import AccessError, RequestError, quoted
from ext4kit.evidence import Volume
from ext4kit.filesystem import FileSystem
from ext4kit.history.journal_gaps import find_journal_gaps
from ext4kit.history.places import Ground
from ext4kit.journal import BlockHistory, Log
from ext4kit.output import hash_zeros
from ext4kit.parsers.group import GroupFlags
from ext4kit.parsers.inode import inode_checksums_ok, parse_inodes
from ext4kit.recovery.evidence_places import EntryPlace, EvidencePlaces, InodePlace, Place
from ext4kit.recovery.manifest import RecoveredFile, Trust, manifest_record
from ext4kit.recovery.model import DeletedFile, Grade
from ext4kit.report.deleted import GRADE_MEANINGS
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import fold_row
from ext4kit.report.times import exact_time
from ext4kit.zones import UTC, times_in

_MOST_HASHED = 16 << 30  # bytes, including holes
MOST_RUNS = 32  # listed runs; further ones are only counted
GROUNDS = {
    Ground.JOURNAL: "The journal records the path of the directory at the time of the deletion.",
    Ground.PROVEN: "The times of the directories in the path exclude a move since the deletion.",
    Ground.PRESENT_PLACE: "The path is the present path of the directory, or the last one found of"
    " a deleted directory; a move of a directory is not excluded.",
}


class Statement(TypedDict):
    """One sentence of an explanation."""

    number: int
    text: str


class ExplanationRecord(TypedDict):
    """The evidence for a deleted file (`explain`)."""

    record: Literal["explanation"]
    path: fields.Path | None
    inode: fields.Inode | None
    generation: fields.Generation | None
    grade: Trust
    statements: Annotated[list[Statement], "Sentences in order: number, text."]


class Explanation:
    """Sentences that explain one record of a manifest from the locations in its `evidence`.

    Args:
        volume: the volume of the file system, which is read with its journal replayed.
    """

    def __init__(self, fs: FileSystem, volume: Volume, record: RecoveredFile) -> None:
        self.fs, self.source, self.record = fs, volume.source, record
        self.frame = volume.frame
        self.evidence = record.get("evidence") or cast("EvidencePlaces", {})  # read with `get`

    @classmethod
    def of(cls, fs: FileSystem, volume: Volume, file: DeletedFile) -> Self:
        """The explanation of a deleted file; reads its content for the hash."""
        return cls(fs, volume, {**manifest_record(file, None), "sha256": _hash_of(file)})

    def sentences(self) -> list[str]:
        """All sentences, in order.

        Raises:
            RequestError: the record has no evidence.
        """
        try:
            return self._sentences()
        except (LookupError, TypeError, ValueError) as error:
            text = "this record has no evidence to explain; give the manifest of a `recover`"
            raise RequestError(text) from error

    def _sentences(self) -> list[str]:
        parts = [self._identity(), self._inode(), self._freed(), self._map(), self._digest()]
        parts += [self._runs(), self._lost(), self._name(), self._searched(), self._grade()]
        return [printable_text(text) for part in parts for text in part]

    def as_record(self) -> ExplanationRecord:
        """The sentences as a record, with times in UTC."""
        with times_in(UTC):
            sentences = self.sentences()
        return {
            "record": "explanation",
            "path": self.record["path"],
            "inode": self.record["inode"],
            "generation": self.record["generation"],
            "grade": self.record["grade"],
            "statements": [
                {"number": number, "text": text} for number, text in enumerate(sentences, 1)
            ],
        }

    @cached_property
    def _log(self) -> Log | None:
        return Log.open(self.fs)

    @cached_property
    def _commits(self) -> dict[int, int | None]:
        """Commit time (ns) by transaction."""
        transactions = self._log.transactions if self._log else ()
        return {int(one.id): one.commit_time_ns for one in transactions}

    def _transaction(self, tid: int) -> str:
        time = self._commits.get(tid)
        return f"transaction {tid}" + ("" if time is None else f" (committed {exact_time(time)})")

    def _location(self, at: Place | EntryPlace, what: str) -> str:
        """`byte 1,234 of the image (block 5, byte 6 in it): the journal copy of ...`."""
        if at["offset"] is None:
            return f"a location outside this image ({what} {at['block']:,})"
        size, start = self.fs.superblock.block_size, self.evidence["file_system_at"]
        block, byte = divmod(at["offset"] - start, size)
        location = f"byte {at['offset']:,} of {self.frame} (block {block:,}, byte {byte:,} in it)"
        if at["transaction"] is None:
            return f"{location}: {what} {at['block']:,} on disk"
        written = self._transaction(at["transaction"])
        return f"{location}: the journal copy of {what} {at['block']:,} from {written}"

    def _checksum_fits(self, at: InodePlace) -> bool:
        """Whether the inode at that location now has a valid checksum."""
        superblock = self.fs.superblock
        try:
            start = at["offset"] - self.evidence["file_system_at"]
            raw = self.source.read(start, superblock.inode_size)
        except AccessError:
            return False
        rows = np.frombuffer(raw, np.uint8)[None, :].copy()
        table = parse_inodes(rows, np.array([self.record["inode"]]), superblock)
        is_valid = bool(inode_checksums_ok(table, superblock)[0])
        return is_valid and int(table.checksum[0]) == at["checksum"]

    def _identity(self) -> Iterator[str]:
        record = self.record
        called = quoted(record["path"] or record["name"] or "A file without a known name")
        size = "of unknown size" if record["size"] is None else f"of {record['size']:,} bytes"
        if record["inode"] is None:
            yield f"Content {size} was found at block {record['first_block']:,}, without an inode."
            return
        yield (
            f"{called} was inode {record['inode']}, generation {record['generation']}: a"
            f" {record['type']} {size}, uid {record['uid']}, gid {record['gid']}."
        )

    def _inode(self) -> Iterator[str]:
        at = self.evidence.get("inode_at")
        if at is None:
            if self.record["inode"] is not None:
                yield f"The inode was read from another source: {self.record['sources']['inode']}."
            return
        yield f"The inode was read at {self._location(at, 'inode table block')}."
        if at["checksum"] is None:
            yield "The file system stores no inode checksums."
        else:
            match = "it matches" if self._checksum_fits(at) else "it does not match"
            yield (
                f"The checksum 0x{at['checksum']:08x} covers the inode number, the generation and"
                f" all {self.fs.superblock.inode_size} bytes of the inode; {match}."
            )
        older, newer = self.evidence["copies"]["older"], self.evidence["copies"]["newer"]
        yield (
            f"The journal has {older:,} older and {newer:,} newer copies of that inode table block."
        )

    def _freed(self) -> Iterator[str]:
        record, at = self.record, self.evidence.get("freed_at")
        before, after = record["deleted_between"]
        if before:
            shown = self._transaction(before["transaction"])
            yield f"The last inode state that shows the file linked is from {shown}."
        if after:
            yield f"The next inode state is from {self._transaction(after['transaction'])}."
        if at is not None:
            when = f"; deletion time {exact_time(record['dtime'])}" if record["dtime"] else ""
            location = self._location(at, "inode table block")
            yield f"The first freed state was read at {location}{when}."
        elif record["inode"] is not None:
            yield "No state shows the inode freed."

    def _map(self) -> Iterator[str]:
        nodes, source = self.evidence.get("map_at", []), self.record["sources"].get("map")
        if self.record["inode"] is None:
            return
        if source is None:
            yield "No source gives the blocks of the file."
        elif source != self.record["sources"]["inode"]:
            yield f"The block map was rebuilt: {source}."
        elif not nodes:
            yield "The inode itself holds the block map or the content."
        for node in nodes[:MOST_RUNS]:
            yield f"A block of the map was read at {self._location(node, 'block')}."
        if len(nodes) > MOST_RUNS:
            yield f"The record lists {len(nodes) - MOST_RUNS:,} further blocks of the map."

    def _digest(self) -> Iterator[str]:
        if (listed := self.record["sources"].get("digest")) is not None:
            yield f"A live list names the content by its digest: {listed}."

    def _runs(self) -> Iterator[str]:
        size, runs = self.fs.superblock.block_size, self.record["extents"]
        start = self.evidence.get("file_system_at", 0)
        for logical, block, count in runs[:MOST_RUNS]:
            last = f" to {block + count - 1:,}" if count > 1 else ""
            where = f"block{'s' * (count > 1)} {block:,}{last}"
            yield (
                f"The content from file block {logical:,} on is in {where}, byte"
                f" {start + block * size:,} of {self.frame}; {self._bitmap(block, count)}."
            )
        if len(runs) > MOST_RUNS:
            yield f"The record lists {len(runs) - MOST_RUNS:,} further runs of blocks."
        for copied in self.evidence.get("content_at", [])[:MOST_RUNS]:
            yield f"A block of the content was read at {self._location(copied, 'block')}."
        owner = self.evidence.get("last_owner")
        if owner and runs:
            seen = f"from transaction {owner['first']} to transaction {owner['last']}"
            seen = "on disk" if owner["first"] is None else seen
            yield f"The last recorded owner of these blocks is inode {owner['inode']}, {seen}."
        if self.record["sha256"]:
            yield f"The SHA-256 of the recovered bytes is {self.record['sha256']}."

    def _bitmap(self, block: int, count: int) -> str:
        """Allocation of a run in the bitmaps, and the location of the bits."""
        superblock, groups = self.fs.superblock, self.fs.groups
        used = int(self.fs.bitmaps.blocks_in_use(np.arange(block, block + count)).sum())
        state = f"{used:,} of {count:,} allocated now" if used else "unallocated now"
        group, bit = divmod(block - superblock.first_data_block, superblock.blocks_per_group)
        if not 0 <= group < len(groups):
            return f"{state}, outside the file system"
        if groups.flags[group] & GroupFlags.BLOCK_UNINIT and not used:
            return f"{state}: the block bitmap of group {group} is not initialised"
        byte, bit = divmod(bit // superblock.cluster_ratio, 8)
        home = int(groups.block_bitmap[group])
        return f"{state}: block bitmap {home:,}, from byte {byte:,}, bit {bit} on"

    def _lost(self) -> Iterator[str]:
        for piece in self.record["lost"][:MOST_RUNS]:
            last = piece["offset"] + piece["length"] - 1
            yield f"Bytes {piece['offset']:,} to {last:,} are lost: {piece['owner']}."

    def _name(self) -> Iterator[str]:
        at = self.evidence.get("name_at")
        if at is not None:
            yield f"The directory entry of the file was read at {self._location(at, 'block')}."
        elif self.record["name"] is not None:
            yield f"The name was read from another source: {self.record['sources'].get('name')}."
        elif self.record["inode"] is not None:
            yield "No directory entry of the file was found."
        ground = self.record.get("path_ground")
        if ground is not None:
            yield GROUNDS[ground]
        yield from self._wiped()

    def _wiped(self) -> Iterator[str]:
        wiped = self.record.get("wiped")
        if wiped is None:
            return
        names = [quoted(one["name"]) for one in wiped["names"]]
        if names:
            given = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            yield (
                f"Before the deletion the file got {count_text(len(names), 'name')}, {given}, as"
                f" {wiped['tool']} gives; the name before them is"
                f" {'that of this record' if wiped['true_name'] else 'unknown'}."
            )
        else:
            how = "was overwritten" if wiped["certain"] else "may have been overwritten"
            yield f"Its sizes show that it {how}, as by {wiped['tool']}."
        if wiped["size"] is not None:
            yield f"It had {wiped['size']:,} bytes before that."

    def _searched(self) -> Iterator[str]:
        log = self._log
        if log is None or not len(log.transactions):
            yield "No journal records later writes."
            return
        every, copies = log.transactions, len(BlockHistory(log).tag_rows)
        tids = f"{every.order[0] % (1 << 32)} to {every.order[-1] % (1 << 32)}"
        yield (
            f"All {len(every):,} transactions of the journal ({tids}) were searched. They hold"
            f" {copies:,} block copies, with those of all inodes, extent blocks and directories."
        )
        lost = int(find_journal_gaps(log).transactions_lost.sum())
        if lost:
            yield f"Transactions are missing in {lost:,} gap{'s' * (lost != 1)} of the journal."
        if self.record["extents"] and not self.record["lost"]:
            yield "They record no later owner of the blocks."

    def _grade(self) -> Iterator[str]:
        grade = Grade(self.record["grade"])
        yield f"Grade {grade}: {GRADE_MEANINGS[grade]}."
        for reason in self.record["problems"]:
            yield f"Reason: {reason.rstrip('.')}."


def _hash_of(file: DeletedFile) -> str | None:
    """SHA-256 of the remaining bytes; None if there are none or the size exceeds `_MOST_HASHED`."""
    content, digest = file.content(), sha256()
    if content is None or content.size > _MOST_HASHED or file.grade is Grade.OVERWRITTEN:
        return None
    for chunk in content.chunks():
        if chunk.data is None:
            hash_zeros(digest, chunk.length)
        else:
            digest.update(chunk.data)
    return digest.hexdigest()


def explanation_lines(sentences: list[str]) -> list[str]:
    """The sentences as numbered lines."""
    width = len(str(len(sentences)))
    return [fold_row(f"{number:>{width}}. ", text) for number, text in enumerate(sentences, 1)]
