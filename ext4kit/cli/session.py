"""Common part of all commands: opening the file system, reporting problems at the end."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from ext4kit import __version__
from ext4kit.cli.exits import INCOMPLETE, IncompleteError
from ext4kit.cli.options import CommonOptions
from ext4kit.cli.outputs import check_apart, check_places, unfinished_files
from ext4kit.cli.progress import progress
from ext4kit.cli.telling import tell_line
from ext4kit.cli.values import OpenTime, TypedTime
from ext4kit.cli.zones import tell_zone, zone_of_image
from ext4kit.errors import (
    AccessError,
    CorruptError,
    Ext4kitError,
    NotFoundError,
    OutputError,
    RequestError,
    UnsupportedError,
)
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.locator import Locator
from ext4kit.evidence.lost import unreadable_ranges
from ext4kit.evidence.signatures import UNKNOWN
from ext4kit.evidence.temporary import keep_off
from ext4kit.fields import FileType, Record
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.memory import use_one_arena
from ext4kit.opening import Image, ImageVolume, open_image
from ext4kit.output.lock import locked
from ext4kit.problems import Problem, Problems, Severity
from ext4kit.report.phrases import command_text
from ext4kit.report.records import (
    problem_lines,
    problem_record,
    write_lines,
    write_record,
    write_records,
)
from ext4kit.report.safe import unprinted
from ext4kit.report.times import exact_time
from ext4kit.scan import KeptScan
from ext4kit.units import NANOSECONDS, Moment, Progress
from ext4kit.zones import times_in

if TYPE_CHECKING:
    from ext4kit.cli.answers import Answers
    from ext4kit.filesystem.view import View
    from ext4kit.roots import LinuxRoot
    from ext4kit.selection import Selection
    from ext4kit.workspace import Workspace

_MOST_SECRET = 8 << 20  # bytes, the limit of cryptsetup for key files
_HINT_BYTES = 4 << 30  # maximum data to search for superblocks when an image is rejected


@dataclass
class Session:
    """An opened file system and its image.

    Attributes:
        is_incomplete: set by a command whose result is incomplete; the exit code is then 1.
    """

    options: CommonOptions
    image: Image
    volume: ImageVolume
    fs: FileSystem
    is_incomplete: bool = False

    @cached_property
    def workspace(self) -> Workspace:
        """The results that are derived from the file system, each computed once."""
        from ext4kit.workspace import Workspace

        path = self.options.kept_scan
        return Workspace(self.fs, KeptScan(path, __version__) if path else None)

    @cached_property
    def has_former(self) -> bool:
        """Whether the volume held another file system before."""
        from ext4kit.lost.quick_check import has_former_file_system

        return has_former_file_system(self.fs, self.volume.facts.source)

    @cached_property
    def answers(self) -> Answers:
        """The messages for empty answers."""
        from ext4kit.cli.answers import Answers

        return Answers(self.workspace, self.options, self.step, lambda: self.has_former)

    def time_of(self, given: TypedTime | None) -> int | None:
        """A typed time in ns since 1970; for a relative time, prints what it counts from."""
        if not isinstance(given, OpenTime):
            return given
        return _closed(self.options, given, lambda: self.workspace.last_moment)

    def target(self, typed: str) -> bytes:
        """A typed path; in the form in which paths are printed where there is no literal one."""
        path = os.fsencode(typed)
        tree = self.root_view or (self.fs if self.options.view == LIVE else self.view)
        for each in (path, unprinted(path)):
            with suppress(Ext4kitError):
                tree.lookup(each)
                return each
        return path

    def inode_text(self, number: int) -> str:
        """That an inode number does not exist or was never used; "" else."""
        last = self.fs.superblock.inodes_count
        if not 1 <= number <= last:
            return f"no inode {number}: this file system has inodes 1 to {last:,}"
        if self.fs.as_of is not None or self.options.view != LIVE:
            return ""
        rows, readable = self.fs.inode_rows(np.array([number]))
        in_use = self.fs.bitmaps.inodes_in_use(np.array([number]))[0]
        is_used = in_use or rows.any() or not readable.all()
        return "" if is_used else f"inode {number} was never used"

    def has_path(self, path: bytes) -> bool:
        """Whether a path exists; with `--root`, in this root."""
        return self.kind_at(path) is not None

    def kind_at(self, path: bytes) -> FileType | None:
        """The type of what exists at a path, None for nothing; with `--root`, in this root."""
        with suppress(Ext4kitError):
            if self.root_view is not None:
                return self.root_view.lookup(path).kind
            return self.fs.inode(self.fs.lookup(path)).kind
        return None

    def check_used(self, target: bytes) -> None:
        """Reject a target such as `<3000>` if the inode was never used.

        Raises:
            RequestError: the bytes of the inode are all zero.
        """
        number = target[1:-1] if target[:1] + target[-1:] == b"<>" else b""
        text = self.inode_text(int(number)) if number.isdigit() else ""
        if text:
            raise RequestError(text)

    def step(self, title: str) -> AbstractContextManager[Progress | None]:
        """The progress of one long step, shown only on a terminal."""
        return progress(self.options.quiet, title)

    @cached_property
    def view(self) -> View:
        """The tree that `--view` selects."""
        from ext4kit.views.opening import open_view

        if self.options.as_of is not None and self.options.view != LIVE:
            raise RequestError("--as-of reads the live tree alone; omit --view")
        with self.step("searching") as tell:
            return open_view(self.workspace, self.options.view, tell)

    @cached_property
    def roots(self) -> list[LinuxRoot]:
        """The Linux roots of the image."""
        from ext4kit.roots import find_roots

        return find_roots(self.workspace)

    @cached_property
    def root(self) -> LinuxRoot | None:
        """The Linux root that `--root` selects; None without it, or for the file system's own.

        Raises:
            RequestError: there is none of this name.
        """
        found = self._named_root
        return None if found is None or found.is_own else found

    @cached_property
    def _named_root(self) -> LinuxRoot | None:
        from ext4kit.roots import root_named

        if (name := self.options.root) is None:
            return None
        if self.options.lost:
            raise RequestError("--root selects a root of the present file system; omit --lost")
        try:
            return root_named(self.roots, name)
        except NotFoundError as error:
            listed = command_text("roots", self.options.image)
            raise RequestError(f"{error}; {listed} lists them") from error

    def in_root(self, selection: Selection) -> Selection:
        """A selection of files in the Linux root that `--root` selects; its paths are in this root.

        Raises:
            RequestError: there is none of this name.
        """
        from ext4kit.roots.layers import paths_in_root

        if (root := self._named_root) is None:
            return selection
        return dataclasses.replace(selection, in_root=paths_in_root(root, self.roots))

    @property
    def chosen_roots(self) -> list[LinuxRoot | None]:
        """The root that `--root` selects, else the file system's own, None, and all in it."""
        if self.options.root is not None:
            return [self.root]
        return [None, *(root for root in self.roots if not root.is_own)]

    @cached_property
    def root_view(self) -> View | None:
        """The tree of the Linux root that `--root` selects, None as for `root`."""
        from ext4kit.roots import root_view

        return None if self.root is None else root_view(self.fs, self.root)

    @property
    def locator(self) -> Locator:
        """The address of the file system, in the state that is read."""
        return self.image.locator_of(self.volume, self.options.locator)

    @property
    def problems(self) -> tuple[Problems, Problems]:
        """Problems of the image, and of the file system."""
        return self.image.problems, self.fs.problems

    @property
    def evidence_files(self) -> tuple[Path, ...]:
        """All files that are read as evidence, including an external journal's image."""
        return _evidence_files(self.image, self.options)

    def vouch_for_contents(self) -> None:
        """With --as-of, also treat contents as certain that the recovery grades intact."""
        if self.options.as_of is not None:
            from ext4kit.recovery import vouch_by_recovery

            vouch_by_recovery(self.fs)


