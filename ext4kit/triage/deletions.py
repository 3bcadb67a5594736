"""Counts of deleted files by grade and over time, and lists of the largest and the latest ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

import numpy as np

from ext4kit.history.places import Ground
from ext4kit.recovery import DeletedFiles, Grade
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.recovery.summary import DeletedOverview, is_telling
from ext4kit.triage.bins import histogram
from ext4kit.triage.facts import DeletionStats

GRADES = tuple(Grade)


def deletion_stats(
    deleted: DeletedFiles,
    sources: Set[SearchSource],
    first: int,
    listed: int,
    count_names: bool = True,
) -> DeletionStats:
    """Statistics of the deleted files, with short lists and the latest files for a table."""
    files, grounds = deleted.files, Counter[Ground | None]()
    grade, size, times = np.zeros((3, len(files)), np.int64)
    telling, overview = np.zeros(len(files), bool), DeletedOverview()
    for row, file in enumerate(overview.counting(files)):
        telling[row] = is_telling(file) and file.kind != "directory"
        grade[row], size[row] = GRADES.index(file.grade), min(file.size or 0, 1 << 60)
        times[row] = file.deletion_time or 0
        grounds[file.path_ground] += file.path is not None
    latest = [files[row] for row in np.argsort(-times, kind="stable")[:listed].tolist()]
    by_size = np.argsort(-size, kind="stable")
    largest = by_size[telling[by_size]][:first].tolist()
    by_time = np.argsort(-times, kind="stable")
    newest = by_time[telling[by_time]][:first].tolist()
    names = deleted.removed_names() if count_names else None
    counts = np.bincount(grade, minlength=len(GRADES)).tolist()
    return DeletionStats(
        total=len(files),
        grades=dict(zip(GRADES, counts, strict=True)),
        sizes={each: int(size[grade == place].sum()) for place, each in enumerate(GRADES)},
        grounds={str(each): grounds[each] for each in Ground},
        removed_names=None if names is None else len(names),
        when=histogram(times, grade, tuple(map(str, GRADES))),
        undated=int((times <= 0).sum()),
        largest=tuple(files[row] for row in largest if files[row].size),
        latest=tuple(files[row] for row in newest if files[row].deletion_time),
        folders=tuple(overview.by_folder()[:first]),
        contents=dict(overview.contents),
        fragments=overview.fragments,
        listed=tuple(latest),
        searched=tuple(str(source) for source in SearchSource if source in sources),
    )
