"""What ext4kit says of an image that a power cut left, held against the history before it.

What is right. A life (inode and generation) is removed on an image when the commit block of a
transaction with its removal is on the image. A record graded `intact` is right when its bytes are

* exact: what the file held just before it was removed, as a program that read it then would have
  seen it; of a file that is still open without a name, what it held at the last commit on the
  image or after it;
* previous: what it held at the last commit before the removal, where it was changed between that
  and the removal: the last content of which a transaction before knows;
* version: for a record that `superseded` marks as an earlier version, all that the file held at
  some time.

It is wrong, by kind, when

* empty: it has no byte, and the file had some;
* older: it is a version of before the last commit that the file survived;
* mixed: every piece of it is of some version of the file at this place, and the whole of none;
* foreign: there are bytes that the file never held there;
* live: the removal is on no commit of the image, so the file is not removed there;
* uncommitted: the file was made after the last commit on the image;
* misnamed: its path is none that the file ever had;
* misread: the image is taken for a copy of a mounted disk, which it is not.

Sizes are compared with the bytes, as part of their SHA-256. The history is single-threaded and
no timer commits (but in `quick_commits`), so what was done before the first block of a transaction
was written to the log is in it or in an earlier one, and what began after its commit block is not.
Without a log there are no commits: an act may be on the image unless it began after the cut. What
e2fsck took away is removed too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import ext4kit
from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from sample_images.recipes import machine, syscalls
from sample_images.recipes.history_book import Key, Life, pieces_of
from tests.powercut.told_writes import Moment, Told

RIGHT = ("exact", "previous", "version")
WRONG = ("older", "empty", "mixed", "foreign", "live", "uncommitted", "misnamed", "misread")
GRADES = ("intact", "consistent", "partial", "overwritten")


@dataclass(slots=True)
class Tally:
    """What came of some images.

    Attributes:
        counts: `cuts`; images judged, which are more; records of files that the history knows, by
            grade; intact ones by what is right or wrong with them; `agreeing` ones that are
            consistent and right; `cautious` ones that are exact and neither; `untrue` files of
            which the kernel says otherwise than the judge whether they live, of those that it was
            `asked` about; `refused` images that the kernel or e2fsck could do nothing with.
        findings: the first record of each kind and file that is wrong, in words.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, str] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        """How many records are wrong, and how many lives the judge itself has wrong."""
        return sum(self.counts[kind] for kind in (*WRONG, "untrue"))

    def add(self, other: Tally) -> None:
        """Count others in."""
        self.counts.update(other.counts)
        self.findings = {**other.findings, **self.findings}


def judge(image: Path, moment: Moment, afterwards: str = "") -> Tally:
    """Ask for everything deleted on an image, earlier versions too, and compare.

    Args:
        image: as the cut left it, or after something was done to it.
        moment: what is known of the cut.
        afterwards: what was done to it, "" for nothing.
    """
    tally, told = Tally(), moment.told
    lost = _lost(image, told) if afterwards == "e2fsck" else set()
    with ext4kit.open(image) as evidence:
        fs = evidence.volume().filesystem()
        for file in find_deleted(fs, versions=True, sources=ALL_SOURCES):
            life = _life(file, told)
            if life is not None:
                tally.counts[str(file.grade)] += 1
                _judge_file(tally, file, life, moment, lost)
        if any("copied while it was mounted" in one.what for one in fs.problems):
            tally.counts["misread"] += 1
            tally.findings["misread"] = "an image of a cut is called a copy of a mounted disk"
    if afterwards:
        tally.findings = {k: f"{text} (after {afterwards})" for k, text in tally.findings.items()}
    return tally


def _lost(image: Path, told: Told) -> set[Key]:
    """The files that have no name on an image that e2fsck checked: it takes some away."""
    try:
        return set(told.book.lives) - _living(image, "ro")
    except machine.MachineError:
        return set(told.book.lives)