def show(options: CommonOptions, records: Iterable[Record], lines: Iterable[str]) -> int:
    """Print a result as records (with `--json`) or as lines, and return their number."""
    if options.json:
        return write_records(records)
    tell_zone()
    return write_lines(lines)


@contextmanager
def opened(
    options: CommonOptions,
    replay: bool | None = None,
    folder: Path | None = None,
    files: Sequence[Path] = (),
    is_resumed: bool = False,
) -> Iterator[Session]:
    """Open the selected file system; report its problems at the end.

    The outputs of the command are checked before any evidence is read.

    Args:
        options: the shared options.
        replay: overrides `options.replay`.
        folder: the output folder.
        files: the output files.
        is_resumed: go on with what is in the folder.

    Raises:
        click.exceptions.Exit: 1, if problems make the result incomplete.
        IncompleteError: the evidence failed after it had been opened.
        RequestError: an output cannot be used, or another run writes into the folder.
    """
    _check_state(options)
    if replay is not None:
        options = dataclasses.replace(options, replay=replay)
    with _checked(folder, files, is_resumed), image_of(options) as image:
        evidence = _evidence_files(image, options)
        keep_off(evidence)
        check_apart((*((folder,) if folder else ()), *files), evidence)
        volume = chosen_volume(image, options)
        present = cache(partial(_present, image, volume, options))
        with times_in(options.zone or zone_of_image(present())):
            options = _with_moment(present, options)
            fs = present() if options.as_of is None else _filesystem(image, volume, options)
            session = Session(options, image, volume, fs)
            try:
                yield session
            except Ext4kitError as error:
                _tell_all(session)
                final = _final(session, error)
                if final is error:
                    raise
                raise final from error
            if _tell_all(session) or session.is_incomplete:
                raise click.exceptions.Exit(INCOMPLETE)


