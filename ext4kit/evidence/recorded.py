"""Hashes that an acquisition recorded in files beside the image, and their verification.

The forms are those of coreutils, of their option --tag, of FTK Imager, Guymager, dc3dd, dcfldd,
ewfacquire and ewfverify. The files may come from anyone. Therefore only a limited part of each is
read, and a hash counts only in a line that has the form of one of these programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from ext4kit.evidence.beside import is_within
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.hashing import Hashes, hash_files
from ext4kit.fields import HashName
from ext4kit.problems import Severity
from ext4kit.units import Progress

EXPECT = "--expect"
HASH_NAMES: dict[HashName, str] = {"md5": "MD5", "sha1": "SHA-1", "sha256": "SHA-256"}
_LENGTHS: dict[int, HashName] = {32: "md5", 40: "sha1", 64: "sha256"}  # hexadecimal digits
_SUFFIXES = (".md5", ".sha1", ".sha256", ".txt", ".info", ".log", ".hash")
_MOST = 1 << 20  # most bytes read of a file
_SHORTEST = 16  # characters of the shortest line that can contain a hash

_BARE = re.compile(r"([0-9a-f]+)(?:[ \t]+\*?-)?", re.I)  # the whole file; - is standard input
_SUM = re.compile(r"(\\?)([0-9a-f]+)[ \t]+\*?(.+)", re.I)
_ESCAPE, _ESCAPED = re.compile(r"\\(.)"), {"n": "\n", "r": "\r"}
_TAGGED = re.compile(r"(\\?)(MD5|SHA1|SHA256) \((.+)\) = ([0-9a-f]+)", re.I)
_LABELLED = re.compile(
    r"\s*((MD5|SHA1|SHA256) (?:checksum"  # FTK Imager; after the digits " : verified"
    r"|hash(?: verified source| verified image)?"  # Guymager
    r"|hash calculated over data|hash stored in file))"  # ewfacquire, ewfverify
    r"\s*:\s*([0-9a-f]+)(?![0-9a-z])",
    re.I,
)
_TOTAL = re.compile(r"(Total \((md5|sha1|sha256)\)): ([0-9a-f]+)\s*", re.I)  # dcfldd
_RUN = re.compile(r"dc3dd \S+ started at ")
_RESULTS = re.compile(r"(input|output) results for [^`'‘]*(?:[`'‘](.*)['’])?:")
_RESULT = re.compile(r"\s+(?:\[(?:ok|!!)\] )?([0-9a-f]+) \((md5|sha1|sha256)\)\s*", re.I)


@dataclass(frozen=True, slots=True)
class RecordedHash:
    """A hash that a file beside the image records, or that the examiner gave.

    Attributes:
        algorithm: algorithm, which follows from the number of digits.
        value: hexadecimal digits in lower case.
        source: name of the file that records it, or "--expect".
        label: name of the hash in that file.
        file: the hashed file of the evidence; None if the disk was hashed.
        is_bare: whether the hash has no file name; it is then of the disk or of the opened file.
    """

    algorithm: HashName
    value: str
    source: str
    label: str
    file: Path | None = None
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class RecordedHashes:
    """The hashes in the files beside an image.

    Attributes:
        looked_for: names of all files that could contain hashes.
        there: names of the files that were read.
    """

    hashes: tuple[RecordedHash, ...] = ()
    looked_for: tuple[str, ...] = ()
    there: tuple[str, ...] = ()


class ComparisonFacts(TypedDict):
    """A hash that was recorded at the acquisition, and the computed one."""

    algorithm: HashName
    value: Annotated[str, ("pattern", "^[0-9a-f]+$"), "As recorded, in hex."]
    source: Annotated[str, "Name of the file that records it; --expect for a hash that was given."]
    label: Annotated[str, "What that file calls it."]
    compared: Annotated[
        Literal["content", "file"],
        "content: the bytes of the disk, in a container the acquired media; file: a file of it.",
    ]
    file: Annotated[str | None, "The file, where one was compared."]
    computed: Annotated[str, ("pattern", "^[0-9a-f]+$"), "Of the same bytes, in hex."]
    matches: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded hash and the computed one.

    Attributes:
        computed: hexadecimal digits.
        file: the file that was hashed; None for the disk.
    """

    recorded: RecordedHash
    computed: str
    file: Path | None

    @property
    def matches(self) -> bool:
        """Whether the two hashes are the same."""
        return self.computed == self.recorded.value

    @property
    def text(self) -> str:
        """Source, recorded hash, verdict, and the bytes that were compared."""
        recorded = self.recorded
        of = "the content of the image" if self.file is None else f"the file {self.file.name}"
        verdict = "matches" if self.matches else "DIFFERS from"
        return f"{recorded.source}: {recorded.label} {recorded.value} {verdict} {of}"

    @property
    def complaint(self) -> str:
        """`text` with the computed hash, for hashes that differ."""
        return f"{self.text}, which has {self.computed}"

    def as_facts(self) -> ComparisonFacts:
        """The comparison as plain JSON values."""
        return {
            "algorithm": self.recorded.algorithm,
            "value": self.recorded.value,
            "source": self.recorded.source,
            "label": self.recorded.label,
            "compared": "content" if self.file is None else "file",
            "file": None if self.file is None else str(self.file),
            "computed": self.computed,
            "matches": self.matches,
        }


