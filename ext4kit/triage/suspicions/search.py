"""Applies the rules to all live files, deleted files, events and hints."""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np

from ext4kit.arrays.types import Bools, Int64s
from ext4kit.errors import path_text
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import DIRECTORY_TYPE, directories_only
from ext4kit.filesystem.inodes import INODES_AT_ONCE, ROOT
from ext4kit.filesystem.selected import known_key_of
from ext4kit.known.files import KnownFiles, KnownMatch
from ext4kit.parsers.directory import Names
from ext4kit.parsers.inode import Inode, InodeTable
from ext4kit.problems import Severity
from ext4kit.recovery import DeletedFile, DeletedFiles
from ext4kit.recovery.columns import DeletedColumns
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.selection import known_key
from ext4kit.timeline import Event, EventKind, Timeline
from ext4kit.timeline.events import CODE, NO_VALUE
from ext4kit.timeline.hints import HintKind
from ext4kit.triage.rules.patterns import PathPatterns
from ext4kit.triage.rules.rule import BESIDE, RARE, Look, Rule, Trait, Weight
from ext4kit.triage.rules.traits import (
    AGE,
    LOCKS,
    are_odd,
    assumed_traits,
    event_traits,
    inode_traits,
    traits_of,
)
from ext4kit.triage.suspicions.conditions import Conditions, Examined
from ext4kit.triage.suspicions.copies import copies_note, find_copies
from ext4kit.triage.suspicions.inner_roots import is_root, path_inside
from ext4kit.triage.suspicions.live_matching import LiveMatcher
from ext4kit.triage.suspicions.neighbours import Neighbours
from ext4kit.triage.suspicions.packaged import RIGHTS, shown_as_installed
from ext4kit.triage.suspicions.sighting import IMAGE, Sighting, deleted_sighting
from ext4kit.triage.suspicions.story import completed, find_stories
from ext4kit.triage.suspicions.wiped import wiped_files
from ext4kit.workspace import Workspace

EVENTS_LOOKED_AT = 500_000  # only the newest events; each takes some microseconds
STORIES = 200  # number of newest sightings of a rule that get a story
_MOUNT_POINTS = frozenset(
    (b"/home /var /usr /opt /srv /boot /root /tmp /var/log /var/www /var/tmp /var/lib").split()
)
_NEVER = 1 << 62  # later than any time of an inode


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
        known.uid = found.uid if known.uid is None else known.uid


def find_indicators(
    fs: FileSystem,
    rules: Sequence[Rule],
    deleted: DeletedFiles,
    timeline: Timeline,
    most: int,
    disguises: Sequence[str] = (),
    bad: KnownFiles | None = None,
    removed: Sequence[Sighting] = (),
    earlier: DeletedFiles | None = None,
    files: Iterable[tuple[str, Sighting]] = (),
    unchanged: Callable[[Collection[bytes]], set[bytes]] = lambda _: set(),
) -> tuple[Indicator, ...]:
    """All rules that matched, strong rules first, each with at most `most` sightings.

    Args:
        fs: the file system whose live files are searched.
        rules: the rules, from `own_rules` or `read_rules`.
        deleted: its deleted files, which are searched too.
        timeline: its events, which are searched too.
        most: maximum number of sightings per rule.
        disguises: descriptions of parts of the image that can be read in two ways.
        bad: lists of known bad files.
        removed: lines that were removed from its logs, from `removed_lines`.
        earlier: its deleted files with the earlier versions of its files; only these are searched.
        files: further sightings, each with the code of its rule.
        unchanged: gives those of some paths at which a packaged file is as it was installed; a file
            that is there matches no rule by its bytes.
    """
    prefix = fs.superblock.last_mounted.rstrip(b"/")
    search = _RuleMatcher(fs, prefix if prefix in _MOUNT_POINTS else b"", rules, _start(timeline))
    search.events(timeline)
    search.live()
    search.deleted(deleted)
    if earlier is not None:
        search.earlier(earlier)
    search.files(chain(wiped_files(fs, deleted, earlier), files))
    search.changed()
    search.hints(timeline)
    search.image(disguises)
    search.logs(removed)
    if bad is not None:
        search.bad_live(bad)
        search.bad_deleted(bad, deleted)
    search.drop_packaged(unchanged)
    search.drop_repeated()
    search.drop_copies()
    found = []
    for rule in rules:
        lives = search.book.kept.get(rule.code, {})
        newest = sorted(lives.values(), key=lambda one: -(one.when or 0))
        if newest:
            found.append(Indicator(rule, len(newest), tuple(newest[:most])))
    _tell_stories(timeline, found)
    return tuple(sorted(found, key=lambda one: one.rule.weight is not Weight.STRONG))