@contextmanager
def _checked(folder: Path | None, files: Sequence[Path], is_resumed: bool) -> Iterator[None]:
    """Check the outputs, and keep the folder locked."""
    with locked(folder):
        check_places(folder, files, is_resumed)
        for path in unfinished_files(files):
            tell_line(f"note: {path} is what a run that did not finish left")
        yield


def _final(session: Session, error: Ext4kitError) -> Ext4kitError | IncompleteError:
    """The error that ends a command: adds the nearest paths, or marks a read as incomplete."""
    if isinstance(error, NotFoundError):
        number = error.path.strip(b"<>")
        if number.isdigit():
            if number == error.path:
                return RequestError(f"{error}; an inode number is written '<{int(number)}>'")
            if text := session.inode_text(int(number)):
                return RequestError(text)
        if session.options.root is not None:
            return RequestError(str(error))
        return RequestError(f"{error}{session.answers.nearest_text(error.path)}")
    is_reading = isinstance(error, AccessError | CorruptError)
    return (
        IncompleteError(str(error)) if is_reading and not isinstance(error, OutputError) else error
    )


def _check_state(options: CommonOptions) -> None:
    """Refuse an invalid state, and a locator with a state that the command cannot read.

    Raises:
        RequestError: options contradict each other, or the command reads only the present state.
    """
    if options.as_of is not None and not options.replay:
        raise RequestError("--as-of reads the state from the journal; omit --no-replay")
    if options.as_of is not None and options.lost:
        raise RequestError("--as-of cannot be combined with --lost: the journal is lost as well")
    if options.kept_scan is not None and options.lost:
        raise RequestError("--scan is of the present file system; omit --lost")
    if not options.is_locator:
        return
    command = click.get_current_context().command
    offered = {parameter.name for parameter in command.params}
    for is_wanted, option in ((options.as_of is not None, "as_of"), (options.lost, "has_lost")):
        if is_wanted and option not in offered:
            raise RequestError(f"{options.locator}: {command.name} does not read this state")


