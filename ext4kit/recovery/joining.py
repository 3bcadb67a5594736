"""Contents without an inode joined to freed inodes without a map, by the order on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ext4kit.parsers.inode import InodeFlags
from ext4kit.past.states import NEVER
from ext4kit.recovery.arranging import FEW_CHANGES, Among, Scene, lying_of, near, parts, went_last
from ext4kit.recovery.candidates import NOTHING
from ext4kit.recovery.columns import Columns
from ext4kit.recovery.contents import CARVED, IN_LOG, Contents, head_of
from ext4kit.recovery.sources.alignment import Aligned, Files, Progress, align
from ext4kit.recovery.sources.laying import LARGE
from ext4kit.recovery.sources.likeness import ending, fits, like
from ext4kit.recovery.sources.mentions import HEAD, Mentions
from ext4kit.recovery.sources.order import NOTHING as NO_MATCH
from ext4kit.recovery.sources.order import match_in_order
from ext4kit.recovery.sources.paths import FoundName
from ext4kit.recovery.turns import KnownFiles, group_of, known_files

BETWEEN = "order on the disk: made between neighbours whose blocks are known"
IN_ORDER = "order on the disk: made one after the other, as they lie"
FITTING, SPEAKING = "its name fits what it holds", "what it holds mentions its name"
SURE = 0.99
SURE_IN_RUINS = 0.995  # where many files have no content, or many contents no file
RUINS = 0.1
SURE_IN_DISORDER = 0.999  # where files lie out of the order in which they were made
DISORDER = 0.05  # of them
CLAIMED = 0.01  # by all other contents together
TWICE = 1.1  # so much claimed, something is wrong around a file
AROUND = 2  # files on either side
CONTRADICTED = 0.2  # a content like that is so much rarer under such a name
SHORTLY = 8  # files
OUTSPOKEN = 20  # what a content says of its name stands against doubts of the order
MOST_CONTENTS = 100_000  # where contents are this many, only neighbours that are known count


@dataclass(frozen=True, slots=True)
class Joined:
    """What order gives a freed inode.

    Attributes:
        content: row in the contents.
        basis: what that rests on.
    """

    content: int
    basis: str


def join_contents(
    columns: Columns,
    contents: Contents,
    names: Sequence[FoundName | None],
    progress: Progress | None = None,
) -> dict[int, Joined]:
    """Candidate without a map -> the content that is its own by its place among others.

    Args:
        columns: the candidates.
        contents: found without an inode.
        names: of each candidate, None where it is not known.
        progress: called with (steps done, steps in all).
    """
    places = _asked(columns)
    rows = np.flatnonzero(contents.source != IN_LOG)
    rows = rows[np.argsort(contents.first[rows], kind="stable")]
    if not len(places) or not len(rows):
        return {}
    known = known_files(columns)
    joined = _between(columns, contents, known, places)
    if len(rows) > MOST_CONTENTS:
        return joined
    table = columns.past.states.table.take(columns.found.row[places])
    places = places[np.lexsort((table.number, table.crtime))]
    scene = Scene(columns, contents, known, names, places, rows)
    for some, lying in parts(scene):
        for place in places[some].tolist():
            joined.pop(place, None)
        joined |= _in_order(scene, some, lying, progress)
    return joined


def _asked(columns: Columns) -> Any:
    """Candidates that are regular files, were freed, and of which no block is known."""
    found, table = columns.found, columns.past.states.table
    row = found.row
    # Freeing blocks sets mtime; an inode that never had any keeps its own.
    freed = (table.links_count[row] == 0) & (table.mtime[row] == table.ctime[row])
    freed &= ((table.mode[row] & 0xF000) == 0x8000) & (found.source == NOTHING)
    freed &= (found.death != NEVER) & (table.crtime[row] > 0)
    return np.flatnonzero(freed & (table.flags[row] & int(InodeFlags.INLINE_DATA) == 0))


def _between(
    columns: Columns, contents: Contents, known: KnownFiles, places: Any
) -> dict[int, Joined]:
    """Those that fill all that lies between two neighbours whose blocks are known."""
    table, row = columns.past.states.table, columns.found.row
    places = places[went_last(columns, row[places])]
    places = places[table.version[row[places]] <= FEW_CHANGES]  # more: it can lie elsewhere
    carved = np.flatnonzero(contents.source == CARVED)
    carved = carved[np.argsort(contents.first[carved])]
    if not len(places) or not len(carved):
        return {}
    number = table.number[row[places]]
    wanted = (group_of(columns.fs, number), table.crtime[row[places]], number)
    lying = (contents.first[carved], contents.end[carved])
    match = match_in_order(known.placed.take(known.regular), wanted, lying, known.taken)
    pairs = zip(places.tolist(), match.tolist(), strict=True)
    return {place: Joined(int(carved[at]), BETWEEN) for place, at in pairs if at != NO_MATCH}


def _in_order(
    scene: Scene, some: Any, contents: Any, progress: Progress | None
) -> dict[int, Joined]:
    """Those to which all around them, their names and their contents leave one answer."""
    told = [scene.names[at] for at in some.tolist()]
    mentions, likes = Mentions([_parts_of(name) for name in told]), []
    for at in contents.tolist():
        row = int(scene.rows[at])
        head = head_of(scene.contents, row, HEAD)
        likes.append(like(head, int(scene.contents.signature[row])))
        mentions.add(head)
    endings, called = np.unique(
        [ending(name.name if name else None) for name in told], return_inverse=True
    )
    liking, spoken = np.array(likes), mentions.found()
    table = fits(endings.tolist(), liking)
    files = Files(called + 1, scene.absent(some, len(contents)), scene.folder[some])
    named = np.array([name is not None for name in told])
    evidence = _Evidence(named, table[files.called], liking, spoken)
    among, strange = Among(scene, some, contents), 1 - len(some) / len(contents)
    if strange > RUINS and among.fits_in:
        aligned = align(*among.placed(files, liking, spoken, strange), table, progress)
        return _judged(
            (scene, some, contents), among.asked_of(aligned), evidence, among.held(aligned)
        )
    lying = lying_of(scene, some, contents, liking)
    aligned = align(lying, files, spoken, table, progress)
    return _judged((scene, some, contents), aligned, evidence, np.ones(len(contents), bool))


def _judged(
    asked: tuple[Scene, Any, Any], aligned: Aligned, evidence: _Evidence, held: Any
) -> dict[int, Joined]:
    """The pairs that are sure."""
    scene, some, contents = asked
    left_over = 1 - len(some) / len(contents)
    mixed = _out_of_order(scene.columns, scene.table)[some]
    rows = scene.rows[contents]
    large = scene.contents.end[rows] - scene.contents.first[rows] > LARGE
    found = {}
    for at in _sure(aligned, left_over < -RUINS, held).tolist():
        content, file = int(aligned.content[at]), int(aligned.file[at])
        fit, mention = evidence.of(content, file)
        odd = not evidence.named[file]  # order alone is wrong too often
        odd |= fit <= CONTRADICTED or (mixed[file] and mention < OUTSPOKEN)
        if left_over > RUINS and mention <= 1:
            odd |= large[content] or fit <= 1
        if not odd and (mention > 1 or not evidence.speaks_of_another(content, file)):
            found[int(scene.places[some[file]])] = Joined(int(rows[content]), _basis(fit, mention))
    return found


def _parts_of(name: FoundName | None) -> tuple[bytes, bytes] | None:
    """(name, name of the folder it is in) as far as they are known."""
    if name is None:
        return None
    above = (name.path or name.below or b"").rpartition(b"/")[0]
    folder = above.rpartition(b"/")[2]
    return name.name, b"" if folder.startswith(b"inode-") else folder


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What speaks for pairs beside their order.

    Attributes:
        named: bool per file.
        fits: float (files, kinds); like: kind of each content.
        spoken: what contents say of names.
    """

    named: Any
    fits: Any
    like: Any
    spoken: dict[int, tuple[Any, Any]]

    def of(self, content: int, file: int) -> tuple[float, float]:
        """(how well the name fits, how much likelier by what the content says)."""
        mention = 1.0
        if content in self.spoken:
            files, likelier = self.spoken[content]
            at = int(np.searchsorted(files, file))
            if at < len(files) and files[at] == file:
                mention = float(likelier[at])
        return float(self.fits[file, self.like[content]]), mention

    def speaks_of_another(self, content: int, file: int) -> bool:
        """Whether a content mentions a file that was made shortly before or after this one."""
        files, _ = self.spoken.get(content, (np.zeros(0, np.int64), None))
        return bool((np.abs(files - file) <= SHORTLY).any())