def need_versions(rules: Iterable[Rule]) -> bool:
    """Whether a rule looks at earlier versions of files."""
    return any(Look.EARLIER in rule.look or rule.added for rule in rules)


def earlier_versions(workspace: Workspace, rules: Iterable[Rule]) -> DeletedFiles | None:
    """The deleted files and earlier versions of the journal; None if no rule looks at them."""
    if not need_versions(rules):
        return None
    return workspace.deleted(versions=True, sources=JOURNAL_ONLY)


def _start(timeline: Timeline) -> int:
    """The first moment that the journal covers, ns."""
    times = timeline.commits.times
    return int(min(times[times > 0], default=_NEVER))


def _tell_stories(timeline: Timeline, found: list[Indicator]) -> None:
    """Add a story to each of the newest sightings of every rule."""
    told = [seen for one in found for seen in one.sightings[:STORIES]]
    instances = {(seen.inode or 0, seen.generation or 0) for seen in told if seen.inode}
    stories = find_stories(timeline, instances)
    for seen in told:
        story = stories.get((seen.inode or 0, seen.generation or 0), ())
        seen.story = completed(story, seen.made, seen.ended)


class _RuleMatcher:
    """Matches the rules in one pass over each kind of evidence.

    Paths start with the last mount point, if that is a usual one.

    Args:
        fs: the file system.
        prefix: the mount point, b"" for the root.
        rules: the rules.
        since: the first moment that the journal covers, ns.
    """

    def __init__(self, fs: FileSystem, prefix: bytes, rules: Sequence[Rule], since: int) -> None:
        self.fs, self.prefix, self._rules, self._since = fs, prefix, rules, since
        self.book = _SightingIndex()
        self._by_code = {rule.code: rule for rule in rules}
        self._conditions = Conditions(fs.problems)
        self._changing: list[tuple[Rule, Examined]] = []  # live files of rules with `added`
        self._former: dict[bytes, list[DeletedFile]] = {}  # former versions of those files
        self._inside: tuple[int, dict[bytes, int]] = (0, {})  # the last directory that was read

    def _that(self, look: Look) -> list[Rule]:
        return [rule for rule in self._rules if look in rule.look]

    def live(self) -> None:
        """Match live files by path, by name and by inode fields."""
        files = LiveMatcher(self.fs, self.prefix, self._directories, self._since)
        examined = Examined(b"")
        for rule, path, inode in files.matching(self._that(Look.LIVE)):
            if path != examined.path:  # several rules ask for the content of one file
                examined = self._examined(path, inode)
            if rule.added is not None:
                self._changing.append((rule, examined))
            elif (said := self._conditions.note(rule, examined)) is not None:
                self.book.add(rule, _live_sighting(path, inode, said))

    def changed(self) -> None:
        """Match the live files of rules that compare them with their former versions."""
        for rule, examined in self._changing:
            versions = self._former.get(examined.path, ())
            former = (Examined(examined.path, file.content) for file in versions)
            said = self._conditions.note(rule, examined, former)
            if said is not None and examined.inode is not None:
                self.book.add(rule, _live_sighting(examined.path, examined.inode, said))

    def _examined(self, path: bytes, inode: Inode) -> Examined:
        return Examined(
            path, partial(self.fs.content, inode), partial(self.fs.xattrs, inode), inode
        )

    def _present(self, path: bytes) -> Examined | None:
        """The live file of a path."""
        number = self.inode_at(path)
        return self._examined(path, self.fs.inode(number)) if number else None

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

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.fs, self._directories, self._since)

    def deleted(self, deleted: DeletedFiles) -> None:
        """Match deleted files, including orphans, which were still open."""
        running, columns = self._by_code.get("running-deleted"), deleted.columns
        rows = np.flatnonzero((columns.number > 0) & ~columns.superseded)
        matched = self._matching(Look.DELETED, columns, rows)
        is_open = np.isin(columns.number[rows], list(self.fs.orphans)) & (running is not None)
        orphans = set(rows[is_open].tolist())
        chosen = np.array(sorted(orphans | matched.keys()), np.int64)
        for row, file in zip(chosen.tolist(), deleted.at(chosen), strict=True):
            assert file.inode is not None
            traits = inode_traits(file.inode, self._since)
            path = None if file.path is None else self.prefix + file.path
            if running and row in orphans and running.needs <= traits:
                self.book.add(running, deleted_sighting(path, file, "on the orphan list"))
            if path is not None and row in matched:
                self._deleted(path, file, traits, matched[row])

    def earlier(self, versions: DeletedFiles) -> None:
        """Match earlier versions of files."""
        columns = versions.columns
        rows = np.flatnonzero((columns.number > 0) & columns.superseded)
        matched = self._matching(Look.EARLIER, columns, rows)
        chosen = np.array(sorted(matched), np.int64)
        for row, file in zip(chosen.tolist(), versions.at(chosen), strict=True):
            assert file.inode is not None and file.path is not None
            traits = inode_traits(file.inode, self._since)
            self._deleted(self.prefix + file.path, file, traits, matched[row])

    def _matching(self, look: Look, columns: DeletedColumns, rows: Int64s) -> dict[int, list[Rule]]:
        """Row -> rules that its path matches, of those that look at one thing or compare with it.

        Rows without a match are left out.
        """
        rules = [*self._that(look), *(rule for rule in self._rules if rule.added)]
        patterns = PathPatterns([rule.paths for rule in rules], is_root)
        paths = [(row, path) for row in rows.tolist() if (path := columns.path[row]) is not None]
        split = [(self.prefix + path).rpartition(b"/") for _, path in paths]
        places: dict[bytes, int] = {}
        folder = np.array([places.setdefault(one, len(places)) for one, _, _ in split], np.int64)
        found: dict[int, list[int]] = {}
        names = Names.of([name for _, _, name in split])
        rare = self._rare(columns, np.array([row for row, _ in paths], np.int64), names)
        for numbers, matching in patterns.matching(list(places), folder, names):
            for number in numbers:
                here = matching
                for trait in rules[number].needs & rare.keys():
                    here = here[rare[trait][here]]
                for place in here.tolist():
                    found.setdefault(paths[place][0], []).append(number)
        return {row: [rules[number] for number in sorted(set(some))] for row, some in found.items()}

    def _rare(self, columns: DeletedColumns, rows: Int64s, names: Names) -> dict[Trait, Bools]:
        """For each trait that few files have: whether each row has it, as far as columns tell."""
        found = {Trait.ODD: are_odd(names)}
        if columns.inodes is None:
            return found
        for trait in RARE - {Trait.ODD}:
            found[trait] = np.zeros(len(rows), bool)
        for start in range(0, len(rows), INODES_AT_ONCE):
            some = slice(start, start + INODES_AT_ONCE)
            traits = traits_of(columns.inodes(rows[some]), self._since)
            for trait in RARE - {Trait.ODD}:
                found[trait][some] = traits[trait]
        return found

    def _deleted(
        self, path: bytes, file: DeletedFile, traits: set[Trait], rules: Sequence[Rule]
    ) -> None:
        if any(rule.added for rule in rules):
            self._former.setdefault(path, []).append(file)
            rules = [rule for rule in rules if rule.added is None]
        possible = traits | {Trait.GONE, Trait.ODD}
        seen = path_inside(path)
        fitting = [rule for rule in rules if rule.needs <= possible and rule.accepts(seen)]
        if not fitting:
            return
        is_there = bool(self.inode_at(path))
        traits |= set() if is_there else {Trait.GONE}
        if are_odd(Names.of([path.rpartition(b"/")[2]]))[0]:
            traits |= {Trait.ODD}
        examined = Examined(
            path, file.content, partial(_attributes_of, file), file.inode,
            partial(self._present, path),
        )  # fmt: skip
        for rule in fitting:
            if rule.needs <= traits and not rule.lacks & traits:
                said = self._conditions.note(rule, examined)
                if said is not None:
                    note = said or "another file has this path" * (is_there and not file.superseded)
                    self.book.add(rule, deleted_sighting(path, file, note))

    def events(self, timeline: Timeline) -> None:
        """Match the newest events of the kinds that rules name."""
        rules = self._that(Look.EVENTS)
        rows = _relevant_events(timeline, rules)
        if len(rows) > EVENTS_LOOKED_AT:
            what = f"only the newest {EVENTS_LOOKED_AT:,} of {len(rows):,} events were checked"
            self.fs.problems.add("rules", what, Severity.NOTE)
        rows = rows[-EVENTS_LOOKED_AT:]
        patterns = PathPatterns([rule.paths for rule in rules], is_root)
        places = timeline.places_at(rows)
        folders = [self.prefix + folder for folder in places.folders]
        kinds = timeline.events.kind[places.row]
        found = set[tuple[int, int]]()
        for numbers, inside in patterns.matching(folders, places.folder, places.names):
            for number in numbers:
                wanted = [CODE[kind] for kind in _events_of(rules[number])]
                fitting = places.row[inside[np.isin(kinds[inside], wanted)]]
                found.update((row, number) for row in fitting.tolist())
        chosen = np.unique(np.array([row for row, _ in found], np.int64))
        events = dict(zip(chosen.tolist(), timeline.events_at(chosen), strict=True))
        self._judge([(rules[number], events[row]) for row, number in sorted(found)])

    def _judge(self, matched: list[tuple[Rule, Event]]) -> None:
        """Record a sighting for each event whose inode meets the conditions of the rule."""
        numbers = np.unique(np.array([event.inode for _, event in matched], np.int64))
        now = dict(zip(numbers.tolist(), self.fs.inode_table(numbers).each(), strict=True))
        aged: set[tuple[int, int]] = set()  # written on this system, whatever its present times are
        for rule, event in sorted(matched, key=lambda pair: pair[1].kind is not EventKind.TIMES):
            inode, life = now[event.inode], (event.inode, event.generation)
            same = inode.generation == event.generation and inode.links_count > 0
            if event.kind not in rule.events and not (same and inode.mtime >= self._since):
                continue
            traits = inode_traits(inode, self._since) if same else assumed_traits(event)
            traits |= event_traits(event, inode.crtime if same else None)
            if Trait.AGED in traits or life in aged:
                aged.add(life)
                traits.add(Trait.FRESH)
            assert event.path is not None
            path = self.prefix + event.path
            seen = path_inside(path)
            if (rule.needs | rule.lacks) & BESIDE:
                traits |= self._neighbours.traits(path, inode if same else None, event)
            if seen != path:  # layers are unpacked, from the same packages as the system
                traits -= {Trait.BORROWED} if same else {Trait.BORROWED, Trait.FRESH}
            if rule.needs <= traits and not rule.lacks & traits and rule.accepts(seen):
                examined = self._examined(path, inode) if same else Examined(path)
                self._event(rule, event, examined)

    def _event(self, rule: Rule, event: Event, examined: Examined) -> None:
        said = self._conditions.note(rule, examined)
        if said is None:
            return
        inode = examined.inode
        size, mode = (inode.size, inode.mode) if inode else (None, None)
        self.book.add(rule, Sighting(
            examined.path, event.inode, event.generation, event.time, [str(event.kind)], size, mode,
            note=said, event=event, made=inode.crtime if inode else None,
            uid=inode.uid if inode else None,
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
        files = LiveMatcher(self.fs, self.prefix, self._directories, self._since)
        named = set()
        for path, inode in files.of_inodes(np.array(sorted(found), np.int64)):
            named.add(inode.number)
            self._bad_live(path, inode, found[inode.number])
        for number in sorted(found.keys() - named):
            self._bad_live(None, self.fs.inode(number), found[number])

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
        self.book.add(self._by_code["known-bad"], _live_sighting(path, inode, _bad_note(match)))

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
                self.book.add(self._by_code["known-bad"], deleted_sighting(path, file, note))

    def drop_packaged(self, unchanged: Callable[[Collection[bytes]], set[bytes]]) -> None:
        """Forget the sightings of bytes, and of setuid, that are as a package installed them."""
        found = [
            (lives, key, seen.path.removeprefix(self.prefix))
            for code, lives in self.book.kept.items()
            if Look.OWN not in self._by_code[code].look
            and (shown := shown_as_installed(self._by_code[code]))
            for key, seen in lives.items()
            if seen.path is not None and shown.issuperset(seen.seen)
        ]
        if not found:
            return
        packaged = unchanged({path for _, _, path in found})
        for lives, key, path in found:
            if path in packaged:
                del lives[key]

    def image(self, disguises: Sequence[str]) -> None:
        """Record one sighting for all parts of the image that can be read in two ways."""
        rule = self._by_code["disguise"]
        if disguises:
            self.book.add(
                rule, Sighting(None, None, None, None, [IMAGE], note="; ".join(disguises))
            )

    def drop_repeated(self) -> None:
        """Forget that rights differ from the package's where another rule tells that change."""
        told = {
            seen.path
            for code, lives in self.book.kept.items()
            if code != RIGHTS and Trait.GAINED_SETUID in self._by_code[code].needs
            for seen in lives.values()
        }
        rights = self.book.kept.get(RIGHTS, {})
        for key in [key for key, seen in rights.items() if seen.path in told]:
            del rights[key]

    def drop_copies(self) -> None:
        """Keep of equal copies of a file the first one, which tells the others.

        Only for rules that deserve a look by what a file says: rights matter in each place.
        """
        for code, lives in self.book.kept.items():
            rule = self._by_code[code]
            if rule.weight is not Weight.LOOK or rule.is_of_rights or Look.OWN in rule.look:
                continue
            for first, others in find_copies(self.fs, lives.values()):
                first.note = "; ".join(filter(None, (first.note, copies_note(others))))
                dropped = {id(one) for one in others}
                for key in [key for key, seen in lives.items() if id(seen) in dropped]:
                    del lives[key]

    def files(self, found: Iterable[tuple[str, Sighting]]) -> None:
        """Record sightings of files by the codes of their rules."""
        for code, seen in found:
            path = None if seen.path is None else self.prefix + seen.path
            self.book.add(self._by_code[code], replace(seen, path=path))

    def logs(self, removed: Sequence[Sighting]) -> None:
        """Record each removal of lines from a log."""
        certain = self._by_code["lines-removed"]
        in_logs = PathPatterns([certain.paths])
        for number, seen in enumerate(removed):
            path = None if seen.path is None else self.prefix + seen.path
            assert seen.lines is not None
            is_strong = seen.lines.is_certain and in_logs.of_path(path or b"")
            rule = certain if is_strong else self._by_code["lines-gone"]
            lives = self.book.kept.setdefault(rule.code, {})
            lives[seen.inode, seen.generation, b"%d" % number] = replace(seen, path=path)

    def hints(self, timeline: Timeline) -> None:
        """Match the hints, except those that unpacking a file causes."""
        events = timeline.events
        by_hint = {hint: rule for rule in self._rules for hint in rule.hints}
        codes = np.array([int(hint) for hint in by_hint])
        rows = (events.kind == CODE[EventKind.HINT]) & np.isin(events.old_second, codes)
        chosen = np.flatnonzero(rows)[-EVENTS_LOOKED_AT:]
        hints = events.old_second[chosen].tolist()
        for event, hint in zip(timeline.events_at(chosen), hints, strict=True):
            path = None if event.path is None else self.prefix + (event.path or b"/")
            self.book.add(by_hint[HintKind(hint)], Sighting(
                path, event.inode, event.generation, event.time, ["hint"], event=event
            ))  # fmt: skip


def _events_of(rule: Rule) -> tuple[EventKind, ...]:
    """The kinds of events that can match a rule.

    Of an inode that the journal did not show before, a write in place is a change of its status.
    It is told from others by the time of the last write.
    """
    return (*rule.events, EventKind.STATUS) if EventKind.CONTENT in rule.events else rule.events


def _relevant_events(timeline: Timeline, rules: Sequence[Rule]) -> Int64s:
    """Rows of the events that can match a rule by their kind and values."""
    events = timeline.events
    kinds = sorted({CODE[kind] for rule in rules for kind in _events_of(rule)})
    wanted = np.isin(events.kind, kinds)
    gained = (events.new & ~events.old & 0o6000) != 0
    aged = events.new < timeline.commits.times_of(events.order) - AGE
    locked = (events.new & LOCKS) != 0
    is_named = any(EventKind.STATUS in rule.events for rule in rules)
    for kind, holds in (
        (EventKind.MODE, gained),
        (EventKind.TIMES, aged),
        (EventKind.FLAGS, locked),
        (
            EventKind.STATUS,
            is_named | (events.old == NO_VALUE),
        ),  # the first state that the journal has
    ):
        wanted &= (events.kind != CODE[kind]) | holds
    return np.flatnonzero(wanted)


def _live_sighting(path: bytes | None, inode: Inode, note: str) -> Sighting:
    is_root_setuid = inode.mode & stat.S_ISUID and inode.uid == 0 and stat.S_ISREG(inode.mode)
    return Sighting(
        path, inode.number, inode.generation, inode.ctime, ["there"], inode.size, inode.mode,
        note=note or ("setuid root" if is_root_setuid else ""), made=inode.crtime,
        uid=inode.uid,
    )  # fmt: skip


def _attributes_of(file: DeletedFile) -> dict[bytes, bytes]:
    found = file.xattrs()
    return {} if found is None else found.values


def _bad_note(match: KnownMatch) -> str:
    """The hash that a content has, and the list that has it."""
    return f"{match.algorithm} {match.digest} is in {match.source}"
