"""Opens a path: gives the evidence, its volumes, and the file system on each volume."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING

from ext4kit.errors import Ext4kitError, RequestError, UnsupportedError
from ext4kit.evidence import Evidence, Volume, open_evidence
from ext4kit.evidence.containers.keys import KeyProvider
from ext4kit.evidence.locator import RAW, Locator
from ext4kit.evidence.openers import ENCRYPTED
from ext4kit.evidence.signatures import JOURNAL_DEVICE, UNKNOWN
from ext4kit.evidence.temporary import keep_off
from ext4kit.problems import Problems, Severity
from ext4kit.units import Moment, Progress

if TYPE_CHECKING:
    from ext4kit.evidence.limits import OpenLimits
    from ext4kit.evidence.source import Source
    from ext4kit.filesystem import FileSystem


class ImageVolume:
    """A volume of an opened image, and the file system on it.

    Attributes:
        facts: facts from the evidence layer (offset, size, kind, label ...).
    """

    def __init__(self, facts: Volume) -> None:
        self.facts = facts

    def filesystem(
        self,
        replay: bool = True,
        superblock: int | None = None,
        journal: Source | None = None,
        as_of: int | Moment | None = None,
    ) -> FileSystem:
        """The file system on this volume.

        Args:
            replay: whether to replay the journal in memory, as the kernel would at mount.
            superblock: block number of the superblock copy to use.
            journal: the external journal device, for a file system that has one.
            as_of: stored tid or a time; the result is then the file system after this transaction,
                or after the last transaction that was committed by that time.

        Raises:
            UnsupportedError: the volume holds no ext2/3/4.
            RequestError: the journal does not record the state after that transaction.
        """
        from ext4kit.filesystem import FileSystem

        fs = FileSystem.from_source(self.facts.source, superblock)
        fs.journal_device = journal
        if as_of is None:
            return _replayed_file_system(fs) if replay else fs
        from ext4kit.as_of import file_system_as_of

        return file_system_as_of(_replayed_file_system(fs), as_of)

    def lost(
        self,
        number: int,
        superblock: int | None = None,
        journal: Source | None = None,
        progress: Progress | None = None,
    ) -> FileSystem:
        """A file system that was overwritten by the present one, or by something else.

        Args:
            number: number of the file system; 1 is the most complete one.
            superblock: block number of the superblock copy of the present file system.
            journal: external journal device of the present file system.
            progress: called with (done, total): bytes that were searched.

        Raises:
            RequestError: there is no evidence of a lost file system with this number.
        """
        from ext4kit.lost import find_lost

        try:
            present: FileSystem | None = self.filesystem(True, superblock, journal)
        except UnsupportedError:
            present = None
        found = find_lost(self.facts.source, present, progress)
        if not found:
            raise RequestError(f"volume {self.facts.index}: no traces of an earlier file system")
        if number > len(found):
            count = f"traces of {len(found)} earlier file systems, not {number}"
            raise RequestError(f"volume {self.facts.index}: {count}")
        return found[number - 1]


def _replayed_file_system(fs: FileSystem) -> FileSystem:
    """`fs` with its journal replayed; `fs` itself if there is nothing to replay."""
    if not fs.superblock.needs_recovery and not fs.superblock.group_number:
        return fs  # a backup superblock does not record whether a recovery is needed
    from ext4kit.journal import Log, replay

    log = Log.open(fs)
    return fs if log is None else fs.with_blocks(replay(log, fs))


class Image:
    """Opened evidence: `with ext4kit.open("disk.img") as image`.

    Attributes:
        evidence: all bytes of the disk, and facts about its container.
        locator: the locator with which the image was opened.
        volumes: the volumes in the order of `evidence.volumes`.
    """

    def __init__(self, evidence: Evidence, locator: Locator) -> None:
        self.evidence, self.locator = evidence, locator
        self.volumes = tuple(ImageVolume(facts) for facts in evidence.volumes)
        self._journals: dict[str, Image] = {}

    @property
    def problems(self) -> Problems:
        """Problems of the image and its partition tables."""
        return self.evidence.problems

    def filesystem(
        self, locator: Locator | None = None, progress: Progress | None = None
    ) -> FileSystem:
        """The file system that a locator names, in the named state.

        Args:
            locator: a locator of this image; by default, the one with which it was opened.
            progress: called with (done, total) during a search for a lost file system.

        Raises:
            RequestError: there is no such volume or state, or a choice is needed.
            UnsupportedError: the volume holds no ext2/3/4.
        """
        where = locator or self.locator
        volume, journal = self.located(where), self._journal(where.journal)
        if where.lost:
            return volume.lost(where.lost, where.superblock, journal, progress)
        replay = where.state != RAW
        return volume.filesystem(replay, where.superblock, journal, where.as_of)

    def located(self, locator: Locator) -> ImageVolume:
        """The volume that a locator names.

        Raises:
            RequestError: there is no such volume, or a choice is needed.
            UnsupportedError: there is no ext volume.
        """
        if not locator.volume or locator.volume.isdecimal():
            return self.volume(int(locator.volume) if locator.volume else None)
        for volume in sorted(self.volumes, key=lambda each: not each.facts.is_ext):
            if self.evidence.place(volume.facts) == locator.volume:
                return volume
        have = ", ".join(map(self.evidence.place, self.evidence.volumes)) or "none"
        text = f"{self.evidence.path}: no volume at {locator.volume} (there are: {have})"
        if any(volume.kind in ENCRYPTED for volume in self.evidence.volumes):
            text += "; an encrypted volume can be read only with its key"
        raise RequestError(text)

    def locator_of(self, volume: ImageVolume, locator: Locator | None = None) -> Locator:
        """The locator with the number of a volume replaced by its place; numbers depend on keys."""
        form = self.evidence.format if self.evidence.disguise else self.locator.form
        place = self.evidence.place(volume.facts)
        found = replace(locator or self.locator, form=form, volume=place)
        if self.located(found) is volume:
            return found
        return replace(found, volume=str(volume.facts.index))  # two volumes have the same place

    def _journal(self, path: str) -> Source | None:
        """The bytes of an external journal device; None without a path."""
        if not path:
            return None
        if path not in self._journals:
            self._journals[path] = open_image(path)
        return self._journals[path].evidence.source

    def volume(self, number: int | None = None) -> ImageVolume:
        """A volume by its number in `volumes`, or the only ext volume.

        Raises:
            RequestError: no such volume, or a choice is needed.
            UnsupportedError: there is no ext volume.
        """
        if number is not None:
            for volume in self.volumes:
                if volume.facts.index == number:
                    return volume
            have = ", ".join(str(volume.facts.index) for volume in self.volumes) or "none"
            raise RequestError(f"{self.evidence.path}: no volume {number} (there are: {have})")
        found = [volume for volume in self.volumes if volume.facts.is_ext]
        if len(found) > 1:
            listed = ", ".join(str(volume.facts.index) for volume in found)
            raise RequestError(
                f"{self.evidence.path}: several ext volumes ({listed}); choose one with --volume"
            )
        if not found:
            kinds = ", ".join(dict.fromkeys(volume.facts.format for volume in self.volumes))
            text = f"{self.evidence.path}: not ext2, ext3 or ext4 (found: {kinds or 'nothing'})"
            if any(volume.facts.kind == JOURNAL_DEVICE for volume in self.volumes):
                text += "; it is the external journal of a file system: give it with --journal to"
                text += " a command that reads the image of that one"
            raise UnsupportedError(text)
        return found[0]

    def close(self) -> None:
        """Release the evidence, and that of external journals."""
        self.evidence.close()
        for journal in self._journals.values():
            journal.close()

    def __enter__(self) -> Image:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_image(
    where: str | PathLike[str] | Locator | Source,
    keys: KeyProvider = (),
    limits: OpenLimits | None = None,
) -> Image:
    """Open an image in any container, the first part of a split image, or a device node, read-only.

    If a file is both a container and a disk, the reading with more known data is used.

    Args:
        where: path of the image, a locator, or a source with the bytes of a disk.
        keys: passphrases and contents of key files for encrypted volumes; or a function that
            returns those for the volume with a given UUID.
        limits: limits of opening; by default, the usual ones.

    Raises:
        AccessError: the image cannot be opened or read, or no passphrase fits.
        RequestError: the image ends before the offset of the locator.
        UnsupportedError: the image has a feature that is not supported or needs an extra.
    """
    if isinstance(where, Locator):
        found = open_evidence(where.path, keys, limits, where.form or None, where.offset)
        return Image(_weighed(found), where)
    found = open_evidence(where, keys, limits)
    path = fspath(where) if isinstance(where, str | PathLike) else where.name
    return Image(_weighed(found), Locator(path))


def _weighed(evidence: Evidence) -> Evidence:
    """The reading with more known data; the file itself if both have the same amount.

    From now on no temporary file is written to it.
    """
    keep_off(evidence.files)
    disk = evidence.other
    if disk is None:
        return evidence
    chosen, left = evidence, disk
    if _known_bytes(disk) >= _known_bytes(evidence):
        chosen, left = disk, evidence
    chosen.other, left.other = left, None
    text = f"{chosen.disguise}; it is read as {chosen.format}, where it has more known data;"
    text += f" --format {left.format} reads the other"
    chosen.problems.add(chosen.path.name, text, Severity.WARNING)
    return chosen


def _known_bytes(evidence: Evidence) -> tuple[int, int]:
    """(Bytes of ext volumes with a root directory, bytes of all volumes of a known kind)."""
    known = [volume for volume in evidence.volumes if volume.kind != UNKNOWN]
    rooted = [volume for volume in known if volume.is_ext and _has_root(volume)]
    return sum(each.source.size for each in rooted), sum(each.source.size for each in known)


def _has_root(volume: Volume) -> bool:
    from ext4kit.filesystem import FileSystem
    from ext4kit.filesystem.inodes import ROOT

    try:
        return FileSystem.from_source(volume.source).inode(ROOT).is_directory
    except Ext4kitError:
        return False