def _tell_all(session: Session) -> int:
    """Report all problems and the unreadable part of the image. Returns the number of errors."""
    errors = tell(session.problems, session.options)
    table = unreadable_ranges(session.image.evidence.source)
    if errors and len(table):
        lost = int((table[:, 1] - table[:, 0]).sum())
        where = "one range" if len(table) == 1 else f"{len(table):,} ranges"
        tell_line(f"ext4kit: {lost:,} bytes of the image are unreadable, in {where}")
    return errors


def tell(collected: tuple[Problems, ...], options: CommonOptions) -> int:
    """Print problems: in JSON as records, else on stderr. Returns the number of errors."""
    total, errors = sum(map(len, collected)), sum(each.errors for each in collected)
    kept: list[Problem] = [problem for each in collected for problem in each]
    if options.json:
        for problem in kept:
            write_record(problem_record(problem))
    if options.quiet:
        kept = [problem for problem in kept if problem.severity is Severity.ERROR]
        total = errors
    sys.stdout.flush()
    for line in problem_lines(kept, total, errors):
        tell_line(line)
    return errors


def passphrases(password_files: Iterable[Path], key_files: Iterable[Path]) -> tuple[bytes, ...]:
    """Passphrases for encrypted volumes: first lines of password files, whole key files.

    Raises:
        RequestError: a file is unreadable, or too long for a key.
    """
    return (*map(first_line, password_files), *map(_secret, key_files))


def first_line(path: Path) -> bytes:
    """The first line of a file with a secret.

    Raises:
        RequestError: the file is unreadable, or too long for a key.
    """
    return _secret(path).split(b"\n", 1)[0]


