"""The complete comparison."""

from __future__ import annotations

import math
import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ext4kit.crosscheck.causes import BIGALLOC
from ext4kit.crosscheck.contents import ContentComparison
from ext4kit.crosscheck.deleted import DeletedName, compare_deleted
from ext4kit.crosscheck.fields import FIELDS, FieldComparison
from ext4kit.crosscheck.matching import TreeWalk
from ext4kit.crosscheck.names import NameComparison
from ext4kit.crosscheck.result import CrossCheck
from ext4kit.crosscheck.second import NoAnswerError, TskClient
from ext4kit.crosscheck.sides import TreeView
from ext4kit.evidence.raw import bytes_on_disk
from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.features import RoCompat

Show = Callable[[int, int], None]
PATIENCE = 120.0
_AT_LEAST = 2 * PATIENCE
_SLOWEST = 4 << 20  # bytes of content that The Sleuth Kit reads per second
_SLOWEST_NAMES = 32 << 20  # bytes of evidence that it processes per second when it reads names


@dataclass(frozen=True, slots=True)
class CrossCheckOptions:
    """Scope and time limits of a comparison.

    Attributes:
        hashes: whether to compare contents.
        deleted: ext4kit's names of deleted files to compare; None for no comparison.
        patience: maximum seconds for one answer of The Sleuth Kit.
        limit: maximum seconds for all answers of The Sleuth Kit together.
        folders: directories of the evidence's files, which The Sleuth Kit's process may open.
        walking: called with (names done, total names); reading: called likewise for contents.
    """

    hashes: bool = False
    deleted: Sequence[DeletedName] | None = None
    patience: float = PATIENCE
    limit: float = math.inf
    folders: Sequence[Path] = ()
    walking: Show | None = None
    reading: Show | None = None


def bytes_held(files: Sequence[Path], size: int) -> int:
    """Bytes that the evidence occupies: stored bytes of files, else `size`."""
    facts = [path.stat() for path in files]
    are_files = all(stat.S_ISREG(each.st_mode) for each in facts)
    return sum(map(bytes_on_disk, facts)) if are_files else size


def usual_limit(held: int, hashes: bool) -> float:
    """Seconds for all answers of The Sleuth Kit: several times what undamaged evidence needs.

    Args:
        held: bytes that the evidence occupies on its disk; holes take no time.
        hashes: whether contents are compared.
    """
    return _AT_LEAST + held / (_SLOWEST if hashes else _SLOWEST_NAMES)


def crosscheck(
    source: Source,
    now: FileSystem,
    raw: FileSystem | None,
    options: CrossCheckOptions | None = None,
) -> CrossCheck:
    """Compare ext4kit's reading of a volume's live tree with The Sleuth Kit's.

    Args:
        source: the bytes of the volume, for The Sleuth Kit.
        now: ext4kit's reading of the volume.
        raw: ext4kit's reading without the changes of the journal, if `now` has any.
        options: scope and time limits.
    """
    options = CrossCheckOptions() if options is None else options
    outcome = CrossCheck(None, replayed=raw is not None)
    try:
        with closing(TskClient(source, options.patience, options.limit, options.folders)) as second:
            outcome.hello = second.hello
            ours, before = TreeView(now), None if raw is None else TreeView(raw)
            pairs = TreeWalk(second, ours, before).run(options.walking)
            fields = FieldComparison(ours, before, pairs, second.hello.is_ext4)
            outcome.directories, outcome.entries = len(pairs.seen), fields.count
            outcome.fields = len(fields.tsk) * len(FIELDS)
            names = NameComparison(ours, before, pairs)
            outcome.groups += names.groups(outcome)
            outcome.groups += fields.groups()
            if options.deleted is not None:
                group, outcome.deleted_names = compare_deleted(
                    pairs.deleted, options.deleted, names.cause_at
                )
                outcome.groups.append(group)
            if options.hashes:
                contents = ContentComparison(second, fields.now, ours, before, outcome)
                outcome.groups.append(contents.group(options.reading))
    except NoAnswerError as error:
        known = f" ({BIGALLOC})" if RoCompat.BIGALLOC in now.superblock.features else ""
        outcome.refusal = f"{error}{known}"
    return outcome
