"""Writes files below one folder: rooted, exclusively created, and renamed when unfinished."""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from itertools import count as counted
from pathlib import Path
from typing import TypeVar

from ext4kit.errors import OutputError, RequestError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import CHUNK_BYTES, Chunk
from ext4kit.output.earlier import LONG, EarlierRun, Expected
from ext4kit.output.interrupts import interrupts_heeded
from ext4kit.output.lock import lock
from ext4kit.output.manifest import CASE
from ext4kit.output.names import NAME_LIMIT, cut, other_names, usable_name
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
from ext4kit.problems import Problems, Severity
from ext4kit.reasons import NAME_REFUSED, OUTPUT_LIMIT, WRITE_FAILED, Reason
from ext4kit.units import SECTOR

HASHED_HOLES_LIMIT = 16 << 30
OUTPUTS_A_BLOCK = 16  # live files use each block once, deleted files a few times
SPARE_OUTPUT = 1 << 30
_REFUSALS = {errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ}  # of a name, if not of all
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_ZEROS = bytes(CHUNK_BYTES)
_PRIVATE = 0o600  # until the file has its mode
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER |= getattr(os, "O_CLOEXEC", 0)
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file.

    Attributes:
        path: relative to the output folder, `/` between components; of a single file as given.
        sha256: hex, or None when it is not hashed because its holes are too large (above 16 GiB, or
            above the limit of the whole output), or because it is a copy of a volume.
        lost: (offset, length, reason) of unreadable ranges, which are written as zeros.
        outcome: what it has beside its bytes.
        hard_link: the output that it is a hard link to; None for a file of its own.
        further: paths of hard links to it.
        refusal: why the file system refused its name or that of a folder; "" where it did not.
        is_kept: an earlier run wrote it.
    """

    path: str
    size: int
    sha256: str | None
    lost: tuple[tuple[int, int, str], ...]
    outcome: Outcome = field(default_factory=Outcome)
    hard_link: str | None = None
    further: tuple[str, ...] = ()
    refusal: str = ""
    is_kept: bool = False

    @property
    def reasons(self) -> list[Reason]:
        """What its record says of its name."""
        if not self.refusal:
            return []
        return [NAME_REFUSED.filled(why=self.refusal, path=self.path)]


def output_limit(blocks: BlockReader) -> int:
    """Maximum output in bytes for a file system: a multiple of the size of the evidence."""
    return OUTPUTS_A_BLOCK * blocks.blocks_count * blocks.block_size + SPARE_OUTPUT


@dataclass(slots=True)
class OutputDirectory:
    """Writes files below one folder and nowhere else.

    Everything below it is new: files, folders and links are created exclusively, and nothing is
    created below a name that is not a folder of this class. Links therefore lead nowhere.
    `restore_folder` is to be called last, for the deepest folders first.

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
    _folders: dict[tuple[bytes, ...], str] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)  # folder -> why its name was refused
    _shortfall: Shortfall = field(default_factory=Shortfall)

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
            if self.is_resumed:
                self.earlier = EarlierRun(self.root)
            elif any(path.name != CASE for path in self.root.iterdir()):
                raise RequestError(f"{self.root}: not empty; choose a new or empty folder")
        except OSError as error:
            raise OutputError(f"{self.root}: {error.strerror}; choose another folder") from error

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
        make = partial(os.open, flags=NEW_FILE, mode=mode)
        lost: tuple[tuple[int, int, str], ...] = ()
        path, (handle, digest), refusal = self._make(
            parts, mark, lambda at: self._kept_or_new(at, make, expected)
        )
        try:
            try:
                is_kept = digest is not None
                if is_kept:
                    self._count_kept(handle)
                    if inode is not None:
                        take_back(WrittenEntry(self._at(path), handle), self.parts, _PRIVATE)
                else:
                    self.drop_unfinished(path, expected)
                    with interrupts_heeded() if size >= LONG else nullcontext():
                        size, digest, lost = self._pour(handle, chunks)
                outcome = self._restore(WrittenEntry(self._at(path), handle), inode)
            finally:
                os.close(handle)
            return Written(path, size, digest, lost, outcome, refusal=refusal, is_kept=is_kept)
        except BaseException as error:
            mark_incomplete(Path(self._at(path)))
            if isinstance(error, OSError):
                raise _failure(path, error) from error
            raise

    def move(
        self, written: Written, parts: Sequence[bytes], mark: str, expected: Expected | None = None
    ) -> Written:
        """Give a written file another path, which nothing has so far.

        Raises:
            OutputError: as for `write`; the file is then named `*.incomplete`.
        """
        before = Path(self._at(written.path))
        try:
            make = partial(os.open, flags=NEW_FILE, mode=_PRIVATE)
            path, handle, refusal = self._make(parts, mark, self._over(make, expected))
            os.close(handle)
            before.replace(self._at(path))  # in the place of the new, empty file
        except OutputError:
            mark_incomplete(before)
            raise
        except OSError as error:
            Path(self._at(path)).unlink()
            mark_incomplete(before)
            raise _failure(path, error) from error
        return replace(written, path=path, refusal=refusal or written.refusal)

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
        return tuple(parts) in self._folders

    def restore_folder(self, parts: Sequence[bytes], inode: Attributes) -> Outcome:
        """Give an existing folder what its inode had; nothing can be written below it after that.

        Raises:
            OutputError: as for `write`.
        """
        below = self._folders[tuple(parts)].rstrip("/")
        try:
            with self._opened_folder(below) as folder:
                return self._restore(folder, inode)
        except OSError as error:
            raise _failure(below, error) from error

    def make_link(
        self, parts: Sequence[bytes], target: bytes, mark: str, inode: Attributes
    ) -> Written:
        """Create a symbolic link with its target as it is; nobody follows it here.

        Raises:
            OutputError: as for `write`.
        """
        text = os.fsdecode(target)
        make = partial(os.symlink, text)  # as it is
        expected = Expected(lambda at: os.path.islink(at) and os.readlink(at) == text)  # noqa: PTH114, PTH115
        path, _, refusal = self._make(parts, mark, self._over(make, expected))
        outcome = self._restore(WrittenEntry(self._at(path), None, is_link=True), inode)
        outcome.restored.append(RestoredPart.LINKS)
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
        source = self._at(first.path)
        make = partial(os.link, source, follow_symlinks=_FOLLOWS)
        path, _, refusal = self._make(parts, mark, self._over(make, expected))
        outcome = Outcome([*first.outcome.restored], [*first.outcome.missed])
        if RestoredPart.LINKS not in outcome.restored:
            outcome.restored.append(RestoredPart.LINKS)
        return Written(
            path, first.size, first.sha256, first.lost, outcome, first.path, refusal=refusal
        )

    def report(self, problems: Problems) -> None:
        """Report names that were refused and what was not restored, one line about each kind."""
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
        path = self._at(below)
        handle = os.open(path, _FOLDER) if _HAS_HANDLES else None
        try:
            yield WrittenEntry(path, handle)
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
        self, at: str, make: Callable[[str], int], expected: Expected | None
    ) -> tuple[int, str | None]:
        """(descriptor, SHA-256 of a file that is kept, None for a new one)."""
        try:
            return make(at), None
        except FileExistsError:
            if self.earlier is None or expected is None:
                raise
            kept = self.earlier.take(at[len(self._at("")) :], expected)
            return kept or (make(at), None)

    def _over(
        self, make: Callable[[str], Made], expected: Expected | None
    ) -> Callable[[str], Made]:
        """A `make` that replaces what an earlier run left of the same file."""

        def over(at: str) -> Made:
            try:
                return make(at)
            except FileExistsError:
                if self.earlier is None or expected is None:
                    raise
                self.earlier.take(at[len(self._at("")) :], Expected(expected.is_part))
                return make(at)

        return over

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
            make: called with its path; it raises FileExistsError if that is in use.

        Returns:
            (its path below the root, what `make` returned, why its name was refused).

        Raises:
            OutputError: as for `write`.
        """
        try:
            below = self._folder_of(parts[:-1])
            folder = self._at(below)
            (name, made), refusal = self._accepted(
                parts[-1],
                lambda name: _with_free_name(name, mark, lambda name: make(folder + name)),
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
        refused: OSError | None = None
        for name in chain((usable_name(part),), other_names(part)):
            try:
                made = make(name)
            except OSError as error:
                if error.errno not in _REFUSALS:
                    raise
                refused = refused or error
                continue
            why = str(refused.strerror) if refused else ""
            self.refusals.update([why] if why else [])
            return made, why
        assert refused is not None
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
                _add_lost(lost, chunk)
            if chunk.data is not None:
                self._left -= chunk.length
                if self._left < 0:
                    raise self._limit_reached()
                digest.update(chunk.data)
                write_all(handle, chunk.data)
                written = end
                continue
            holes += chunk.length
            _seek(handle, end)
            if holes <= most:
                hash_zeros(digest, chunk.length)
        if end > written:
            os.ftruncate(handle, end)
        self._hashed -= holes if holes <= most else 0
        return end, digest.hexdigest() if holes <= most else None, tuple(lost)

    def _folder_of(self, parts: Sequence[bytes]) -> str:
        """Path below the root of the folder for these components of the evidence.

        It ends with a slash, so that a name can follow. A folder whose name is in use gets a `~`.
        """
        names = tuple(parts)
        found = self._folders.get(names, "")
        for depth in range(1, len(names) + 1) if not found else ():
            if names[:depth] not in self._folders:
                name, why = self._accepted(parts[depth - 1], partial(self._create_directory, found))
                self._folders[names[:depth]] = f"{found}{name}/"
                if why := why or self._refused.get(found, ""):
                    self._refused[f"{found}{name}/"] = why
            found = self._folders[names[:depth]]
        return found

    def _create_directory(self, above: str, name: str) -> str:
        """Create a folder and return its name, with `~` appended while the name is in use.

        A file may have the name, or a folder in other letter case. One of an earlier run is taken.
        """
        while True:
            below = f"{above}{name}"
            try:
                Path(self._at(below)).mkdir()
            except FileExistsError:
                if self.earlier is not None and self.earlier.takes_folder(below):
                    with self._opened_folder(below) as folder:
                        take_back(folder, self.parts)
                    return name
                name += "~"
            else:
                return name


_HAS_HANDLES = os.chmod in os.supports_fd
_FOLLOWS = os.link not in os.supports_follow_symlinks
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
NEW_FILE |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _with_free_name(wanted: str, mark: str, make: Callable[[str], Made]) -> tuple[str, Made]:
    """(name, what `make` returned) for the first name that is free."""
    name = wanted
    for attempt in range(1000):
        try:
            return name, make(name)
        except FileExistsError:
            suffix = f"~{mark}" if attempt == 0 and mark else f"~{mark}.{attempt}"
            name = cut(wanted, NAME_LIMIT - len(suffix)) + suffix
    raise FileExistsError(errno.EEXIST, "too many files of that name", wanted)


def mark_incomplete(path: Path) -> None:
    """Give an unfinished file a new name that marks it as incomplete."""
    names = map(path.with_name, incomplete_names(path.name))
    path.rename(next(each for each in names if not os.path.lexists(each)))


def incomplete_names(name: str) -> Iterator[str]:
    """Names of a file that stays unfinished; the first that is free is used."""
    start = cut(name, NAME_LIMIT - 20) + ".incomplete"
    return (start + "~" * more for more in counted())


def _shown(parts: Sequence[bytes]) -> str:
    return "/".join(usable_name(part) for part in parts)


class UnwritableError(OutputError):
    """One file could not be written although the folder can be.

    Attributes:
        reason: the reason, as in the record of the file.
        why: what the system says; "" if it was not asked.
    """

    def __init__(self, reason: Reason, why: str = "") -> None:
        super().__init__(reason.text)
        self.reason, self.why = reason, why


def _failure(path: str, error: OSError) -> OutputError:
    if error.errno in _FATAL:
        return OutputError(f"{path}: {error.strerror}")
    why = str(error.strerror)
    return UnwritableError(WRITE_FAILED.filled(path=path, why=why), why)


def _add_lost(lost: list[tuple[int, int, str]], chunk: Chunk) -> None:
    """Add an unreadable range, or extend the last one that it continues for the same reason."""
    if lost:
        offset, length, reason = lost[-1]
        if offset + length == chunk.offset and reason == chunk.lost:
            lost[-1] = (offset, length + chunk.length, reason)
            return
    lost.append((chunk.offset, chunk.length, chunk.lost))


def _seek(handle: int, end: int) -> None:
    """Leave a hole up to `end`.

    Raises:
        OSError: EFBIG, if the output's file system does not support files of that size.
    """
    try:
        os.lseek(handle, end, os.SEEK_SET)
    except (OSError, OverflowError) as error:
        what = f"a file of {end:,} bytes and more is larger than can be there"
        raise OSError(errno.EFBIG, what) from error


def hash_zeros(digest: hashlib._Hash, length: int) -> None:
    """Add zeros to a hash, as for a hole."""
    for start in range(0, length, CHUNK_BYTES):
        digest.update(_ZEROS[: length - start])


def write_all(handle: int, data: memoryview | bytes) -> None:
    """Write all of the bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