def _secret(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(_MOST_SECRET + 1)
    except OSError as error:
        raise RequestError(f"{path}: could not be read: {error.strerror}") from error
    if len(found) > _MOST_SECRET:
        raise RequestError(f"{path}: too long for a key (more than {_MOST_SECRET:,} bytes)")
    return found


def image_of(options: CommonOptions) -> AbstractContextManager[Image]:
    """The image that the options select; at the end, it is closed unless it was open before."""
    return _image(options) if options.opened is None else nullcontext(options.opened)


def _image(options: CommonOptions) -> Image:
    use_one_arena()
    ask = _asked if sys.stdin.isatty() and sys.stderr.isatty() else None
    limits = OpenLimits(options.kdf_limit, options.kdf_memory << 20, options.unpack_limit, ask)
    keys = passphrases(options.password_files, options.key_files)
    return open_image(options.locator, keys, limits)


def _asked(facts: str) -> bool:
    """Ask on the terminal whether to go on."""
    return click.confirm(f"{facts}; go on?", err=True)


def chosen_volume(image: Image, options: CommonOptions) -> ImageVolume:
    """The requested volume, or the only possible one.

    Raises:
        RequestError: there are several file systems, which are listed on stderr, and none is
            selected.
        UnsupportedError: there is no file system.
    """
    insisted = options.offset is not None or options.superblock is not None or options.lost
    if options.volume is None and insisted and len(image.volumes) == 1:
        return image.volumes[0]
    try:
        return image.located(options.locator)
    except RequestError:
        from ext4kit.report.volumes import volume_lines

        for line in volume_lines([volume.facts for volume in image.volumes]):
            tell_line(line)
        raise
    except UnsupportedError as error:
        tell((image.problems,), options)
        raise UnsupportedError(f"{error}{_elsewhere(image, options)}") from error


def _elsewhere(image: Image, options: CommonOptions) -> str:
    """The superblocks found, with the command that opens them, as the end of a message.

    A format that was detected at the start may have been written over a file system.

    The search ends after `_HINT_BYTES` of data, because a user with the wrong image needs a quick
    answer.
    """
    from ext4kit.filesystem.found import find_file_systems
    from ext4kit.report.volumes import found_text

    source = image.evidence.source
    with progress(options.quiet, "searching for superblocks") as show:
        found = find_file_systems(source, Problems(), show, _HINT_BYTES)
    text = found_text(found, str(options.image))
    if not text and source.size > _HINT_BYTES:
        text = f"`ext4kit volumes {options.image} --scan` searches the whole image for superblocks"
    return text and f"; {text}"


def _evidence_files(image: Image, options: CommonOptions) -> tuple[Path, ...]:
    return (*image.evidence.files, *((options.journal,) if options.journal else ()))


def _filesystem(image: Image, volume: ImageVolume, options: CommonOptions) -> FileSystem:
    locator = dataclasses.replace(options.locator, volume=str(volume.facts.index))
    where = f"{options.image}: volume {volume.facts.index}"
    try:
        with progress(
            options.quiet or not options.lost, "searching for a lost file system"
        ) as show:
            fs = image.filesystem(locator, show)
    except RequestError as error:
        if not options.lost or volume.facts.is_ext:
            raise RequestError(f"{error}{_instead(options)}") from error
        raise RequestError(f"{error}{_elsewhere(image, options)}") from error
    except UnsupportedError as error:
        if volume.facts.is_ext:
            raise
        text = str(error)
        if volume.facts.kind != UNKNOWN:
            text = f"{where} is {volume.facts.format}, not ext2, ext3 or ext4"
        raise UnsupportedError(f"{text}{_elsewhere(image, options)}") from error
    if isinstance(options.as_of, Moment) and not options.quiet:
        _tell_moment(fs, options.as_of.time)
    return fs


def _present(image: Image, volume: ImageVolume, options: CommonOptions) -> FileSystem:
    """The file system without `--as-of`."""
    return _filesystem(image, volume, dataclasses.replace(options, as_of=None))


def _with_moment(present: Callable[[], FileSystem], options: CommonOptions) -> CommonOptions:
    """The options with an `--as-of` such as `2h` replaced by a time, from the live file system."""
    if not isinstance(options.as_of, OpenTime):
        return options
    from ext4kit.journal import SharedLog

    found = _closed(options, options.as_of, lambda: SharedLog(present()).last_moment)
    return dataclasses.replace(options, as_of=Moment(found))


def _closed(options: CommonOptions, given: OpenTime, last_moment: Callable[[], int]) -> int:
    """A typed time in ns since 1970; for a relative time, prints what it counts from."""
    if not given.is_ago:
        return given.at(0)
    now = time.time_ns() if options.from_now else last_moment()
    found = given.at(now)
    ground = "the clock" if options.from_now else "the last moment of the image"
    hint = "" if options.from_now else "; --from-now counts from the clock"
    times = f"{exact_time(found)}, counted from {ground}, {exact_time(now)}"
    if not options.quiet:
        tell_line(f"note: {given.text} is {times}{hint}")
    return found


def _instead(options: CommonOptions) -> str:
    """The commands to use if the requested state is not recorded, as the end of a message."""
    image = options.image
    if options.quiet or not (options.lost or options.as_of is not None):
        return ""
    if options.lost:
        scan, now = command_text("volumes", image, "--scan"), command_text("ls", image, "-r")
        return f"; {scan} searches for superblocks, {now} lists the present file system"
    return (
        f"; {command_text('info', image)} describes the journal, {command_text('deleted', image)} "
        "lists deleted files"
    )


def _tell_moment(fs: FileSystem, wanted: int) -> None:
    """Print which transaction a time selected, and how much earlier it was committed."""
    text = f"note: the state after transaction {fs.as_of}"
    if fs.as_of_time >= 0:
        before = (wanted - fs.as_of_time) / NANOSECONDS
        text += f", committed {exact_time(fs.as_of_time)}, {before:,.3f} s before that time"
    tell_line(text)
