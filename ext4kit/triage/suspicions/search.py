"""Applies the rules to all live files, deleted files, events and hints."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.errors import path_text
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import DIRECTORY_TYPE, DirTree, directories_only
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT
from ext4kit.filesystem.selected import known_key_of
from ext4kit.known.files import KnownFiles, KnownMatch
from ext4kit.parsers.directory import EntryTable, Names
from ext4kit.parsers.inode import Inode, InodeFlags, InodeTable
from ext4kit.problems import Severity
from ext4kit.recovery import DeletedFile, DeletedFiles, Grade
from ext4kit.selection import known_key
from ext4kit.timeline import Event, EventKind, Timeline
from ext4kit.timeline.events import CODE, KINDS
from ext4kit.timeline.hints import HintKind
from ext4kit.triage.suspicions.rules import RULES, Rule, Trait
from ext4kit.triage.suspicions.story import Story, StoryStep, completed, find_stories
from ext4kit.units import NANOSECONDS

EVENTS_LOOKED_AT = 500_000  # only the newest events; each takes some microseconds
STORIES = 200  # number of newest sightings of a rule that get a story
NAMES_LOOKED_AT = 400_000  # maximum names: unusual ones, and those in directories that a rule names
AGE = 60 * NANOSECONDS  # a tool that sets times later after the creation than this is not unpacking
LOCKS = int(InodeFlags.IMMUTABLE | InodeFlags.APPEND)
_MOUNT_POINTS = frozenset(
    (b"/home /var /usr /opt /srv /boot /root /tmp /var/log /var/www /var/tmp /var/lib").split()
)
IMAGE = "image"  # in `Sighting.seen`: the sighting is about the image and not about a file
_BAD = next(rule for rule in RULES if rule.code == "known-bad")
_BY_HINT = {hint: rule for rule in RULES for hint in rule.hints}


@dataclass(slots=True)
class Sighting:
    """A sighting: a file, or the image, that matches a rule.

    Attributes:
        path: path of the file; None if unknown.
        when: time of the newest matching event, of the deletion, or of the last change (ctime), ns.
        seen: evidence for the file, in order: "there", "deleted", kinds of events. IMAGE for a
            sighting that is not about a file.
        size, mode: size and mode of the file; None if unknown.
        grade: grade of a deleted file.
        note: further details, plain text.
        event: the newest event that matched the rule.
        made: creation time in the inode, ns; None if unknown.
        ended: the deletion, as a step of the story; None for a live file.
        story: what happened to the file, in order of time; only for the newest sightings of a rule.
    """

    path: bytes | None
    inode: int | None
    generation: int | None
    when: int | None
    seen: list[str]
    size: int | None = None
    mode: int | None = None
    grade: Grade | None = None
    note: str = ""
    event: Event | None = None
    made: int | None = None
    ended: StoryStep | None = None
    story: Story = ()


@dataclass(frozen=True, slots=True)
class Indicator:
    """A rule that matched.

    Attributes:
        count: number of files that match it.
        sightings: the newest of these; limited in number.
    """

    rule: Rule
    count: int
    sightings: tuple[Sighting, ...]


@dataclass(slots=True)
class _SightingIndex:
    """Sightings by rule and inode instance; an instance is recorded once per rule."""

    kept: dict[str, dict[tuple[int | None, int | None, bytes | None], Sighting]] = field(
        default_factory=dict
    )

    def add(self, rule: Rule, found: Sighting) -> None:
        lives = self.kept.setdefault(rule.code, {})
        life = (found.inode, found.generation, found.path if found.inode is None else None)
        known = lives.setdefault(life, found)
        if known is found:
            return
        known.seen += [how for how in found.seen if how not in known.seen]
        known.when = max(filter(None, (known.when, found.when)), default=None)
        known.note, known.event = known.note or found.note, found.event or known.event
        known.grade, known.made = known.grade or found.grade, known.made or found.made
        known.ended = known.ended or found.ended


def find_indicators(
    fs: FileSystem,
    deleted: DeletedFiles,
    timeline: Timeline,
    most: int,
    disguises: Sequence[str] = (),
    bad: KnownFiles | None = None,
) -> tuple[Indicator, ...]:
    """All rules that matched, strong rules first, each with at most `most` sightings.

    Args:
        fs: the file system whose live files are searched.
        deleted: its deleted files, which are searched too.
        timeline: its events, which are searched too.
        most: maximum number of sightings per rule.
        disguises: descriptions of parts of the image that can be read in two ways.
        bad: lists of known bad files.
    """
    prefix = fs.superblock.last_mounted.rstrip(b"/")
    search = _RuleMatcher(fs, prefix if prefix in _MOUNT_POINTS else b"")
    search.events(timeline)
    search.live()
    search.deleted(deleted)
    search.hints(timeline)
    search.image(disguises)
    if bad is not None:
        search.bad_live(bad)
        search.bad_deleted(bad, deleted)
    found = []
    for rule in RULES:
        lives = search.book.kept.get(rule.code, {})
        newest = sorted(lives.values(), key=lambda one: -(one.when or 0))
        if newest:
            found.append(Indicator(rule, len(newest), tuple(newest[:most])))
    _tell_stories(timeline, found)
    return tuple(sorted(found, key=lambda one: one.rule.weight != "strong"))


def _tell_stories(timeline: Timeline, found: list[Indicator]) -> None:
    """Add a story to each of the newest sightings of every rule."""
    told = [seen for one in found for seen in one.sightings[:STORIES]]
    instances = {(seen.inode or 0, seen.generation or 0) for seen in told if seen.inode}
    stories = find_stories(timeline, instances)
    for seen in told:
        story = stories.get((seen.inode or 0, seen.generation or 0), ())
        seen.story = completed(story, seen.made, seen.ended)


class _RulesByDirectory:
    """Rules by the directories that they match; each directory is tested once."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._known: dict[bytes, list[Rule]] = {}

    def of(self, path: bytes) -> list[Rule]:
        """The rules that a path matches."""
        folder = path.rpartition(b"/")[0]
        rules = self._known.get(folder)
        if rules is None:
            rules = [rule for rule in self._rules if rule.matches_directory(folder)]
            self._known[folder] = rules
        return [rule for rule in rules if rule.matches_name(path)] if rules else rules


