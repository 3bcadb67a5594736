"""The live files that match rules by path, name and inode; whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ext4kit.arrays.types import Bools, Bytes2D, Int64s
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import DirTree
from ext4kit.filesystem.inodes import INODES_AT_ONCE
from ext4kit.parsers.directory import EntryTable
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Severity
from ext4kit.triage.rules.patterns import PathPatterns, coded
from ext4kit.triage.rules.rule import Rule, Trait
from ext4kit.triage.rules.traits import are_odd, traits_of
from ext4kit.triage.suspicions.inner_roots import is_root, path_inside

NAMES_LOOKED_AT = 400_000  # maximum names with an unusual inode or in directories of a pattern


class LiveMatcher:
    """The live files of a file system.

    Args:
        fs: the file system.
        prefix: path of its root.
        directories: path of each live directory -> its inode number.
        since: the first moment that the journal covers, ns.
    """

    def __init__(
        self,
        fs: FileSystem,
        prefix: bytes,
        directories: Mapping[bytes, int],
        since: int,
    ) -> None:
        self._fs, self._prefix, self._directories, self._since = fs, prefix, directories, since

    def matching(self, rules: Sequence[Rule]) -> Iterator[tuple[Rule, bytes, Inode]]:
        """Each rule with each file whose path, name and inode match it."""
        tree = self._part_of_tree(rules)
        patterns = PathPatterns([rule.paths for rule in rules], is_root)
        for some in tree.batches(INODES_AT_ONCE):
            yield from self._matching(rules, tree, np.arange(len(tree))[some], patterns)

    def _matching(
        self, rules: Sequence[Rule], tree: DirTree, rows: Int64s, patterns: PathPatterns
    ) -> Iterator[tuple[Rule, bytes, Inode]]:
        table = self._fs.inode_table(tree.inode[rows])
        names = tree.names.take(rows)
        traits = traits_of(table, self._since) | {Trait.ODD: are_odd(names)}
        found: list[tuple[int, int]] = []
        for matched, here in patterns.matching(tree.folders, tree.folder[rows], names):
            for rule in matched:
                fitting = here[_have(rules[rule], traits, here)]
                found += [(row, rule) for row in fitting.tolist()]
        paths: dict[int, bytes] = {}
        inodes: dict[int, Inode] = {}
        for row, number in sorted(set(found)):
            if row not in paths:
                (paths[row],), inodes[row] = tree.paths_of(rows[row : row + 1]), table.one(row)
            if rules[number].accepts(path_inside(paths[row])):
                yield rules[number], paths[row], inodes[row]

    def of_inodes(self, numbers: Int64s) -> Iterator[tuple[bytes, Inode]]:
        """(path, inode) of each name of some inodes."""
        tree = self._part_of_tree([], numbers)
        for some in tree.batches(INODES_AT_ONCE):
            table = self._fs.inode_table(tree.inode[some])
            found = zip(tree.paths_of(some), table.each(), strict=True)
            yield from (each for each in found if each[1].number in numbers)

    def _part_of_tree(self, rules: Sequence[Rule], special: Int64s | None = None) -> DirTree:
        """The part of the tree that rules may match by directory and name, or by inode.

        It includes directories. The whole tree is not read, because it would take memory for each
        file.

        Args:
            rules: the rules.
            special: numbers of inodes that are in it; by default, the setuid and locked ones.
        """
        placed = PathPatterns([rule.paths for rule in rules if not rule.is_by_state], is_root)
        numbers = np.array(list(self._directories.values()), np.int64)
        code, states = coded(placed.of_folder(path) for path in self._directories)
        order = np.argsort(numbers)
        numbers, code = numbers[order], code[order]
        has_names = np.array([bool(state.names) for state in states])
        wanted = self._rare(rules) if special is None else special

        def may_match(entries: EntryTable, blocks: Bytes2D, directory: Int64s) -> Bools:
            names = entries.packed_names(blocks)
            found = np.isin(entries.inode, wanted)
            if special is None:
                found |= are_odd(names)
            at = np.minimum(np.searchsorted(numbers, directory), len(numbers) - 1)
            kind = np.where((numbers[at] == directory) & has_names[code[at]], code[at], -1)
            for number in np.unique(kind[kind >= 0]).tolist():
                rows = np.flatnonzero(kind == number)
                for _, mask in states[number].among(names.take(rows)):
                    found[rows] |= mask
            return found

        tree = self._fs.tree(path=self._prefix, only=may_match)
        exists = (tree.inode > 0) & (tree.inode <= self._fs.superblock.inodes_count)
        rows = np.flatnonzero(exists)
        if len(rows) > NAMES_LOOKED_AT:
            what = f"only the first {NAMES_LOOKED_AT:,} of {len(rows):,} names were checked"
            self._fs.problems.add("rules", what, Severity.NOTE)
        rows = rows[:NAMES_LOOKED_AT]
        return DirTree(tree.inode[rows], tree.file_type[rows], tree.names.take(rows),
                       tree.folder[rows], tree.folders)  # fmt: skip

    def _rare(self, rules: Sequence[Rule]) -> Int64s:
        """Numbers of live inodes that a rule wants wherever they are."""
        by_state = [rule for rule in rules if rule.is_by_state and Trait.ODD not in rule.needs]
        found = [np.zeros(0, np.int64)]
        for table in self._fs.inode_batches():
            traits = traits_of(table, self._since)
            linked = np.flatnonzero(table.links_count > 0)
            for rule in by_state:
                found.append(table.number[linked[_have(rule, traits, linked)]])
        return np.unique(np.concatenate(found))


def _have(rule: Rule, traits: Mapping[Trait, Bools], rows: Int64s) -> Bools:
    """Whether each row has the traits that a rule needs, and none that must not be there."""
    found = np.ones(len(rows), bool)
    for trait in rule.needs:
        found &= traits[trait][rows] if trait in traits else False
    for trait in rule.lacks:
        if trait in traits:
            found &= ~traits[trait][rows]
    return found
