"""Find the lost file systems of a volume."""

from __future__ import annotations

from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.lost.artifacts import scan_for_artifacts
from ext4kit.lost.file_system import LostFileSystem
from ext4kit.lost.identify import identify_file_systems
from ext4kit.lost.inode_tables import locate_inode_tables
from ext4kit.lost.overwriting import OverwritingFs
from ext4kit.lost.replaying import replay_if_complete
from ext4kit.lost.tree import rebuild_tree
from ext4kit.units import Progress

MAX_FILE_SYSTEMS = 16  # maximum lost file systems; a volume that shows more was probably forged


def find_lost(
    source: Source, present: FileSystem | None = None, progress: Progress | None = None
) -> list[LostFileSystem]:
    """Find the lost file systems of a volume, the most complete one first.

    The whole volume is read once, without the holes of a sparse image.

    Args:
        source: the volume.
        present: the file system that is there now, None without a readable one.
        progress: called with (bytes done, total bytes).
    """
    traces = scan_for_artifacts(source, progress)
    later = OverwritingFs(present, source.size)
    found = []
    for origin in identify_file_systems(source, traces, present)[:MAX_FILE_SYSTEMS]:
        tables = locate_inode_tables(source, traces, origin)
        fs = replay_if_complete(LostFileSystem(source, origin, tables, later))
        rebuild_tree(fs, traces)
        found.append(fs)
    return found
