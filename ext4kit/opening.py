"""Opens a path and gives its file systems: evidence, its volumes, and each volume replayed."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING

from ext4kit.errors import Ext4kitError, RequestError, UnsupportedError
from ext4kit.evidence import Evidence, Volume, open_evidence
from ext4kit.evidence.signatures import JOURNAL_DEVICE, UNKNOWN
from ext4kit.problems import Problems, Severity
from ext4kit.units import Moment

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
            replay: overlay the unreplayed journal, in memory, as the kernel would at mount.
            superblock: block number of the superblock copy to use.
            journal: the external journal device, for a file system that has one.
            as_of: stored tid or a time; gives the file system after this transaction, or after the
                last one that was committed by that time, from the journal.

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


def _replayed_file_system(fs: FileSystem) -> FileSystem:
    """`fs` after journal recovery; `fs` itself when there is nothing to replay."""
    if not fs.superblock.needs_recovery and not fs.superblock.group_number:
        return fs  # a backup superblock does not record this
    from ext4kit.journal import Log, replay

    log = Log.open(fs)
    return fs if log is None else fs.with_blocks(replay(log, fs))


class Image:
    """Opened evidence: `with ext4kit.open("disk.img") as image`."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.volumes = tuple(ImageVolume(facts) for facts in evidence.volumes)

    @property
    def problems(self) -> Problems:
        """Problems of the image and its partition tables."""
        return self.evidence.problems

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
        """Release the evidence."""
        self.evidence.close()

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
    path: str | PathLike[str],
    phrases: Sequence[bytes] = (),
    limits: OpenLimits | None = None,
    form: str | None = None,
    offset: int | None = None,
) -> Image:
    """Open an image in any container, the first part of a split image, or a device node, read-only.

    Of a file that is a container and a disk as well, the reading with more known data is taken.

    Args:
        path: the image.
        phrases: passphrases and contents of key files, for encrypted volumes.
        limits: of what opening may cost; the usual ones without it.
        form: one of `containers.FORMATS`, to read it as nothing else.
        offset: byte at which the only volume starts; no partition table is read.

    Raises:
        AccessError: it cannot be opened or read, or no passphrase fits.
        RequestError: it ends before `offset`.
        UnsupportedError: it has a feature that is unknown to this version or needs an extra.
    """
    return Image(_weighed(open_evidence(path, phrases, limits, form, offset)))


def _weighed(evidence: Evidence) -> Evidence:
    """The reading with more known data, the file itself where both have as much."""
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
    """Bytes of the ext volumes that have a root directory, and of all volumes of a known kind."""
    known = [volume for volume in evidence.volumes if volume.kind != UNKNOWN]
    rooted = [volume for volume in known if volume.is_ext and _has_root(volume)]
    return sum(each.source.size for each in rooted), sum(each.source.size for each in known)


def _has_root(volume: Volume) -> bool:
    from ext4kit.filesystem import FileSystem
    from ext4kit.filesystem.filesystem import ROOT

    try:
        return FileSystem.from_source(volume.source).inode(ROOT).is_directory
    except Ext4kitError:
        return False
