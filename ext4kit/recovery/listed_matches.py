"""Finds the freed inodes to which contents of listed files belong, by their names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ext4kit.arrays.types import Float64s, Int64s
from ext4kit.matching.hmm import Mentions
from ext4kit.recovery.arranging import MAX_VERSION_UNMOVED
from ext4kit.recovery.listed_files import ListedName
from ext4kit.recovery.names import KnownName

LIKELIER = 300.0  # likelihood ratio of a file with the listed name of a content
LIKELIER_LATE = 3.0
UNCOUNTED = 1  # i_version if the kernel does not count changes, as is usual before 6.1
MAX_ALIKE = 1000  # maximum files of one name, or name and directory name; more are no evidence
_WORD = 1 << 32
_Parts = tuple[bytes, ...]  # parts of a path, the last one first


@dataclass(frozen=True, slots=True)
class FreedFiles:
    """Files whose contents are searched for, as columns, in creation order.

    Attributes:
        names: name of each file, None if unknown.
        number: inode number of each file.
        made: crtime of each file.
        folder_made: crtime of the directory of each file, 0 if unknown.
        version: i_version of each file.
    """

    names: Sequence[KnownName | None]
    number: Int64s
    made: Int64s
    folder_made: Int64s
    version: Int64s

    def is_older(self, file: int, listed: ListedName) -> bool:
        """Whether a file existed at the time for which a list names its content.

        Two changes within one clock tick have the same time, so a file that was created in that
        tick existed only if the list has its inode number, as the index of git does.
        """
        made = int(self.made[file])
        is_same = listed.inode == int(self.number[file]) % _WORD
        return made < listed.time or (made == listed.time and is_same)


@dataclass(frozen=True, slots=True)
class ListedMatches:
    """For each content, the files that may be those that lists name for it.

    Attributes:
        texts: content -> such files, each with the text of the list entry.
        late: content -> such files that may have replaced the listed file.
        named: content -> its file, if lists, names and times exclude all others.
        names: content -> all names that lists give to it.
        rewritten: content -> files that lists name for it but that were rewritten later.
        same: content -> the first content with the same bytes.
    """

    texts: dict[int, dict[int, str]] = field(default_factory=dict)
    late: dict[int, set[int]] = field(default_factory=dict)
    named: dict[int, int] = field(default_factory=dict)
    names: dict[int, frozenset[bytes]] = field(default_factory=dict)
    rewritten: dict[int, set[int]] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)

    @property
    def fitting(self) -> Int64s:
        """Contents for which lists name a searched file."""
        some = [at for at in self.names if self.texts[at] or self.rewritten[at]]
        return np.array(some, np.int64)

    def contradicts(self, content: int, file: int, name: KnownName | None) -> bool:
        """Whether lists contradict a pair of content and file.

        They do if they give the content other names, or show that it may be an earlier content of
        the file. If all files of a list were replaced at once, the new contents are on the disk in
        the same order as the old ones, and the order does not show which of both are there.
        """
        if content not in self.names or name is None:
            return False
        earlier = self.rewritten[content] | self.late[content]
        return name.name not in self.names[content] or file in earlier

    def added_to(self, mentions: Mentions, contents: Int64s, files: Int64s) -> Mentions:
        """Likelihood ratios from names in contents, combined with those from lists.

        Args:
            mentions: likelihood ratios from names, with contents and files numbered within a part.
            contents: rows of the contents of the part.
            files: rows of the files of the part.
        """
        place = {row: at for at, row in enumerate(files.tolist())} if self.texts else {}
        found = dict(mentions)
        for at, content in enumerate(contents.tolist()):
            listed = {
                place[file]: LIKELIER_LATE if file in self.late[content] else LIKELIER
                for file in self.texts.get(content, ())
                if file in place
            }
            if not listed:
                continue
            ratios: dict[int, float] = {}
            if at in mentions:
                ratios.update(zip(*(one.tolist() for one in mentions[at]), strict=True))
            ratios.update((file, max(one, ratios.get(file, one))) for file, one in listed.items())
            order = sorted(ratios)
            likelier: Float64s = np.array([ratios[one] for one in order])
            found[at] = np.array(order, np.int64), likelier
        return found

    def supported(self, likely: Iterable[tuple[int, int]]) -> dict[int, int]:
        """The pairs in `named` that are likely by order too.

        It is sufficient if the file is likely to have a content with the same bytes.

        Args:
            likely: (content, file) pairs with a probability above one half.
        """
        found = {file: self.same.get(content) for content, file in likely}
        return {
            content: file
            for content, file in self.named.items()
            if found.get(file) == self.same[content]
        }


def match_listed(
    listed: Mapping[int, Sequence[ListedName]], rows: Int64s, files: FreedFiles
) -> ListedMatches:
    """Find files with the names that lists give to contents.

    A file fits if its path, as far as it is known, ends like the listed path, and if it was not
    written more often than other files of the list. All other files are excluded if the file was
    created before the list was written (`FreedFiles.is_older`), its counted changes leave no room
    for a second writing, and as many files fit as there are contents with these bytes.

    A file that was created after the list, in an older directory, may have replaced the listed file
    (as editors do) or may have been unpacked from the archive, so its name is weak evidence. If the
    directory is younger than the list as well, the file was created together with it.

    Args:
        listed: row of a content -> its entries in lists.
        rows: the contents, in disk order.
        files: files whose contents are searched for.
    """
    found = ListedMatches()
    groups: dict[tuple[ListedName, ...], list[int]] = defaultdict(list)
    for content, row in enumerate(rows.tolist()):
        if row in listed:
            groups[tuple(listed[row])].append(content)
    asked = _FilesByName(files.names if groups else (), files.version)
    fits = [(contents, every, asked.fitting(every)) for every, contents in groups.items()]
    limits = _most_versions([fit for _, _, every in fits for fit in every])
    pairs: list[tuple[int, int]] = []
    for contents, every, fitting in fits:
        kept = [fit for fit in fitting if fit.version <= limits[fit.listed.where]]
        texts = {fit.file: fit.listed.text for fit in reversed(kept)}
        sure = {
            fit.file
            for fit in kept
            if fit.is_whole
            and files.is_older(fit.file, fit.listed)
            and UNCOUNTED < fit.version < limits[fit.listed.where]
        }
        late = {
            fit.file
            for fit in kept
            if not files.is_older(fit.file, fit.listed)
            and fit.listed.time > files.folder_made[fit.file]
        }
        rewritten = {fit.file for fit in fitting} - texts.keys()  # may have had this content
        for content in contents:
            found.texts[content], found.late[content] = texts, late
            found.rewritten[content] = rewritten
            found.names[content] = frozenset(one.name for one in every)
            found.same[content] = contents[0]
        if len(sure) == len(contents):
            pairs += zip(contents, sorted(sure), strict=True)
    claims = Counter(file for _, file in pairs)  # lists can name several contents for one file
    found.named.update((content, file) for content, file in pairs if claims[file] == 1)
    return found


@dataclass(frozen=True, slots=True)
class _Fit:
    """A file whose name is that of a listed file.

    Attributes:
        listed: the list entry.
        file: the file; version: its i_version.
        is_whole: whether one of the two paths ends with the whole other path.
    """

    listed: ListedName
    file: int
    version: int
    is_whole: bool


def _most_versions(fits: Sequence[_Fit]) -> dict[bytes, int]:
    """List -> maximum i_version of files that may have been written only once.

    Several writes within a clock tick are counted once, so files that were written once can differ
    by 1. A second writing adds 1 or more. A file at the limit may therefore have been written once
    or twice.
    """
    versions: dict[bytes, dict[int, int]] = defaultdict(dict)
    for fit in fits:
        versions[fit.listed.where][fit.file] = fit.version
    return {
        where: min(files.values()) + 1 if len(files) > 1 else MAX_VERSION_UNMOVED
        for where, files in versions.items()
    }


class _FilesByName:
    """Files whose contents are searched for, by name.

    Args:
        names: names of the files.
        version: i_version of each file.
    """

    def __init__(self, names: Sequence[KnownName | None], version: Int64s) -> None:
        self._by_end: dict[_Parts, list[tuple[int, _Parts]]] = defaultdict(list)
        for file, name in enumerate(names):
            parts = () if name is None else _known_parts(name)
            for end in {parts[:1], parts[:2]} - {()}:
                self._by_end[end].append((file, parts))
        self._version = version

    def fitting(self, listed: Sequence[ListedName]) -> list[_Fit]:
        """Files with the names of listed files."""
        return [
            _Fit(one, file, int(self._version[file]), is_whole)
            for one in listed
            for file, is_whole in self._of_path(one.path)
        ]

    def _of_path(self, path: bytes) -> list[tuple[int, bool]]:
        """(file, whether one path ends with the whole other one) of the files that fit best."""
        wanted = tuple(reversed(path.split(b"/")))
        files = self._by_end.get(wanted[:2]) or self._by_end.get(wanted[:1], [])
        if len(files) > MAX_ALIKE:
            return []
        common = [_common(wanted, parts) for _, parts in files]
        best = max(common, default=0)
        fitting = [one for one, length in zip(files, common, strict=True) if length == best]
        return [
            (file, best == min(len(wanted), len(parts)) and (best > 1 or len(fitting) == 1))
            for file, parts in fitting
        ]


def _known_parts(name: KnownName) -> _Parts:
    """Parts of the known path of a file, the last one first."""
    path = name.path if name.path is not None else name.partial_path
    parts = (path or name.name).strip(b"/").split(b"/")
    return tuple(reversed(parts if name.path is not None or path is None else parts[1:]))


def _common(some: _Parts, others: _Parts) -> int:
    """Number of last parts that two paths have in common."""
    same = [one == other for one, other in zip(some, others, strict=False)]
    return same.index(False) if False in same else len(same)