class _RuleMatcher:
    """Matches the rules in one pass over each kind of evidence.

    Paths start with the last mount point, if that is a usual one.
    """

    def __init__(self, fs: FileSystem, prefix: bytes) -> None:
        self.fs, self.prefix = fs, prefix
        self.book = _SightingIndex()
        self._inside: tuple[int, dict[bytes, int]] = (0, {})  # the last directory that was read

    def live(self) -> None:
        """Match live files by path, by name and by inode fields."""
        rules = [rule for rule in RULES if rule.live]
        special = self._inodes_with_special_flags()
        tree = self._part_of_tree(rules, special)
        for path, inode in self._files(tree):
            traits = inode_traits(inode)
            for rule in rules:
                if rule.needs <= traits and rule.matches(path):
                    is_root_setuid = inode.mode & stat.S_ISUID and inode.uid == 0
                    note = "setuid root" if is_root_setuid and stat.S_ISREG(inode.mode) else ""
                    seen = Sighting(path, inode.number, inode.generation, inode.ctime, ["there"],
                                    inode.size, inode.mode, note=note)  # fmt: skip
                    seen.made = inode.crtime
                    self.book.add(rule, seen)

    def _part_of_tree(self, rules: list[Rule], special: Int64s) -> DirTree:
        """The part of the tree that a rule may match by directory, by unusual name or by inode.

        It includes directories. The whole tree is not read, because it would take memory for each
        file.
        """
        placed = [rule for rule in rules if rule.folder and Trait.SETUID not in rule.needs]
        named = [
            number
            for path, number in self._directories.items()
            if any(rule.matches_directory(path) for rule in placed)
        ]
        within = np.array(named, np.int64)

        def may_match(entries: EntryTable, blocks: Bytes2D, directory: Int64s) -> Bools:
            here = np.isin(directory, within) | np.isin(entries.inode, special)
            return here | _are_odd(entries.packed_names(blocks))

        return self.fs.tree(path=self.prefix, only=may_match)

    def _inodes_with_special_flags(self) -> Int64s:
        """Numbers of live inodes that are setuid or locked."""
        found = [np.zeros(0, np.int64)]
        for table in self.fs.inode_batches():
            is_linked = (table.links_count > 0) & table.is_regular
            special = (table.mode & 0o6000 != 0) & (table.mode & 0o111 != 0)
            special |= (table.flags & LOCKS) != 0
            found.append(table.number[is_linked & special])
        return np.concatenate(found)

    def _files(self, tree: DirTree) -> Iterator[tuple[bytes, Inode]]:
        """(path, inode) of the rows of a tree with existing inodes."""
        rows = np.flatnonzero((tree.inode > 0) & (tree.inode <= self.fs.superblock.inodes_count))
        if len(rows) > NAMES_LOOKED_AT:
            what = f"only the first {NAMES_LOOKED_AT:,} of {len(rows):,} names were checked"
            self.fs.problems.add("rules", what, Severity.NOTE)
            rows = rows[:NAMES_LOOKED_AT]
        for start in range(0, len(rows), INODES_AT_ONCE):
            some = rows[start : start + INODES_AT_ONCE]
            table: InodeTable = self.fs.inode_table(tree.inode[some])
            yield from zip(tree.paths_of(some), table.each(), strict=True)

    def inode_at(self, path: bytes) -> int:
        """Inode number of a live path, 0 if there is no such file."""
        folder, _, name = path.rpartition(b"/")
        number = self._directories.get(folder)
        if number is None:
            return 0
        if number != self._inside[0]:
            entries = self.fs.entries(number)
            self._inside = number, {entry.name: entry.inode for entry in entries}
        return self._inside[1].get(name, 0)

    @cached_property
    def _directories(self) -> dict[bytes, int]:
        """Path of each live directory -> its inode number."""
        tree = self.fs.tree(path=self.prefix, only=directories_only)
        exists = (tree.inode > 0) & (tree.inode <= self.fs.superblock.inodes_count)
        rows = np.flatnonzero(exists & np.isin(tree.file_type, (0, DIRECTORY_TYPE)))
        rows = rows[self.fs.inode_table(tree.inode[rows]).is_dir]
        numbers = tree.inode[rows].tolist()
        return {self.prefix: ROOT} | dict(zip(tree.paths_of(rows), numbers, strict=True))

    def deleted(self, deleted: DeletedFiles) -> None:
        """Match deleted files, including orphans, which were still open."""
        rules = _RulesByDirectory([rule for rule in RULES if rule.deleted])
        orphans = set(self.fs.orphans)
        for file in deleted:
            if file.inode is None or file.superseded:
                continue
            if file.number in orphans:
                rule = next(rule for rule in RULES if rule.code == "running-deleted")
                path = None if file.path is None else self.prefix + file.path
                if rule.needs <= inode_traits(file.inode):
                    self.book.add(rule, _deleted_sighting(path, file, "on the orphan list"))
            if file.path is not None:
                self._deleted(self.prefix + file.path, file, file.inode, rules)

    def _deleted(
        self, path: bytes, file: DeletedFile, inode: Inode, rules: _RulesByDirectory
    ) -> None:
        placed = rules.of(path)
        if not placed:
            return
        traits = inode_traits(inode) | {Trait.GONE}
        fitting = [rule for rule in placed if rule.needs <= traits]
        now = self.inode_at(path) if fitting else 0
        for rule in fitting:
            if not now or Trait.GONE not in rule.needs:
                note = "another file has this path" if now else ""
                self.book.add(rule, _deleted_sighting(path, file, note))

    def events(self, timeline: Timeline) -> None:
        """Match the newest events of the kinds that rules name."""
        rows = _relevant_events(timeline)
        if len(rows) > EVENTS_LOOKED_AT:
            what = f"only the newest {EVENTS_LOOKED_AT:,} of {len(rows):,} events were checked"
            self.fs.problems.add("rules", what, Severity.NOTE)
        rows = rows[-EVENTS_LOOKED_AT:]
        by_kind = [
            _RulesByDirectory([rule for rule in RULES if kind in rule.events]) for kind in KINDS
        ]
        kinds = timeline.events.kind[rows].tolist()
        fitting = [
            [] if path is None else by_kind[code].of(self.prefix + path)
            for path, code in zip(timeline.paths_at(rows), kinds, strict=True)
        ]
        chosen = np.flatnonzero([bool(each) for each in fitting])
        events = zip(chosen.tolist(), timeline.events_at(rows[chosen]), strict=True)
        self._judge([(rule, event) for place, event in events for rule in fitting[place]])

    def _judge(self, matched: list[tuple[Rule, Event]]) -> None:
        """Record a sighting for each event whose inode meets the conditions of the rule."""
        numbers = np.unique(np.array([event.inode for _, event in matched], np.int64))
        now = dict(zip(numbers.tolist(), self.fs.inode_table(numbers).each(), strict=True))
        aged: set[tuple[int, int]] = set()  # written on this system, whatever its present times are
        for rule, event in sorted(matched, key=lambda pair: pair[1].kind is not EventKind.TIMES):
            inode, life = now[event.inode], (event.inode, event.generation)
            same = inode.generation == event.generation and inode.links_count > 0
            traits = inode_traits(inode) if same else set(_ASSUMED)
            traits |= event_traits(event, inode.crtime if same else None)
            if Trait.AGED in traits or life in aged:
                aged.add(life)
                traits.add(Trait.FRESH)
            if rule.needs <= traits:
                size, mode = (inode.size, inode.mode) if same else (None, None)
                made = inode.crtime if same else None
                assert event.path is not None
                self.book.add(rule, Sighting(
                    self.prefix + event.path, event.inode, event.generation, event.time,
                    [str(event.kind)], size, mode, event=event, made=made,
                ))  # fmt: skip

    def bad_live(self, bad: KnownFiles) -> None:
        """Live files whose content is in a list; only files of a size in the lists are read."""
        found = {
            number: match
            for table in self.fs.inode_batches()
            for number, match in self._bad_rows(bad, table)
        }
        if not found:
            return
        tree = self._part_of_tree([], np.array(sorted(found), np.int64))
        pathless = found.keys() - set(tree.inode.tolist())
        for number in sorted(pathless):
            self._bad_live(None, self.fs.inode(number), found[number])
        for path, inode in self._files(tree):
            if inode.number in found:
                self._bad_live(path, inode, found[inode.number])

    def _bad_rows(self, bad: KnownFiles, table: InodeTable) -> Iterator[tuple[int, KnownMatch]]:
        """(inode number, match) of the inodes whose content is in a list."""
        rows = np.flatnonzero((table.links_count > 0) & table.is_regular)
        sizes = zip(rows.tolist(), table.size[rows].tolist(), strict=True)
        some = table.take(np.array([row for row, size in sizes if bad.may_have_size(size)], int))
        for row, runs in enumerate(self.fs.block_maps(some)):
            identity, _ = known_key_of(self.fs, some, row)
            match = bad.match(identity, partial(self.fs.content, some.one(row), runs))
            if match is not None:
                yield int(some.number[row]), match

    def _bad_live(self, path: bytes | None, inode: Inode, match: KnownMatch) -> None:
        seen = Sighting(path, inode.number, inode.generation, inode.ctime, ["there"], inode.size,
                        inode.mode, note=_bad_note(match), made=inode.crtime)  # fmt: skip
        self.book.add(_BAD, seen)

    def bad_deleted(self, bad: KnownFiles, deleted: DeletedFiles) -> None:
        """Deleted files, earlier versions and carved contents whose content is in a list."""
        for file in deleted:
            match = bad.match(*known_key(file))
            if match is not None:
                path, note = file.path, _bad_note(match)
                if path is not None:
                    path = self.prefix + path
                elif (where := file.partial_path or file.name) is not None:
                    note = f"{path_text(where)}, {note}"
                elif file.first_block is not None:
                    note = f"block {file.first_block:,}, {note}"
                self.book.add(_BAD, _deleted_sighting(path, file, note))

    def image(self, disguises: Sequence[str]) -> None:
        """Record one sighting for all parts of the image that can be read in two ways."""
        rule = next(rule for rule in RULES if rule.code == "disguise")
        if disguises:
            self.book.add(
                rule, Sighting(None, None, None, None, [IMAGE], note="; ".join(disguises))
            )

    def hints(self, timeline: Timeline) -> None:
        """Match the hints, except those that unpacking a file causes."""
        events = timeline.events
        codes = np.array([int(hint) for hint in _BY_HINT])
        rows = (events.kind == CODE[EventKind.HINT]) & np.isin(events.old_second, codes)
        chosen = np.flatnonzero(rows)[-EVENTS_LOOKED_AT:]
        hints = events.old_second[chosen].tolist()
        for event, hint in zip(timeline.events_at(chosen), hints, strict=True):
            path = None if event.path is None else self.prefix + (event.path or b"/")
            self.book.add(_BY_HINT[HintKind(hint)], Sighting(
                path, event.inode, event.generation, event.time, ["hint"], event=event
            ))  # fmt: skip