def _basis(fit: float, mention: float) -> str:
    also = [FITTING] * (fit > 1) + [SPEAKING] * (mention > 1)
    return "; ".join([IN_ORDER, *also])


def _sure(aligned: Aligned, in_ruins: bool, held: Any) -> Any:
    """Rows of the pairs that nothing comes near to, and nothing is odd around.

    Args:
        aligned: all pairs.
        in_ruins: many files have no content.
        held: bool per content, others are out of the question.
    """
    least = SURE_IN_RUINS if in_ruins else SURE
    least = SURE_IN_DISORDER if aligned.disorder > DISORDER else least
    claimed, file, chance = aligned.claimed, aligned.file, aligned.chance
    odd = near(claimed > TWICE, AROUND)
    good = (chance >= least) & (claimed[file] - chance < CLAIMED) & ~odd[file]
    return np.flatnonzero(good & held[aligned.content])


def _out_of_order(columns: Columns, table: Any) -> Any:
    """Bool: made at the same time as another one in another group; nothing orders the two."""
    order = np.argsort(table.crtime, kind="stable")
    time, group = table.crtime[order], group_of(columns.fs, table.number)[order]
    split = (time[1:] == time[:-1]) & (group[1:] != group[:-1])
    times = np.unique(time[1:][split])
    return np.isin(table.crtime, times)
