"""The judgement on a random history: what ext4kit says of the image, held against the book."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import ext4kit
from ext4kit.history.places import Ground
from ext4kit.opening import Image
from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from sample_images.recipes import machine, syscalls
from sample_images.recipes.history_book import Book, Key, Life, pieces_of
from sample_images.recipes.history_sources import Sources

_NUMBERS = ("files", "paths", "wrong_paths", "older_paths", "live")
_GRADES = ("intact", "consistent", "partial", "overwritten")


class Content(StrEnum):
    """What a record holds, compared with what its file held last."""

    EXACT = "exact"
    NOTHING = "exact and without content"
    OLDER = "older"  # of an earlier version of the file
    EMPTY = "empty"  # no byte or zeros, where the file held others
    MIXED = "mixed"  # some bytes were never the file's
    FOREIGN = "foreign"  # none was


@dataclass(slots=True)
class Verdict:
    """What came of the deleted files of one image, or of several.

    Attributes:
        images: how many were judged.
        files: deleted regular files whose life the book has; intact: of these graded so, earlier
            versions too.
        contents: (grade, `Content`) -> how many of these files.
        wrong_paths: paths that the life never had; older_paths: that were not its last.
        places: paths of these that rest on the present place of a directory; wrong_places: of
            these, those that the life never had, which are no `wrong_paths`.
        live: said to be deleted, and alive for the kernel.
        sources: what each source was worth.
    """

    images: int = 0
    files: int = 0
    contents: Counter[tuple[str, str]] = field(default_factory=Counter)
    paths: int = 0
    wrong_paths: int = 0
    older_paths: int = 0
    places: int = 0
    wrong_places: int = 0
    live: int = 0
    findings: list[str] = field(default_factory=list)
    sources: Sources = field(default_factory=Sources)

    @property
    def intact(self) -> int:
        """How many files are graded intact."""
        return sum(count for (grade, _), count in self.contents.items() if grade == "intact")

    @property
    def wrong(self) -> int:
        """How many of these have any other content than they had last."""
        right = (Content.EXACT, Content.NOTHING)
        return self.intact - sum(self.contents["intact", content] for content in right)

    @property
    def kept(self) -> float:
        """Share of the exact ones with any content that are graded intact or consistent."""
        exact = {grade: self.contents[grade, Content.EXACT] for grade in _GRADES}
        return (exact["intact"] + exact["consistent"]) / max(sum(exact.values()), 1)

    def table(self) -> str:
        """Contents by grade."""
        lines = ["| grade | " + " | ".join(Content) + " |", "|---" * (len(Content) + 1) + "|"]
        for grade in _GRADES:
            counts = (f"{self.contents[grade, content]:,}" for content in Content)
            lines.append(f"| {grade} | " + " | ".join(counts) + " |")
        return "\n".join(lines)

    @property
    def is_bad(self) -> bool:
        """Whether something was said that is not so."""
        return bool(self.wrong or self.wrong_paths or self.wrong_places or self.live)

    def line(self) -> str:
        """All of it in one line."""
        return (
            f"{self.files} deleted files, {self.intact} intact, {self.wrong} of them WRONG, "
            f"{self.kept:.0%} of the exact ones intact or consistent; "
            f"{self.paths} paths, {self.wrong_paths} WRONG, {self.older_paths} older; "
            f"{self.places} by present places, {self.wrong_places} WRONG; {self.live} LIVE"
        )

    def counts(self) -> dict[str, object]:
        """What was counted, for a JSON file; without `sources`."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**numbers, "contents": [[*key, count] for key, count in self.contents.items()]}

    @classmethod
    def of(cls, counts: dict[str, Any]) -> Verdict:
        """What `counts` gave."""
        verdict = cls()
        for name in _NUMBERS:
            setattr(verdict, name, counts[name])
        verdict.contents.update(
            {(grade, content): count for grade, content, count in counts["contents"]}
        )
        return verdict

    def add(self, other: Verdict) -> None:
        """Count another image in."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def judge(image: Path, book: Book) -> Verdict:
    """Ask for everything deleted, earlier versions too, and compare."""
    with ext4kit.open(image) as opened:
        return judged(opened, book, living_files(image))


def judged(opened: Image, book: Book, living: set[Key]) -> Verdict:
    """The same of an opened image, where it is known which files live."""
    verdict = Verdict(images=1)
    fs = opened.volume().filesystem()
    for file in find_deleted(fs, versions=True, sources=ALL_SOURCES):
        verdict.sources.judge(file, book)
        if file.number is None or file.generation is None:
            continue
        life = book.lives.get((file.number, file.generation))
        if file.kind == "file" and life is not None and life.kind == "file":
            _judge_file(verdict, file, life, living)
        _judge_path(verdict, file, book)
    return verdict


def _judge_file(verdict: Verdict, file: DeletedFile, life: Life, living: set[Key]) -> None:
    if (life.number, life.generation) in living and not file.superseded:
        verdict.live += 1
        verdict.findings.append(f"LIVE {_shown(file)}")
    content = content_of(file, life)
    verdict.files += not file.superseded
    verdict.contents[str(file.grade), content] += 1
    if file.grade == "intact" and content not in (Content.EXACT, Content.NOTHING):
        verdict.findings.append(f"{content.upper()} {_shown(file)}; versions {_versions(life)}")


def content_of(file: DeletedFile, life: Life) -> Content:
    """What a record holds, compared with what its file held."""
    data = _bytes(file)
    digest = hashlib.sha256(data).hexdigest()
    if digest == life.versions[-1].sha256 or (file.superseded and digest in life.digests):
        return Content.EXACT if data else Content.NOTHING
    if not data.rstrip(b"\0"):
        return Content.EMPTY
    if digest in life.digests:
        return Content.OLDER
    pieces = pieces_of(data)
    own = sum(piece in life.pieces for piece in pieces)
    return Content.FOREIGN if own == 0 else Content.MIXED


def _judge_path(verdict: Verdict, file: DeletedFile, book: Book) -> None:
    if file.path is None:
        return
    if file.kind == "symlink":
        lives = book.links.get(file.number or 0, [])
    else:
        life = book.lives.get((file.number or 0, file.generation or 0))
        lives = [] if life is None else [life]
    if not lives:
        return
    path = file.path.lstrip(b"/")
    is_place = file.path_ground == Ground.PRESENT_PLACE
    verdict.paths += 1
    verdict.places += is_place
    if not any(path in life.paths for life in lives):
        verdict.wrong_paths += not is_place
        verdict.wrong_places += is_place
        known = sorted(path for life in lives for path in life.paths)
        verdict.findings.append(f"PATH {_shown(file)}; it had {known}")
    else:
        verdict.older_paths += not any(path in life.last for life in lives)


def _bytes(file: DeletedFile) -> bytes:
    content = file.content()
    chunks = content.chunks() if content is not None else ()
    return b"".join(bytes(chunk.length) if chunk.data is None else chunk.data for chunk in chunks)


def _shown(file: DeletedFile) -> str:
    return (
        f"<{file.number}> {file.generation} {file.path!r} {file.size} bytes, "
        f"by {file.path_ground}, {file.sources}, superseded {file.superseded}"
    )


def _versions(life: Life) -> list[tuple[int, int]]:
    return [(version.operation, version.size) for version in life.versions]


def living_files(image: Path) -> set[Key]:
    """(inode, generation) of every file that the kernel shows once it has replayed the log."""
    copy = image.with_suffix(".replayed")
    found: set[Key] = set()
    try:
        with _mounted(image, copy) as root:
            for folder, _, names in os.walk(root):
                paths = (Path(folder, name) for name in names)
                files = [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
                found.update((one.lstat().st_ino, syscalls.generation(one)) for one in files)
    finally:
        copy.unlink(missing_ok=True)
    return found


@contextmanager
def _mounted(image: Path, copy: Path) -> Iterator[Path]:
    """A mount of a copy; of a checked one where the kernel refuses its own fast commits.

    e2fsck 1.47 replays some of them otherwise than the kernel does, so it is asked last.
    """
    machine.copy_sparse(image, copy)
    try:
        with machine.mounted(copy, "rw"):
            pass
    except machine.MachineError:
        machine.copy_sparse(image, copy)
        machine.check(copy)
    with machine.mounted(copy, "rw") as root:
        yield root
