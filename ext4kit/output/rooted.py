"""Writes files below one folder: rooted, exclusively created, each whole or named unfinished.

A file is written as `*.incomplete`. It gets its name when its record is in the manifest, so that
whatever ends the program leaves no file under a final name without its bytes and its record.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ext4kit.errors import OutputError, RequestError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Chunk
from ext4kit.output.earlier import LONG, EarlierRun, Expected
from ext4kit.output.folders import FOLDER, HAS_HANDLES, Folders, OutputPlace
from ext4kit.output.interrupts import interrupts_heeded
from ext4kit.output.lock import lock
from ext4kit.output.manifest import CASE, Manifest
from ext4kit.output.names import other_names, usable_name, with_free_name
from ext4kit.output.new_file import NEW_FILE
from ext4kit.output.pouring import add_lost, hash_zeros, seek_past, write_all
from ext4kit.output.renaming import begins_unfinished, incomplete_names, rename_new
from ext4kit.output.restoring import (
    DEFAULT_PARTS,
    Attributes,
    Outcome,
    RestoredPart,
    RestoredParts,
    Shortfall,
    WrittenEntry,
    restore,
    take_back,
)
from ext4kit.output.written import UnwritableError, Written
from ext4kit.problems import Problems, Severity
from ext4kit.reasons import OUTPUT_LIMIT, WRITE_FAILED
from ext4kit.units import SECTOR

HASHED_HOLES_LIMIT = 16 << 30
OUTPUTS_A_BLOCK = 16  # live files use each block once, deleted files a few times
SPARE_OUTPUT = 1 << 30
_REFUSALS = {errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ}  # of a name, if not of all
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_MOST_SHOWN = 64  # folders of a path in a message
_PRIVATE = 0o600  # until the file has its mode
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
Made = TypeVar("Made")


def output_limit(blocks: BlockReader) -> int:
    """Maximum output in bytes for a file system: a multiple of the size of the evidence."""
    return OUTPUTS_A_BLOCK * blocks.blocks_count * blocks.block_size + SPARE_OUTPUT


@dataclass(slots=True)
class OutputDirectory:
    """Writes files below one folder and nowhere else.

    Everything below it is new: files, folders and links are created exclusively, in folders that
    are held open (`Folders`). Links therefore lead nowhere. With a `manifest`, files and links get
    their names with their records, without one at once. `restore_folder` is to be called last, for
    the deepest folders first.

    Args:
        root: the folder; it must be new or empty, but for a case record.
        evidence: files of the evidence, which the folder must not be part of.
        limit: maximum bytes of all files together, against maps that name blocks without end.
        parts: what files get beside their bytes.
        is_resumed: go on with what an earlier run left there.
        refusals: number of names that the file system refused, by its reason.
        earlier: what an earlier run left, if so.
    """

    root: Path
    evidence: tuple[Path, ...] = ()
    limit: int = 1 << 62
    parts: RestoredParts = DEFAULT_PARTS
    is_resumed: bool = False
    refusals: Counter[str] = field(default_factory=Counter)
    earlier: EarlierRun | None = None
    _left: int = 0
    _hashed: int = 0
    _folders: dict[tuple[bytes, ...], str | OSError] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)  # folder -> why its name was refused
    _shortfall: Shortfall = field(default_factory=Shortfall)
    _has_manifest: bool = False
    _unnamed: list[tuple[str, str]] = field(default_factory=list)  # (unfinished, final path)
    _places: Folders = field(init=False)

    def __post_init__(self) -> None:
        """Create the folder.

        Raises:
            RequestError: it is not empty, it is the evidence, or another run writes into it.
            OutputError: it cannot be created.
        """
        self._left = self._hashed = self.limit
        target = self.root.resolve()
        for path in self.evidence:
            if target == path.resolve() or path.resolve() in target.parents:
                raise RequestError(f"{self.root}: lies in the evidence; choose another folder")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock(self.root)
            self._places = Folders(self.root)
            if self.is_resumed:
                self.earlier = EarlierRun(self.root, self._places)
            elif any(path.name != CASE for path in self.root.iterdir()):
                raise RequestError(f"{self.root}: not empty; choose a new or empty folder")
        except OSError as error:
            raise OutputError(f"{self.root}: {error.strerror}; choose another folder") from error

    def manifest(self) -> Manifest:
        """The manifest of the folder; from now on, what is written gets its name with its record.

        Raises:
            OSError: it cannot be created.
        """
        self._has_manifest = True
        return Manifest(self.root, self.is_resumed, self.publish)

    def publish(self) -> None:
        """Give what was written since the last call its final names.

        Raises:
            OutputError: a name could not be given; all of this is still named `*.incomplete`.
        """
        done = 0
        try:
            for unfinished, final in self._unnamed:
                self._rename(unfinished, final)
                done += 1
        except OSError as error:
            for unfinished, there in self._unnamed[:done]:
                with suppress(OSError):
                    self._rename(there, unfinished)
            raise OutputError(f"{final}: {error.strerror}; it is incomplete") from error
        self._unnamed.clear()

    def _rename(self, before: str, after: str) -> None:
        """Give what was written another name in its folder, which nothing has.

        Raises:
            OutputError: its folder was replaced.
            OSError: as for `rename_new`.
        """
        place = self._places.place(after)
        rename_new(place.beside(before[before.rfind("/") + 1 :]), place)

    def abandon(self) -> bool:
        """Leave what has no final name so far as it is; whether there is such a file."""
        left, self._unnamed = self._unnamed, []
        return bool(left)

    def write(
        self,
        parts: Sequence[bytes],
        chunks: Iterable[Chunk],
        mark: str = "",
        inode: Attributes | None = None,
        size: int = LONG,
        expected: Expected | None = None,
    ) -> Written:
        """Write one file. Interrupts that wait are accepted while a long content is copied.

        Args:
            parts: path components below the root, as they are in the evidence.
            chunks: the content in order; holes stay holes.
            mark: appended to the name if the name is already used.
            inode: what the file is to get beside its bytes, as far as `self.parts` has it.
            size: bytes of the content.
            expected: what an earlier run may have left of it.

        Raises:
            OutputError: the folder cannot be written further.
            UnwritableError: this file cannot be written; the written part is named `*.incomplete`.
        """
        if self._left <= 0:
            raise self._limit_reached()
        mode = _PRIVATE if inode is not None and RestoredPart.MODE in self.parts else 0o666
        lost: tuple[tuple[int, int, str], ...] = ()
        path, (begun, handle, digest), refusal = self._make(
            parts, mark, lambda path: self._kept_or_new(path, mode, expected)
        )
        is_kept = digest is not None
        try:
            try:
                target = WrittenEntry(self._at(begun), handle)
                if is_kept:
                    self._count_kept(handle)
                    if inode is not None:
                        take_back(target, self.parts, _PRIVATE)
                elif size < LONG:
                    size, digest, lost = self._pour(handle, chunks)
                else:
                    with interrupts_heeded():
                        size, digest, lost = self._pour(handle, chunks)
                outcome = self._restore(target, inode)
            finally:
                os.close(handle)
        except OSError as error:
            raise _failure(path, error) from error
        if not is_kept:
            self._finish(begun, path)
        return Written(path, size, digest, lost, outcome, refusal=refusal, is_kept=is_kept)

    def move(
        self, written: Written, parts: Sequence[bytes], mark: str, expected: Expected | None = None
    ) -> Written:
        """Give a written file another path, which nothing has so far.

        Raises:
            OutputError: as for `write`; a new file is then still named `*.incomplete`.
        """
        before = self._present_path(written)
        self._unnamed = [each for each in self._unnamed if each[0] != before]

        def make(place: OutputPlace) -> None:
            rename_new(self._places.place(before), place)

        path, (begun, _), refusal = self._make(
            parts, mark, lambda path: self._begin(path, make, expected)
        )
        self._finish(begun, path)
        return replace(written, path=path, refusal=refusal or written.refusal)

    def _present_path(self, written: Written) -> str:
        """The path of a file, which may not have its final one yet."""
        return next((now for now, path in self._unnamed if path == written.path), written.path)

    def _finish(self, begun: str, path: str) -> None:
        """Something is whole and gets its final path with its record; at once without a manifest.

        Raises:
            OutputError: as for `publish`.
        """
        self._unnamed.append((begun, path))
        if not self._has_manifest:
            self.publish()

    def drop_unfinished(self, path: str, expected: Expected | None) -> None:
        """Remove what earlier runs left unfinished of a file at a path below the root."""
        if self.earlier is not None and expected is not None:
            above, slash, name = path.rpartition("/")
            names = (f"{above}{slash}{each}" for each in incomplete_names(name))
            self.earlier.drop(names, expected)

    def make_folder(self, parts: Sequence[bytes]) -> str:
        """Create a folder and its parents where they do not exist; its path below the root.

        Raises:
            OutputError: as for `write`.
        """
        try:
            return self._folder_of(parts).rstrip("/")
        except OSError as error:
            raise _failure(_shown(parts), error) from error

    def refusal_of(self, folder: str) -> str:
        """Why a folder that `make_folder` made has another name, "" where it has its own."""
        return self._refused.get(f"{folder}/", "")

    def has_folder(self, parts: Sequence[bytes]) -> bool:
        """Whether the folder for these components was created."""
        return isinstance(self._folders.get(tuple(parts)), str)

    def restore_folder(self, parts: Sequence[bytes], inode: Attributes) -> Outcome:
        """Give an existing folder what its inode had; nothing can be written below it after that.

        Raises:
            OutputError: as for `write`.
        """
        try:
            below = self._folder_of(parts).rstrip("/")
            with self._opened_folder(below) as folder:
                return self._restore(folder, inode)
        except OSError as error:
            raise _failure(_shown(parts), error) from error

    def make_link(
        self, parts: Sequence[bytes], target: bytes, mark: str, inode: Attributes
    ) -> Written:
        """Create a symbolic link with its target as it is; nobody follows it here.

        Raises:
            OutputError: as for `write`.
        """
        text = os.fsdecode(target)
        expected = Expected(lambda place: place.target() == text)

        def make(place: OutputPlace) -> None:
            os.symlink(text, place.name, dir_fd=place.folder)  # as it is

        path, (begun, _), refusal = self._make(
            parts, mark, lambda path: self._begin(path, make, expected)
        )
        place = self._places.place(begun)
        outcome = self._restore(WrittenEntry(place.name, None, True, place.folder), inode)
        outcome.restored.append(RestoredPart.LINKS)
        self._finish(begun, path)
        return Written(path, len(target), None, (), outcome, refusal=refusal)

    def make_hard_link(
        self,
        parts: Sequence[bytes],
        first: Written,
        mark: str,
        expected: Expected | None = None,
    ) -> Written:
        """Create a further name of a written file or link.

        Raises:
            OutputError: as for `write`.
        """
        before = self._present_path(first)

        def make(place: OutputPlace) -> None:
            source = self._places.place(before)
            os.link(source.name, place.name, src_dir_fd=source.folder, dst_dir_fd=place.folder,
                    follow_symlinks=_FOLLOWS)  # fmt: skip

        path, (begun, _), refusal = self._make(
            parts, mark, lambda path: self._begin(path, make, expected)
        )
        self._finish(begun, path)
        outcome = Outcome([*first.outcome.restored], [*first.outcome.missed])
        if RestoredPart.LINKS not in outcome.restored:
            outcome.restored.append(RestoredPart.LINKS)
        return Written(
            path, first.size, first.sha256, first.lost, outcome, first.path, refusal=refusal
        )

    def report(self, problems: Problems) -> None:
        """Report names that were refused and what was not restored, one line about each kind.

        Raises:
            OutputError: a folder was replaced while the command wrote.
        """
        self._places.check()
        for why, count in self.refusals.items():
            text = f"{count:,} {'was' if count == 1 else 'were'} refused by the output file system"
            text += f" ({why}); the manifest says how each is stored"
            problems.add("names", text, Severity.WARNING)
        self._shortfall.report(problems)
        if self.earlier is not None:
            self.earlier.report(problems)

    @contextmanager
    def _opened_folder(self, below: str) -> Iterator[WrittenEntry]:
        """A folder below the root, by its descriptor where calls take one; a link is refused."""
        place = self._places.place(below)
        handle = place.open(FOLDER | _NOFOLLOW) if HAS_HANDLES else None
        try:
            yield WrittenEntry(self._at(below), handle)
        finally:
            if handle is not None:
                os.close(handle)

    def _restore(self, target: WrittenEntry, inode: Attributes | None) -> Outcome:
        outcome = Outcome() if inode is None else restore(target, inode, self.parts)
        self._shortfall.add(outcome)
        return outcome

    def _at(self, below: str) -> str:
        return f"{self.root}{os.sep}{below}"

    def _kept_or_new(
        self, path: str, mode: int, expected: Expected | None
    ) -> tuple[str, int, str | None]:
        """(path, descriptor, SHA-256) of a file that is kept, of a new one without a SHA-256."""
        place = self._places.place(path)
        kept = self._check_free(path, place, expected)
        if kept is not None:
            return path, *kept

        def make(place: OutputPlace) -> int:
            return place.open(NEW_FILE, mode)

        return *self._begin_free(path, place, make, expected), None

    def _begin(
        self, path: str, make: Callable[[OutputPlace], Made], expected: Expected | None
    ) -> tuple[str, Made]:
        """(path of an unfinished file or link, what `make` returned for it).

        Args:
            path: its final path.
            make: creates it.
            expected: what an earlier run may have left of it, which is replaced.

        Raises:
            FileExistsError: the final path is in use.
            OSError: it cannot be created.
        """
        place = self._places.place(path)
        self._check_free(path, place, expected and Expected(expected.is_part))
        return self._begin_free(path, place, make, expected)

    def _begin_free(
        self,
        path: str,
        place: OutputPlace,
        make: Callable[[OutputPlace], Made],
        expected: Expected | None,
    ) -> tuple[str, Made]:
        self.drop_unfinished(path, expected)
        above = path[: path.rfind("/") + 1]
        for name in incomplete_names(path[len(above) :]):
            try:
                return above + name, make(place.beside(name))
            except FileExistsError:
                continue
        raise AssertionError

    def _check_free(
        self, path: str, place: OutputPlace, expected: Expected | None
    ) -> tuple[int, str] | None:
        """A right file of an earlier run as (its descriptor, its SHA-256), else None.

        Raises:
            FileExistsError: something else is there.
            OSError: nothing can have that name.
        """
        if place.exists():
            if self.earlier is None or expected is None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return self.earlier.take(path, expected)
        if not begins_unfinished(path[path.rfind("/") + 1 :]):  # a system may refuse it alone
            os.mkdir(place.name, dir_fd=place.folder)
            os.rmdir(place.name, dir_fd=place.folder)
        return None

    def _count_kept(self, handle: int) -> None:
        """Count the bytes of a file that is kept, as if it had been written."""
        facts = os.fstat(handle)
        stored = min(facts.st_size, getattr(facts, "st_blocks", 1 << 62) * SECTOR)
        self._left -= stored
        self._hashed -= facts.st_size - stored

    def _make(
        self, parts: Sequence[bytes], mark: str, make: Callable[[str], Made]
    ) -> tuple[str, Made, str]:
        """Make a file with the first of its names that is free.

        Args:
            parts: as for `write`.
            mark: as for `write`.
            make: called with its path below the root; it raises FileExistsError if that is in use.

        Returns:
            (its path below the root, what `make` returned, why its name was refused).

        Raises:
            OutputError: as for `write`.
        """
        try:
            below = self._folder_of(parts[:-1])
            (name, made), refusal = self._accepted(
                parts[-1],
                lambda name: with_free_name(name, mark, lambda name: make(below + name)),
            )
        except OSError as error:
            raise _failure(_shown(parts), error) from error
        except (ValueError, AttributeError, NotImplementedError) as error:  # not on this system
            why = WRITE_FAILED.filled(path=_shown(parts), why=error)
            raise UnwritableError(why, str(error)) from error
        return below + name, made, refusal or self._refused.get(below, "")

    def _accepted(self, part: bytes, make: Callable[[str], Made]) -> tuple[Made, str]:
        """(what `make` returned for the first name that the file system takes, why not the first).

        Raises:
            OSError: it takes none, or the error has another cause.
        """
        try:
            return make(usable_name(part)), ""
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            refused = error
        for name in other_names(part):
            try:
                made = make(name)
            except OSError as error:
                if error.errno not in _REFUSALS:
                    raise
                continue
            self.refusals[why := str(refused.strerror)] += 1
            return made, why
        raise refused

    def _limit_reached(self) -> UnwritableError:
        return UnwritableError(OUTPUT_LIMIT.filled(limit=f"{self.limit:,}"))

    def _pour(
        self, handle: int, chunks: Iterable[Chunk]
    ) -> tuple[int, str | None, tuple[tuple[int, int, str], ...]]:
        """Write the chunks; (size, SHA-256 or None, unreadable ranges)."""
        digest, holes, end, written = hashlib.sha256(), 0, 0, 0
        most = min(self._hashed, HASHED_HOLES_LIMIT)
        lost: list[tuple[int, int, str]] = []
        for chunk in chunks:
            end = chunk.offset + chunk.length
            if chunk.lost:
                add_lost(lost, chunk)
            if chunk.data is not None:
                self._left -= chunk.length
                if self._left < 0:
                    raise self._limit_reached()
                digest.update(chunk.data)
                write_all(handle, chunk.data)
                written = end
                continue
            holes += chunk.length
            seek_past(handle, end)
            if holes <= most:
                hash_zeros(digest, chunk.length)
        if end > written:
            os.ftruncate(handle, end)
        self._hashed -= holes if holes <= most else 0
        return end, digest.hexdigest() if holes <= most else None, tuple(lost)

    def _folder_of(self, parts: Sequence[bytes]) -> str:
        """Path below the root of the folder for these components of the evidence.

        It ends with a slash, so that a name can follow. A folder whose name is in use gets a `~`.

        Raises:
            OSError: it or a folder above it cannot be created.
        """
        names = tuple(parts)
        if (there := self._folders.get(names, "" if not names else None)) is not None:
            if isinstance(there, OSError):
                raise there
            return there
        known = next((at for at in range(len(names), 0, -1) if names[:at] in self._folders), 0)
        found = self._folders[names[:known]] if known else ""
        for depth in range(known + 1, len(names) + 1):
            if isinstance(found, str):
                found = self._new_folder(found, names[depth - 1])
            self._folders[names[:depth]] = found
        if isinstance(found, OSError):
            raise found
        return found

    def _new_folder(self, above: str, part: bytes) -> str | OSError:
        """The path of a new folder, or why it cannot be."""
        try:
            name, why = self._accepted(part, partial(self._create_directory, above))
        except OSError as error:
            if error.errno in _FATAL:
                raise
            return error
        if why := why or self._refused.get(above, ""):
            self._refused[f"{above}{name}/"] = why
        return f"{above}{name}/"

    def _create_directory(self, above: str, name: str) -> str:
        """Create a folder and return its name, with `~` appended while the name is in use.

        A file may have the name, or a folder in other letter case. One of an earlier run is taken.
        """
        while True:
            below = f"{above}{name}"
            try:
                self._places.make(below)
            except FileExistsError:
                if self.earlier is not None and self.earlier.takes_folder(below):
                    self._places.take(below)
                    with self._opened_folder(below) as folder:
                        take_back(folder, self.parts)
                    return name
                name += "~"
            else:
                return name


_FOLLOWS = os.link not in os.supports_follow_symlinks


def _shown(parts: Sequence[bytes]) -> str:
    if len(parts) > _MOST_SHOWN:
        half = _MOST_SHOWN // 2
        parts = [*parts[:half], b"...", *parts[-half:]]
    return "/".join(usable_name(part) for part in parts)


def _failure(path: str, error: OSError) -> OutputError:
    if error.errno in _FATAL:
        return OutputError(f"{path}: {error.strerror}")
    why = str(error.strerror)
    return UnwritableError(WRITE_FAILED.filled(path=path, why=why), why)