def expected_hash(text: str) -> RecordedHash:
    """The hash that the examiner expects, from the command line.

    Raises:
        ValueError: `text` is not an MD5, SHA-1 or SHA-256 in hexadecimal digits.
    """
    found = _BARE.fullmatch(text)
    made = _made(EXPECT, "", found[1], is_bare=True) if found and found[1] == text else None
    if made is None:
        raise ValueError(text)
    return made


def is_plain(evidence: Evidence) -> bool:
    """Whether the disk and the only file of the evidence are the same bytes."""
    return evidence.format in ("raw", "device") and len(evidence.files) == 1


def compare(
    evidence: Evidence,
    recorded: Iterable[RecordedHash],
    disk: Hashes,
    hashed: Mapping[Path, Hashes],
    progress: Progress | None = None,
) -> Iterator[Comparison]:
    """Compare each recorded hash with the computed one.

    Args:
        evidence: the evidence.
        recorded: the recorded hashes.
        disk: hashes of the disk.
        hashed: hashes of files of the evidence that are known already; others are computed if
            needed.
        progress: called while hashes are computed.

    Raises:
        AccessError: a file of the evidence cannot be opened.
    """
    known = {evidence.path: disk, **hashed} if is_plain(evidence) else dict(hashed)
    for each in recorded:
        of_disk = Comparison(each, disk.digests[each.algorithm], None)
        path = evidence.path if each.is_bare else each.file
        if path is None or (each.is_bare and of_disk.matches):
            yield of_disk
            continue
        if path not in known:
            known.update(hash_files([path], progress))
        of_file = Comparison(each, known[path].digests[each.algorithm], path)
        yield of_disk if each.is_bare and not of_file.matches else of_file


def unproved_files(evidence: Evidence, comparisons: Sequence[Comparison]) -> list[Path]:
    """Files of the evidence without a matching recorded hash, although other files have one.

    If the hash of the disk matches, all files are verified. The hash of one file does not verify
    any other file.
    """
    matching = [each.file for each in comparisons if each.matches]
    if not matching or None in matching:
        return []
    return [each for each in evidence.files if each not in matching]


# -------------------------------------------------------------------- files beside the image


def find_recorded(evidence: Evidence) -> RecordedHashes:
    """The hashes in the files that acquisition programs write beside the image.

    These files have the name of the image, with or without its suffix, and a further suffix. A file
    that cannot be read completely becomes a problem of the evidence.
    """
    stems = dict.fromkeys((evidence.path.name, evidence.path.stem))
    names = [stem + suffix for stem in stems for suffix in _SUFFIXES]
    paths = [evidence.path.with_name(name) for name in names]
    texts = {path.name: _text(path, evidence) for path in paths if path not in evidence.files}
    there = {name: text for name, text in texts.items() if text is not None}
    found = (each for name, text in there.items() for each in hashes_in(text, name, evidence.files))
    return RecordedHashes(tuple(found), tuple(texts), tuple(there))