def _are_odd(names: Names) -> Bools:
    """True for names with unusual characters, or with dots and blanks at unusual places."""
    if not len(names):
        return np.zeros(0, bool)
    data = np.frombuffer(names.data, np.uint8)
    odd = (data < 0x20) | (data == 0x7F) | (data == 0xE2)
    place = np.flatnonzero(odd)
    ends = names.start + names.length
    inside = np.searchsorted(place, ends) > np.searchsorted(place, names.start)
    first = data[names.start]
    second = data[np.minimum(names.start + 1, len(data) - 1)]
    third = data[np.minimum(names.start + 2, len(data) - 1)]
    dot, blank = ord("."), ord(" ")
    dotted = (first == dot) & ((second == dot) | (second == blank)) & (names.length > 1)
    dotted &= (third == dot) | (third == blank) | (second == blank)
    odd_names: Bools = inside | dotted | (first == blank)
    return odd_names


def _relevant_events(timeline: Timeline) -> Int64s:
    """Rows of the events that can match a rule by their kind and values."""
    events = timeline.events
    kinds = sorted({CODE[kind] for rule in RULES for kind in rule.events})
    wanted = np.isin(events.kind, kinds)
    gained = (events.new & ~events.old & 0o6000) != 0
    aged = events.new < timeline.commits.times_of(events.order) - AGE
    locked = (events.new & LOCKS) != 0
    for kind, holds in (
        (EventKind.MODE, gained),
        (EventKind.TIMES, aged),
        (EventKind.FLAGS, locked),
    ):
        wanted &= (events.kind != CODE[kind]) | holds
    return np.flatnonzero(wanted)


