"""From a volume to the file systems that were there before."""

from __future__ import annotations

from ext4kit.evidence.source import Source
from ext4kit.evidence.streaming import Progress
from ext4kit.filesystem import FileSystem
from ext4kit.recovery.lost.file_system import LostFileSystem
from ext4kit.recovery.lost.later import Later
from ext4kit.recovery.lost.names import arrange
from ext4kit.recovery.lost.origins import find_origins
from ext4kit.recovery.lost.replaying import replayed
from ext4kit.recovery.lost.tables import find_tables
from ext4kit.recovery.lost.traces import find_traces

MOST = 16  # file systems; of more it is likelier that somebody made them up


def find_lost(
    source: Source, present: FileSystem | None = None, progress: Progress | None = None
) -> list[LostFileSystem]:
    """The file systems that were on a volume before, the one that most is left of first.

    The whole volume is read once, holes of a sparse image left out.

    Args:
        source: the volume.
        present: the file system that is there now, None when there is none that can be read.
        progress: called with (bytes done, bytes in all).
    """
    traces = find_traces(source, progress)
    later = Later(present, source.size)
    found = []
    for origin in find_origins(source, traces, present)[:MOST]:
        tables = find_tables(source, traces, origin)
        fs = replayed(LostFileSystem(source, origin, tables, later))
        arrange(fs, traces)
        found.append(fs)
    return found