def _text(path: Path, evidence: Evidence) -> str | None:
    """The text of a file; None if the file is missing or not readable."""
    data, problem = b"", ""
    if not os.path.lexists(path):
        return None
    try:
        if not is_within(path, path.parent):
            problem = "is not a regular file of this folder and is not read"
        else:
            with path.open("rb") as file:
                data = file.read(_MOST + 1)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    is_long = len(data) > _MOST
    if problem or is_long:
        what = problem or f"only its first {_MOST:,} bytes are searched for hashes"
        evidence.problems.add(path.name, what, Severity.WARNING)
    if problem:
        return None
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data[:_MOST].decode(*(("utf-16", "replace") if wide else ("utf-8", "surrogateescape")))
    return text.rpartition("\n")[0] if is_long else text  # without the cut last line


def hashes_in(text: str, source: str, files: Sequence[Path]) -> list[RecordedHash]:
    """The hashes of an image that a text records, each once.

    Args:
        text: content of the file.
        source: name of the file.
        files: the files of the evidence, the opened one first.
    """
    text = text.removeprefix("\ufeff")
    if bare := _BARE.fullmatch(text.strip()):
        found = [_made(source, "", bare[1], is_bare=True)]
    else:
        lines = [line.rstrip("\r") for line in text.split("\n") if len(line) >= _SHORTEST]
        named = {each.name: each for each in reversed(files)}
        found = [each for line in lines for each in _in_line(line, source, named)]
        found += _results_of_dc3dd(lines, source, named)
    distinct: dict[tuple[str, Path | None], RecordedHash] = {}
    for each in filter(None, found):
        distinct.setdefault((each.value, each.file), each)
    return list(distinct.values())


def _made(
    source: str,
    label: str,
    digits: str,
    name: str = "",
    file: Path | None = None,
    is_bare: bool = False,
) -> RecordedHash | None:
    """A recorded hash; None if the number of digits fits no hash, or not the named one."""
    algorithm = _LENGTHS.get(len(digits))
    if algorithm is None or name.lower() not in ("", algorithm):
        return None
    shown = label or HASH_NAMES[algorithm]
    return RecordedHash(algorithm, digits.lower(), source, shown, file, is_bare)


def _in_line(line: str, source: str, named: Mapping[str, Path]) -> Iterator[RecordedHash | None]:
    """The hash in a line of a checksum file (for a file of the evidence) or of a log."""
    name = digits = ""
    if tagged := _TAGGED.fullmatch(line):
        mark, name, stated, digits = tagged.groups()
        file = _named(stated, bool(mark), named)
    elif one := _SUM.fullmatch(line):
        mark, digits, stated = one.groups()
        file = _named(stated, bool(mark), named)
    elif labelled := _LABELLED.match(line) or _TOTAL.fullmatch(line):
        label, name, digits = labelled.groups()
        yield _made(source, label, digits, name)
        return
    else:
        return
    if file is not None:
        yield _made(source, "", digits, name, file)


def _named(stated: str, is_escaped: bool, named: Mapping[str, Path]) -> Path | None:
    """The file of the evidence that a line names, in any folder."""
    if is_escaped:  # coreutils: backslashes before the line and in the name
        stated = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), stated)
    name = stated.rsplit("/", 1)[-1]
    return named.get(name) or (None if is_escaped else named.get(name.rsplit("\\", 1)[-1]))


@dataclass(slots=True)
class _Run:
    """One run of dc3dd in a log: its hashes of input and output, and whether it wrote the image."""

    hashes: list[RecordedHash | None] = field(default_factory=list)
    is_of_image: bool = False


def _results_of_dc3dd(
    lines: Iterable[str], source: str, named: Mapping[str, Path]
) -> list[RecordedHash | None]:
    """The hashes of the last run that wrote the image.

    dc3dd appends to a log. If no run names the image (it may have been renamed), the only run is
    used if there is just one. Hashes of other outputs never count.
    """
    runs, label = [_Run()], ""
    for line in lines:
        if _RUN.match(line):
            runs.append(_Run())
            label = ""
        elif about := _RESULTS.match(line):
            is_written = about[1] == "output" and _named(about[2] or "", False, named) is not None
            runs[-1].is_of_image |= is_written
            label = f"{about[1]} results" if is_written or about[1] == "input" else ""
        elif label and (found := _RESULT.fullmatch(line)):
            runs[-1].hashes.append(
                _made(source, f"{label} ({found[2].lower()})", found[1], found[2])
            )
    own = [run for run in runs if run.is_of_image][-1:]
    others = [run for run in runs if run.hashes]
    return [each for run in own or others if own or len(others) == 1 for each in run.hashes]
