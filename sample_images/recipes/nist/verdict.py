"""The judgement on one case: what ext4kit says of the image, held against its truth."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import ext4kit
from ext4kit.filesystem import FileSystem
from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from ext4kit.report.listing import entry_records, list_names
from sample_images.recipes.nist.case import Made
from sample_images.recipes.nist.objects import CaseTruth, ItemTruth
from sample_images.recipes.nist.placing import BLOCK, PARTS
from sample_images.recipes.nist.tagged import PART, content, identify, part
from sample_images.recipes.truth import FileTruth, load, path_of

Life = tuple[int, int]  # inode, generation
LISTED = ("type", "inode", "mode", "uid", "gid", "size", "atime", "mtime")
GRADES = ("intact", "consistent", "partial", "overwritten")


class Part(StrEnum):
    """Whose 512 bytes a record has at a place where its file had others."""

    OWN = "own"  # the file's, at another place of it
    ZEROS = "zeros"
    DELETED = "another deleted file"
    LIVE = "a live file"
    OTHER = "neither"  # metadata, or bytes of several

    @property
    def is_foreign(self) -> bool:
        """Whether they come from a block of someone else."""
        return self in (Part.DELETED, Part.LIVE, Part.OTHER)


@dataclass(slots=True)
class Verdict:
    """What came of one case on one file system.

    Attributes:
        deleted: objects; exact: of these in the output under their path, with their
            type, and with their bytes, their target or their device.
        attributes: of the exact ones with the right times, mode and owners.
        files: deleted regular files with content; whole: of these with all their blocks left;
            contents: with their bytes in the output, under whatever name; nameless: of these not
            under their path.
        grades: of the objects, "" where one has no record.
        carved: contents that are graded so; fragments: of these marked as such.
        parts: of 512 bytes, those of the files that are left in free blocks; back: of these in
            the output at their place in their file, or in a content of their file.
        live: live objects; listed: of these with the right type, size, times, owners.
        wrong: what may never be: intact with other bytes or under another path, intact or
            consistent with other attributes, of a live file.
        outside: by grade, records with undeclared bytes of a live file or of metadata;
        mixed: those with bytes of another deleted file and none of the former.
        declared: how many records of either kind declare it, by "outside" and "mixed".
    """

    deleted: int = 0
    exact: int = 0
    attributes: int = 0
    files: int = 0
    whole: int = 0
    contents: int = 0
    nameless: int = 0
    grades: Counter[str] = field(default_factory=Counter)
    carved: int = 0
    fragments: int = 0
    parts: int = 0
    back: int = 0
    live: int = 0
    listed: int = 0
    wrong: list[str] = field(default_factory=list)
    outside: Counter[str] = field(default_factory=Counter)
    mixed: Counter[str] = field(default_factory=Counter)
    declared: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def possible(self) -> int:
        """How many of the deleted objects have all of their bytes left."""
        return self.deleted - self.files + self.whole

    @property
    def foreign(self) -> Counter[str]:
        """By grade, records with foreign bytes that are not declared."""
        return self.outside + self.mixed

    @property
    def foreign_in_whole(self) -> int:
        """How many of these are intact or consistent."""
        return self.foreign["intact"] + self.foreign["consistent"]

    @property
    def is_bad(self) -> bool:
        """Whether a record or an entry is wrong."""
        return bool(self.wrong or self.foreign_in_whole or self.listed != self.live)


@dataclass(frozen=True, slots=True)
class _Found:
    """A record and its bytes."""

    file: DeletedFile
    data: bytes

    @property
    def life(self) -> Life | None:
        number, generation = self.file.number, self.file.generation
        return None if number is None or generation is None else (number, generation)

    @property
    def path(self) -> bytes:
        return (self.file.path or b"").lstrip(b"/")

    def is_lost(self, offset: int) -> bool:
        """Whether it declares a byte lost."""
        return any(one.offset <= offset < one.offset + one.length for one in self.file.lost)


def judge(made: Made) -> Verdict:
    """Ask for everything deleted and everything live, and compare."""
    truth = CaseTruth.load(made.truth)
    fs = ext4kit.open(made.built.image).volume().filesystem()
    found = [_Found(file, _bytes(file)) for file in find_deleted(fs, sources=ALL_SOURCES)]
    bench = _Bench(truth, found, {(one.inode, one.generation): one
                                   for one in load(made.built.truth).files})  # fmt: skip
    bench.judge_objects()
    bench.judge_records()
    bench.judge_parts(made)
    _judge_listing(bench.verdict, fs, truth)
    return bench.verdict


class _Bench:
    """One judgement: truth on one side, records on the other."""

    def __init__(
        self, truth: CaseTruth, found: list[_Found], file_truths: dict[Life, FileTruth]
    ) -> None:
        self.truth = truth
        self.found = found
        self.file_truths = file_truths
        self.verdict = Verdict()
        self.by_life: defaultdict[Life, list[_Found]] = defaultdict(list)
        for one in found:
            if one.life is not None:
                self.by_life[one.life].append(one)
        self.digests = {_digest(one.data) for one in found}
        self.lives = {_life(one): one for one in truth.deleted}
        self.targets = {one.target for one in truth.deleted if one.target is not None}
        self.tags = {one.tag: Part.DELETED for one in truth.deleted if one.tag}
        self.tags.update((one.tag, Part.LIVE) for one in truth.live if one.tag)

    def judge_objects(self) -> None:
        """What came of each deleted object."""
        verdict = self.verdict
        for item in self.truth.deleted:
            records = self.by_life[_life(item)]
            exact = [one for one in records if one.path in item.paths and _is_exact(one, item)]
            grades = [str(one.file.grade) for one in exact or records]
            verdict.deleted += 1
            verdict.exact += bool(exact)
            verdict.grades[grades[0] if grades else ""] += 1
            if exact:
                self._judge_attributes(exact[0], item)
            else:
                verdict.findings.append(f"NOT EXACT {item.paths} {grades}")
            if item.kind == "file" and item.size:
                self._judge_content(item, bool(exact))

    def _judge_attributes(self, one: _Found, item: ItemTruth) -> None:
        """Of a freed inode alone the kernel keeps neither the times nor the whole owner."""
        if _has_attributes(one.file, item):
            self.verdict.attributes += 1
        else:
            is_whole = one.file.grade.is_whole
            findings = self.verdict.wrong if is_whole else self.verdict.findings
            findings.append(f"ATTRIBUTES {item} {_shown(one)} {one.file.inode}")

    def _judge_content(self, item: ItemTruth, is_exact: bool) -> None:
        of_file = self.file_truths.get(_life(item))
        is_there = _digest(content(item.tag, item.size)) in self.digests
        self.verdict.files += 1
        self.verdict.whole += of_file is not None and of_file.holds
        self.verdict.contents += is_there
        self.verdict.nameless += is_there and not is_exact

    def judge_records(self) -> None:
        """Whether a record is wrong."""
        living = {_life(one) for one in self.truth.live}
        for one in self.found:
            item = None if one.life is None else self.lives.get(one.life)
            if one.file.grade == "intact" and (
                item is None or one.path not in item.paths or not _is_exact(one, item)
            ):
                self.verdict.wrong.append(f"INTACT {_shown(one)}")
            if one.life in living and one.life not in self.lives:
                self.verdict.wrong.append(f"LIVE {_shown(one)}")
            self.verdict.carved += one.file.grade == "carved"
            self.verdict.fragments += one.file.fragment
            self._judge_blocks(one, item)

    def _judge_blocks(self, one: _Found, item: ItemTruth | None) -> None:
        if one.data in self.targets:  # the block of a long link, taken for a text
            return
        tag = _owner(one.data, self.tags) if item is None else item.tag
        strange = Counter(
            kind
            for at, kind in self._strange(one.data, tag, placed=item is not None)
            if not one.is_lost(at)
        )
        foreign = {str(kind): count for kind, count in strange.items() if kind.is_foreign}
        if not foreign:
            return
        is_mixed = set(foreign) == {Part.DELETED}
        if one.file.problems and not one.file.grade.is_whole:
            self.verdict.declared["mixed" if is_mixed else "outside"] += 1
        else:
            records = self.verdict.mixed if is_mixed else self.verdict.outside
            records[str(one.file.grade)] += 1
        self.verdict.findings.append(f"FOREIGN {foreign} {_shown(one)}")

    def _strange(self, data: bytes, tag: str, placed: bool) -> Iterator[tuple[int, Part]]:
        """(offset, whose) of each part that is not the file's own at its place."""
        for at in range(0, len(data), PART):
            here = data[at : at + PART]
            if placed and part(tag, at // PART).startswith(here):
                continue
            known = identify(here)
            if known is not None and known[0] == tag:
                if placed:
                    yield at, Part.OWN
            elif not here.strip(b"\0"):
                yield at, Part.ZEROS
            else:
                yield at, Part.OTHER if known is None else self.tags.get(known[0], Part.OTHER)

    def judge_parts(self, made: Made) -> None:
        """How much of what the free blocks still hold of the files came back."""
        there = self._parts_there()
        with made.built.image.open("rb") as image:
            for item in self.truth.deleted:
                for number, offset in _places(item):
                    image.seek(offset)
                    length = min(PART, item.size - number * PART)
                    if image.read(length) == part(item.tag, number)[:length]:
                        self.verdict.parts += 1
                        self.verdict.back += (item.tag, number) in there

    def _parts_there(self) -> set[tuple[str, int]]:
        """(tag, number) of each part that a record of its own file has at its place."""
        there: set[tuple[str, int]] = set()
        for one in self.found:
            item = None if one.life is None else self.lives.get(one.life)
            owner = _owner(one.data, self.tags) if item is None else item.tag
            for at in range(0, len(one.data), PART):
                known = identify(one.data[at : at + PART])
                if known and known[0] == owner and (item is None or known[1] == at // PART):
                    there.add(known)
        return there


def _judge_listing(verdict: Verdict, fs: FileSystem, truth: CaseTruth) -> None:
    """Hold the list of everything live against the truth."""
    (names,) = list_names(fs, b"/", recursive=True, hidden=False)
    entries = map(dict[str, object], entry_records(fs, names))
    records = {path_of(record): record for record in entries}
    for item in truth.live:
        for path in item.paths:
            record = records.get(path, {})
            wanted = (item.kind, item.inode, item.mode, item.uid, item.gid, item.size,
                      item.times["atime"], item.times["mtime"])  # fmt: skip
            verdict.live += 1
            if tuple(record.get(key) for key in LISTED) == wanted:
                verdict.listed += 1
            else:
                verdict.findings.append(f"LISTED {path!r} {record} not {wanted}")


def _is_exact(one: _Found, item: ItemTruth) -> bool:
    """Whether a record has the type of an object, and its bytes, target or device."""
    if one.file.kind != item.kind:
        return False
    if item.kind == "symlink":
        return one.file.link_target == item.target
    if item.device is not None:
        return one.file.device == item.device
    return item.kind != "file" or one.data == content(item.tag, item.size)


def _has_attributes(file: DeletedFile, item: ItemTruth) -> bool:
    times = {"atime": file.atime, "mtime": file.mtime, "crtime": file.crtime}
    owners = (file.mode, file.uid, file.gid) == (item.mode, item.uid, item.gid)
    return owners and times == item.times


def _owner(data: bytes, tags: dict[str, Part]) -> str:
    """The deleted file of which most parts are, or "" where there is none."""
    parts = (identify(data[at : at + PART]) for at in range(0, len(data), PART))
    counts = Counter(known[0] for known in parts if known and tags.get(known[0]) == Part.DELETED)
    return counts.most_common(1)[0][0] if counts else ""


def _places(item: ItemTruth) -> Iterator[tuple[int, int]]:
    """(number of a part, its byte on the image) for all parts of a file."""
    for logical, block, count, _ in item.blocks:
        first = logical * PARTS
        for at in range(count * PARTS):
            if (first + at) * PART < item.size:
                yield first + at, block * BLOCK + at * PART


def _bytes(file: DeletedFile) -> bytes:
    content_left = file.content()
    chunks = content_left.chunks() if content_left is not None else ()
    return b"".join(bytes(chunk.length) if chunk.data is None else chunk.data for chunk in chunks)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _life(item: ItemTruth) -> Life:
    return item.inode, item.generation


def _shown(one: _Found) -> str:
    file = one.file
    return (
        f"{file.grade} <{file.number}> {file.path!r} {file.size} bytes, block {file.first_block}, "
        f"fragment {file.fragment}, lost {file.lost}, {file.sources}, {file.problems}"
    )
