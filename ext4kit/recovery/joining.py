"""Matches contents without an inode to freed inodes without a map, by the order on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ext4kit.arrays.types import Bools, Float64s, Int64s, Rows
from ext4kit.filetypes.signatures import SIGNATURE_NAMES
from ext4kit.history.inode_states import TID_NONE
from ext4kit.matching.between_neighbours import NO_ROW as NO_MATCH
from ext4kit.matching.between_neighbours import match_by_neighbours
from ext4kit.matching.content_classes import classify_content, likelihood_ratios, name_class_of
from ext4kit.matching.hmm import (
    FileStates,
    MatchingInput,
    Mentions,
    Posteriors,
    posterior_pairs,
)
from ext4kit.matching.observations import allocation_order
from ext4kit.matching.self_names import (
    CATALOGUE_HEAD,
    CATALOGUES,
    HEAD,
    MentionIndex,
    NamesFound,
    catalogue_folder,
    find_names_in,
)
from ext4kit.matching.shifted_runs import shift_odds
from ext4kit.matching.transitions import STREAM_REQUEST_BLOCKS
from ext4kit.parsers.inode import InodeFlags, InodeTable
from ext4kit.recovery.arranging import (
    MAX_VERSION_UNMOVED,
    DiskPart,
    JointProblem,
    MatchingProblem,
    near,
    no_later_instance,
    observations_of,
    split_problem,
)
from ext4kit.recovery.attribution import BlockAttribution
from ext4kit.recovery.candidates import NO_MAP
from ext4kit.recovery.carved_contents import UNALLOCATED, UNTAGGED_JOURNAL, CarvedContents, head_at
from ext4kit.recovery.listed_files import ListedName
from ext4kit.recovery.listed_matches import FreedFiles, ListedMatches, match_listed
from ext4kit.recovery.matching_input import PlacedFiles, directory_of, find_placed_files, group_of
from ext4kit.recovery.names import KnownName
from ext4kit.units import Progress

BETWEEN = "position between two located files"
IN_ORDER = "creation order and position on disk"
FITTING, SPEAKING = "name matches content type", "content contains the name"
LISTED = "a live list gives the content this name"
LIKELY = 0.5
MIN_POSTERIOR = 0.99  # minimum probability of an accepted pair
MIN_POSTERIOR_UNBALANCED = 0.995  # the same if many files have no content
MAX_IMBALANCE = 0.1
MIN_POSTERIOR_DISORDERED = 0.999  # the same if many files are out of creation order on disk
MAX_BACKWARD_SHARE = 0.05  # maximum share of steps back; with more, files are out of order
MAX_COMPETING_MASS = 0.01  # maximum probability that any other content claims the file
MAX_SHIFT_ODDS = 0.01  # maximum odds of all alternatives that shift a run by some files
MAX_EXPECTED_COUNT = 1.1  # expected contents of a file; with more, the surroundings are doubtful
ANOMALY_RADIUS = 2  # number of files on either side
MIN_TYPE_RATIO = 0.2  # likelihood ratio of the type; a lower one contradicts the name
NEIGHBOUR_RADIUS = 8  # number of files on either side
STRONG_MENTION = 20  # likelihood ratio of a name in a content that outweighs a doubtful order
WEAK_MENTION = 3  # likelihood ratio of a neighbour's name that is ignored for a nearly certain pair
NEARLY_CERTAIN = 0.9995
MAX_CONTENTS = 100_000  # with more contents, only known neighbours are used


@dataclass(frozen=True, slots=True)
class Matches:
    """The contents that are matched to freed inodes.

    Attributes:
        of_candidate: candidate -> its match.
        disputed: contents that do not get their listed name, because a freed inode has this name,
            or because the order gives the content another name.
    """

    of_candidate: dict[int, Match]
    disputed: frozenset[int] = frozenset()

    @property
    def contents(self) -> set[int]:
        """The contents that are matched to a candidate."""
        return {match.content for match in self.of_candidate.values()}


@dataclass(frozen=True, slots=True)
class Match:
    """A content that a list or the order assigns to a freed inode.

    Attributes:
        content: row in the contents.
        evidence: text of the evidence for the match.
        digest: text of the digest in a live list, if this is part of the evidence.
    """

    content: int
    evidence: str
    digest: str | None = None


def match_contents(
    blocks: BlockAttribution,
    contents: CarvedContents,
    names: Sequence[KnownName | None],
    listed: Mapping[int, Sequence[ListedName]],
    progress: Progress | None = None,
) -> Matches:
    """Find the contents of candidates without a map, by lists and by the order on disk.

    Args:
        blocks: block attribution of the candidates.
        contents: contents found without an inode.
        names: name of each candidate, None if unknown.
        listed: row of a content -> its names in live lists.
        progress: called with (steps done, total steps).
    """
    places = _asked(blocks)
    rows = np.flatnonzero(contents.map_source != UNTAGGED_JOURNAL)
    rows = rows[allocation_order(contents.first_block[rows], contents.end_block[rows])]
    if not len(places) or not len(rows):
        return Matches({})
    known = find_placed_files(blocks)
    joined = match_between(blocks, contents, known, places)
    table = blocks.history.states.table.take(blocks.candidates.state_row[places])
    order = np.lexsort((table.number, table.crtime))
    places, table = places[order], table.take(order)
    called = [names[place] for place in places.tolist()]
    by_list = ListedMatches()
    if listed:
        folder_made = _folder_made(blocks, names, called)
        files = FreedFiles(called, table.number, table.crtime, folder_made, table.version)
        by_list = match_listed(listed, rows, files)
    by_order, named = _ByOrder(), by_list.named
    if len(rows) <= MAX_CONTENTS:
        matching = MatchingProblem(blocks, contents, known, names, places, rows)
        parts = list(split_problem(matching))
        for part in parts:
            for place in places[part.files[part.own]].tolist():
                joined.pop(place, None)
        by_order = _match_by_order(matching, parts, by_list, progress)
        joined |= by_order.found
        named = by_list.supported(by_order.likely)
    certain = {
        int(places[file]): Match(int(rows[content]), LISTED, by_list.texts[content][file])
        for content, file in named.items()
    }
    taken = {match.content for match in certain.values()}
    joined = {place: one for place, one in joined.items() if one.content not in taken} | certain
    uses = Counter(match.content for match in joined.values())
    kept = {place: match for place, match in joined.items() if uses[match.content] == 1}
    return Matches(kept, frozenset(by_order.disputed | set(rows[by_list.fitting].tolist())))


def _folder_made(
    blocks: BlockAttribution, names: Sequence[KnownName | None], files: Sequence[KnownName | None]
) -> Int64s:
    """Per file: creation time of its freed directory (the oldest of that path), 0 if unknown."""
    table = blocks.history.states.table.take(blocks.candidates.state_row)
    made: dict[bytes, int] = {}
    for at in np.flatnonzero(table.is_dir).tolist():
        if name := names[at]:
            time = int(table.crtime[at])
            made[name.known_path] = min(time, made.get(name.known_path, time))
    folders = [directory_of(name) for name in files]
    return np.array([made.get(folder, 0) if folder else 0 for folder in folders], np.int64)


def _asked(blocks: BlockAttribution) -> Rows:
    """Candidates that are freed regular files without any known block."""
    found, table = blocks.candidates, blocks.history.states.table
    row = found.state_row
    # Freeing blocks sets mtime; an inode that never had blocks keeps its mtime.
    freed = (table.links_count[row] == 0) & (table.mtime[row] == table.ctime[row])
    freed &= table.is_regular[row] & (found.map_source == NO_MAP)
    freed &= (found.freed_tid != TID_NONE) & (table.crtime[row] > 0)
    return np.flatnonzero(freed & (table.flags[row] & int(InodeFlags.INLINE_DATA) == 0))


def match_between(
    blocks: BlockAttribution, contents: CarvedContents, known: PlacedFiles, places: Int64s
) -> dict[int, Match]:
    """Matches of files that exactly fill the gap between two neighbours with known blocks."""
    table, row = blocks.history.states.table, blocks.candidates.state_row
    places = places[no_later_instance(blocks, row[places])]
    places = places[table.version[row[places]] <= MAX_VERSION_UNMOVED]  # else it may be elsewhere
    carved = np.flatnonzero(contents.map_source == UNALLOCATED)
    carved = carved[np.argsort(contents.first_block[carved])]
    if not len(places) or not len(carved):
        return {}
    number = table.number[row[places]]
    wanted = (group_of(blocks.history.fs, number), table.crtime[row[places]], number)
    observed = (contents.first_block[carved], contents.end_block[carved])
    match = match_by_neighbours(known.placed.take(known.regular), wanted, observed, known.taken)
    pairs = zip(places.tolist(), match.tolist(), strict=True)
    return {place: Match(int(carved[at]), BETWEEN) for place, at in pairs if at != NO_MATCH}


def _match_by_order(
    matching: MatchingProblem,
    parts: Sequence[DiskPart],
    listed: ListedMatches,
    progress: Progress | None,
) -> _ByOrder:
    """Matches for which order, names and contents together leave only one answer."""
    found = _ByOrder()
    parts = [part for part in parts if matching.has_name[part.files[part.own]].any()]
    if not parts:
        return found
    heads = _read_heads(matching, parts)
    named = [name.name if name else None for name in matching.names]
    endings, called = np.unique([name_class_of(name) for name in named], return_inverse=True)
    fits = likelihood_ratios(
        endings.tolist(), np.array([like for like, _ in heads.values()], np.int64)
    )
    asked = [_PartOfDisk(matching, part, heads, called + 1, fits, listed) for part in parts]
    asked = [one for one in asked if one.can_match]
    answers = posterior_pairs([one.problem for one in asked], progress)
    mixed = _ambiguous_creation_order(matching.blocks, matching.table)
    for one, aligned in zip(asked, answers, strict=True):
        one.accept(aligned, mixed, found)
    return found


@dataclass(frozen=True, slots=True)
class _ByOrder:
    """Results of the matching by the order on disk.

    Attributes:
        found: candidate -> its match, if no other answer is nearly as likely.
        disputed: contents whose listed name differs from that of the file found.
        likely: (content, file) pairs with a probability above one half, as rows of the problem.
    """

    found: dict[int, Match] = field(default_factory=dict)
    disputed: set[int] = field(default_factory=set)
    likely: list[tuple[int, int]] = field(default_factory=list)


def _read_heads(
    matching: MatchingProblem, parts: Sequence[DiskPart]
) -> dict[int, tuple[int, NamesFound]]:
    """Row of the problem -> (class, names found) of each content of the parts."""
    heads: dict[int, tuple[int, NamesFound]] = {}
    words = MentionIndex([name_parts(name) for name in matching.names]).words
    for at in sorted({at for part in parts for at in part.contents.tolist()}):
        row = int(matching.rows[at])
        signature = int(matching.contents.signature[row])
        is_catalogue = SIGNATURE_NAMES[signature] == "mo"  # its header is after its tables
        head = head_at(matching.contents, row, CATALOGUE_HEAD if is_catalogue else HEAD)
        like = classify_content(head, signature)
        heads[at] = like, find_names_in(head, words)
    return heads


class _PartOfDisk:
    """A part of the disk as a problem for `hmm`, and the evaluation of the result.

    Args:
        matching: all files and contents.
        part: the files and contents of this part.
        heads: result of `_read_heads`.
        name_class: int64, row in `fits` of each file.
        fits: float (rows, columns), as in `MatchingInput`.
        listed: names of contents in lists.
    """

    def __init__(
        self,
        matching: MatchingProblem,
        part: DiskPart,
        heads: dict[int, tuple[int, NamesFound]],
        name_class: Int64s,
        fits: Float64s,
        listed: ListedMatches,
    ) -> None:
        self._matching, self._part, self._listed = matching, part, listed
        some, contents = part.files, part.contents
        names = [matching.names[at] for at in some.tolist()]
        mentions = MentionIndex([name_parts(name) for name in names])
        for at in contents.tolist():
            mentions.add_content(heads[at][1])
        classes = np.array([heads[at][0] for at in contents.tolist()])
        mentioned = listed.added_to(mentions.likelihood_ratios(), contents, some)
        files = FileStates(
            name_class[some],
            matching.absence_probability(some, part.unclaimed),
            matching.folder[some],
        )
        named = matching.has_name[some]
        self._evidence = _PairEvidence(named, fits[files.name_class], classes, mentioned)
        unassigned = part.unclaimed
        joint = JointProblem(matching, some, contents) if unassigned > MAX_IMBALANCE else None
        self._joint = joint if joint and joint.is_small_enough else None
        if self._joint:
            every = self._joint.with_known_runs(files, classes, mentioned, unassigned)
            self.problem = MatchingInput(*every, fits)
        else:
            observed = observations_of(matching, part, classes)
            self.problem = MatchingInput(observed, files, mentioned, fits)

    @property
    def can_match(self) -> bool:
        """Whether `accept` could accept any pair, whatever the result is."""
        return self._evidence.allows_any(self._part.own)

    def accept(self, aligned: Posteriors, mixed: Bools, found: _ByOrder) -> None:
        """Add the pairs that are certain.

        Args:
            aligned: the posteriors of `problem`.
            mixed: result of `_ambiguous_creation_order` for all files.
            found: results to which the pairs are added.
        """
        matching, part = self._matching, self._part
        held = shift_odds(self.problem, aligned) <= MAX_SHIFT_ODDS
        if self._joint:
            held = self._joint.of_contents(held) & self._joint.has_known_neighbours(aligned)
            aligned = self._joint.restrict(aligned)
        rows = matching.rows[part.contents]
        large = (
            matching.contents.end_block[rows] - matching.contents.first_block[rows]
            > STREAM_REQUEST_BLOCKS
        )
        for at in np.flatnonzero(aligned.probability > LIKELY).tolist():
            content, file = int(aligned.observation[at]), int(aligned.state[at])
            if part.own[file]:
                found.likely.append((int(part.contents[content]), int(part.files[file])))
        unbalanced = part.unclaimed < -MAX_IMBALANCE
        for at in _certain_pairs(aligned, unbalanced, held, self._evidence).tolist():
            content, file = int(aligned.observation[at]), int(aligned.state[at])
            fit, mention = self._evidence.for_pair(content, file)
            odd = not (self._evidence.named[file] and part.own[file])  # order alone errs too often
            odd |= mixed[part.files[file]] and mention < STRONG_MENTION
            if part.unclaimed > MAX_IMBALANCE and mention <= 1:
                odd |= large[content] or fit <= 1
            if odd or self._evidence.contradicts(content, file, float(aligned.probability[at])):
                continue
            row, asked = int(part.contents[content]), int(part.files[file])
            if self._listed.contradicts(row, asked, matching.names[asked]):
                found.disputed.add(int(rows[content]))
                continue
            digest = self._listed.texts.get(row, {}).get(asked)
            match = Match(int(rows[content]), _evidence_text(fit, mention, digest), digest)
            found.found[int(matching.places[asked])] = match


def name_parts(name: KnownName | None) -> tuple[bytes, bytes] | None:
    """(name, name of its directory or empty), None if the name is unknown."""
    if name is None:
        return None
    above = name.known_path.rpartition(b"/")[0]
    upper, _, folder = above.rpartition(b"/")
    if folder == CATALOGUES:
        return name.name, catalogue_folder(upper.rpartition(b"/")[2])
    return name.name, b"" if folder.startswith(b"inode-") else folder


@dataclass(frozen=True)
class _PairEvidence:
    """The evidence for pairs in addition to their order.

    Attributes:
        named: bool per file, True if it has a known name.
        fits: float (files, classes), likelihood ratios; like: class of each content.
        mentioned: likelihood ratios from names in contents.
    """

    named: Bools
    fits: Float64s
    like: Int64s
    mentioned: Mentions

    def for_pair(self, content: int, file: int) -> tuple[float, float]:
        """(likelihood ratio of the class given the name, the same from names in the content)."""
        mention = 1.0
        if content in self.mentioned:
            files, likelier = self.mentioned[content]
            at = int(np.searchsorted(files, file))
            if at < len(files) and files[at] == file:
                mention = float(likelier[at])
        return float(self.fits[file, self.like[content]]), mention

    def allows_any(self, asked: Bools) -> bool:
        """Whether any named file of some files has a content that does not contradict it.

        Args:
            asked: bool per file, True for the files to examine.
        """
        rows = np.flatnonzero(self.named & asked)
        if (self.fits[rows][:, np.unique(self.like)] > MIN_TYPE_RATIO).any():
            return True
        mentioned = [files[likelier > 1] for files, likelier in self.mentioned.values()]
        return bool(mentioned) and bool(np.isin(np.concatenate(mentioned), rows).any())

    def contradicts(self, content: int, file: int, chance: float) -> bool:
        """Whether the type, or a name in this or another content, is evidence against a pair.

        Args:
            content: content of the pair.
            file: file of the pair.
            chance: probability of the pair.
        """
        fit, mention = self.for_pair(content, file)
        tolerated = WEAK_MENTION if fit > 1 and chance >= NEARLY_CERTAIN else 0
        files, likelier = self.mentioned.get(content, (np.zeros(0, np.int64), np.zeros(0)))
        claimed = self._claims.get(content, frozenset())
        taken = file not in claimed and bool(claimed or file in self._claimed_files)
        near = likelier[(np.abs(files - file) <= NEIGHBOUR_RADIUS) & (files != file)]
        if mention <= 1:
            return fit <= MIN_TYPE_RATIO or taken or near.max(initial=0) > tolerated
        if fit <= MIN_TYPE_RATIO and near.max(initial=0) > mention:
            return True
        return taken and (fit <= 1 or len(claimed) == 1)  # if one, the content names another file

    @cached_property
    def _claims(self) -> dict[int, frozenset[int]]:
        """Content -> files whose names it contains as its own name."""
        return {
            content: frozenset(files[likelier >= STRONG_MENTION].tolist())
            for content, (files, likelier) in self.mentioned.items()
        }

    @cached_property
    def _claimed_files(self) -> frozenset[int]:
        return frozenset().union(*self._claims.values())


def _evidence_text(fit: float, mention: float, digest: str | None) -> str:
    mentioned = SPEAKING if digest is None else LISTED
    also = [FITTING] * (fit > 1) + [mentioned] * (mention > 1)
    return "; ".join([IN_ORDER, *also])


def _certain_pairs(
    aligned: Posteriors, unbalanced: bool, held: Bools, evidence: _PairEvidence
) -> Rows:
    """Rows of pairs without a competing pair and without anomalies near them.

    Args:
        aligned: all pairs.
        unbalanced: whether many files have no content.
        held: bool per content, False for contents that are not considered.
        evidence: the evidence for the pairs in addition to their order.
    """
    claimed, file, chance = aligned.expected_count, aligned.state, aligned.probability
    odd = near(claimed > MAX_EXPECTED_COUNT, ANOMALY_RADIUS)
    least = np.full(len(chance), MIN_POSTERIOR_UNBALANCED if unbalanced else MIN_POSTERIOR)
    if aligned.backward_share > MAX_BACKWARD_SHARE:
        pairs = zip(aligned.observation.tolist(), file.tolist(), strict=True)
        unnamed = np.array([evidence.for_pair(*pair)[1] <= 1 for pair in pairs], bool)
        least[unnamed] = MIN_POSTERIOR_DISORDERED
    good = (chance >= least) & (claimed[file] - chance < MAX_COMPETING_MASS) & ~odd[file]
    return np.flatnonzero(good & held[aligned.observation])


def _ambiguous_creation_order(blocks: BlockAttribution, table: InodeTable) -> Bools:
    """Bool per file: created at the same time as one in another group, in unknown order."""
    order = np.argsort(table.crtime, kind="stable")
    time, group = table.crtime[order], group_of(blocks.history.fs, table.number)[order]
    split = (time[1:] == time[:-1]) & (group[1:] != group[:-1])
    times = np.unique(time[1:][split])
    return np.isin(table.crtime, times)