def _living(image: Path, options: str) -> set[Key]:
    """The files that the kernel shows."""
    living = set()
    with machine.mounted(image, options) as root:
        for folder, _, names in os.walk(root):
            for path in (Path(folder, name) for name in names):
                if stat.S_ISREG(path.lstat().st_mode):
                    living.add((path.lstat().st_ino, syscalls.generation(path)))
    return living


def _life(file: DeletedFile, told: Told) -> Life | None:
    if file.kind != "file" or file.number is None or file.generation is None:
        return None
    life = told.book.lives.get((file.number, file.generation))
    return life if life is not None and life.kind == "file" else None


def _judge_file(
    tally: Tally, file: DeletedFile, life: Life, moment: Moment, lost: set[Key]
) -> None:
    kind, digest = _kind(file, life, moment, lost)
    if file.grade == "consistent":
        tally.counts["agreeing"] += kind in RIGHT
        return
    if file.grade != "intact":
        tally.counts["cautious"] += kind == "exact"
        return
    kinds = [kind]
    if file.path is not None and file.path.lstrip(b"/") not in life.paths:
        kinds.append("misnamed")
    tally.counts.update(kinds)
    for one in kinds:
        if one not in RIGHT:
            which = f"{one}: <{file.number}> {file.generation}"
            tally.findings.setdefault(which, f"{_shown(file, digest)}; {_known(life, moment)}")


def _kind(file: DeletedFile, life: Life, moment: Moment, lost: set[Key]) -> tuple[str, str]:
    """What is right or wrong with a record, and the digest of its content."""
    key, data = (life.number, life.generation), _content(file)
    digest = hashlib.sha256(data).hexdigest()
    if moment.is_out(moment.told.made(life)):
        return "uncommitted", digest
    if file.superseded:
        return ("version" if digest in life.digests else _strange(data, life)), digest
    end = moment.told.ends.get(key)
    if (end is None or moment.is_out(end.unlinked)) and key not in lost:
        return "live", digest
    if digest in moment.exact(key, life):
        return "exact", digest
    if digest in moment.previous(key, life):
        return "previous", digest
    if not data:
        return "empty", digest
    return ("older" if digest in life.digests else _strange(data, life)), digest


def _strange(data: bytes, life: Life) -> str:
    return "mixed" if life.pieces.issuperset(pieces_of(data)) else "foreign"


def _content(file: DeletedFile) -> bytes:
    content = file.content()
    chunks = content.chunks() if content is not None else ()
    return b"".join(bytes(chunk.data or bytes(chunk.length)) for chunk in chunks)


def ask_kernel(tally: Tally, image: Path, moment: Moment) -> None:
    """Let the kernel replay an image, and compare what lives there with what the judge thinks."""
    living = _living(image, "noatime")
    for key, life in moment.told.book.lives.items():
        thought = moment.lives(key, life) if life.kind == "file" else None
        if thought is not None:
            tally.counts["asked"] += 1
            if thought != (key in living):
                tally.counts["untrue"] += 1
                which = f"untrue: <{key[0]}> {key[1]}"
                tally.findings[which] = f"lives: {not thought}; {_known(life, moment)}"


def _shown(file: DeletedFile, digest: str) -> str:
    return (
        f"{file.path!r} {file.size} bytes {digest[:8]}, "
        f"{file.sources}, superseded {file.superseded}, between {file.deleted_between}"
    )


def _known(life: Life, moment: Moment) -> str:
    names = moment.told.names
    versions = [(v.operation, names[v.operation], v.size, v.sha256[:8]) for v in life.versions]
    end = moment.told.ends.get((life.number, life.generation))
    by_span = {span: number for number, span in moment.told.spans.items()}
    ended = end and (by_span[end.unlinked], by_span[end.freed] if end.freed else None)
    tids = [commit.tid for commit in moment.commits[-3:]]
    return f"versions {versions}, unlinked and freed in act {ended}, last commits {tids}"