_ASSUMED = (Trait.REGULAR, Trait.FRESH)  # traits assumed for a deleted file that only events show


def inode_traits(inode: Inode) -> set[Trait]:
    """Traits that follow from the state of an inode."""
    regular = stat.S_ISREG(inode.mode)
    executable = regular and bool(inode.mode & 0o111)
    made = inode.crtime if inode.crtime is not None else inode.ctime
    held = {
        Trait.REGULAR: regular,
        Trait.EXECUTABLE: executable,
        Trait.SETUID: executable and bool(inode.mode & 0o6000),
        Trait.FRESH: inode.mtime >= made - 2 * NANOSECONDS,
        Trait.EMPTY: inode.size == 0,
        Trait.STORED: inode.size > 0,
        Trait.LINK: stat.S_ISLNK(inode.mode),
        Trait.LOCKED: bool(inode.flags & LOCKS),
    }
    return {trait for trait, holds in held.items() if holds}


def event_traits(event: Event, made: int | None) -> set[Trait]:
    """Traits that follow from the values of an event and the creation time of its inode."""
    old, new = event.old, event.new
    if event.kind is EventKind.MODE and isinstance(old, int) and isinstance(new, int):
        gained = new & ~old  # setgid on a file that is not executable has another meaning
        is_gained = gained & stat.S_ISUID or (gained & stat.S_ISGID and new & 0o111)
        return {Trait.GAINED_SETUID} if is_gained else set()
    if event.kind is EventKind.TRUNCATED and new == 0:
        return {Trait.EMPTY}
    if event.mtimes is not None and event.time is not None and made is not None:
        before, mtime = event.mtimes
        late, past = event.time - made > AGE, mtime < made - AGE
        return {Trait.AGED} if late and past and mtime != before else set()
    return set()


def _bad_note(match: KnownMatch) -> str:
    """The hash that a content has, and the list that has it."""
    return f"{match.algorithm} {match.digest} is in {match.source}"


def _deleted_sighting(path: bytes | None, file: DeletedFile, note: str) -> Sighting:
    missing = file.deleted_between[1]
    return Sighting(
        path, file.number, file.generation, file.deletion_time, ["deleted"], file.size, file.mode,
        file.grade, note, made=None if file.inode is None else file.inode.crtime,
        ended=StoryStep("deleted", file.dtime, None if missing is None else missing.time),
    )  # fmt: skip
