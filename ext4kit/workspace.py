"""All results that are derived from one file system, each computed once at first use."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakValueDictionary

from ext4kit.filesystem.filesystem import LOST
from ext4kit.journal.shared_log import SharedLog
from ext4kit.search_sources import ALL_SOURCES, SearchSource

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.history import History
    from ext4kit.recovery import DeletedFiles
    from ext4kit.scan import KeptScan
    from ext4kit.timeline import Timeline
    from ext4kit.units import Moment, Progress
    from ext4kit.verify import Verification

_Made = TypeVar("_Made", bound=object)


class Workspace(SharedLog):
    """One file system with the results that are derived from it.

    A result is cached only as long as the caller refers to it, so that a long run keeps only what
    it still needs in memory. All results use the same reading of the log.

    Args:
        fs, kept_scan: as for `SharedLog`.
    """

    def __init__(self, fs: FileSystem, kept_scan: KeptScan | None = None) -> None:
        super().__init__(fs, kept_scan)
        self._made: WeakValueDictionary[tuple[object, ...], object] = WeakValueDictionary()

    @property
    def is_lost(self) -> bool:
        """Whether the file system is a lost one."""
        return self.fs.state == LOST

    def history(self) -> History:
        """The states of inodes, and the gaps of the journal, over time."""
        from ext4kit.history import read_history

        return self._once(("history",), lambda: read_history(self))

    def deleted(
        self,
        versions: bool = False,
        sources: Set[SearchSource] = ALL_SOURCES,
        progress: Progress | None = None,
    ) -> DeletedFiles:
        """All deleted files that the evidence records, from `find_deleted`.

        For a lost file system: all its files, from `find_lost_files`.
        """
        from ext4kit.lost import LostFileSystem, find_lost_files
        from ext4kit.recovery import find_deleted

        fs = self.fs
        if isinstance(fs, LostFileSystem):
            return self._once(("lost",), lambda: find_lost_files(fs))
        key = ("deleted", versions, frozenset(sources))
        return self._once(key, lambda: find_deleted(self, versions, sources, progress))

    def timeline(self, progress: Progress | None = None) -> Timeline:
        """The events of the period that the journal covers, from `build_timeline`."""
        from ext4kit.timeline import build_timeline

        return self._once(("timeline",), lambda: build_timeline(self, progress))

    def verification(self) -> Verification:
        """The findings of `verify` about the file system's structures."""
        from ext4kit.verify import verify

        return self._once(("verification",), lambda: verify(self.fs))

    def as_of(self, moment: int | Moment) -> Workspace:
        """A new workspace for the file system after a transaction or at a time.

        Its contents have the grades of recovery (`vouch_by_recovery`).

        Raises:
            RequestError: the journal does not record that state.
        """
        from ext4kit.as_of import file_system_as_of
        from ext4kit.recovery import vouch_by_recovery

        def make() -> Workspace:
            fs = file_system_as_of(self, moment)
            vouch_by_recovery(fs)
            return Workspace(fs)

        return self._once(("as of", moment), make)

    def _once(self, key: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return cast(_Made, found)
