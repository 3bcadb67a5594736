"""Deleted files as a tree of folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ext4kit.recovery import DeletedFile
from ext4kit.recovery.summary import DeletedOverview
from ext4kit.recovery.tree_paths import tree_path
from ext4kit.report.deleted import counts_line
from ext4kit.report.phrases import count_text
from ext4kit.report.safe import shown
from ext4kit.report.tables import human_size

_MARKS = {False: ("├── ", "│   "), True: ("└── ", "    ")}


@dataclass(slots=True)
class _Folder:
    """A folder: its contents by name, and its own record if it was deleted too."""

    file: DeletedFile | None = None
    below: dict[bytes, list[DeletedFile]] = field(default_factory=dict)
    folders: dict[bytes, _Folder] = field(default_factory=dict)
    count: int = 0
    whole: int = 0


def tree_lines(files: Iterable[DeletedFile]) -> Iterator[str]:
    """Folders with the numbers of their files, and the files with grade and size."""
    overview, root = DeletedOverview(), _Folder()
    for file in overview.counting(files):
        _enter(root, tree_path(file), file)
    yield f"/  {_counts(root)}"
    yield from _below(root)
    yield counts_line(overview.grades, overview.earlier, overview.nameless_contents)


def _enter(root: _Folder, path: bytes, file: DeletedFile) -> None:
    folder, (*above, name) = root, path.strip(b"/").split(b"/")
    chain = [root]
    for part in above:
        folder = folder.folders.setdefault(part, _Folder())
        chain.append(folder)
    if file.kind == "directory" and name not in folder.below:
        folder.folders.setdefault(name, _Folder()).file = file
        return
    folder.below.setdefault(name, []).append(file)
    for each in chain:
        each.count += 1
        each.whole += file.grade.is_whole


def _below(root: _Folder) -> Iterator[str]:
    """The lines of a folder; without recursion, because a hostile tree can be very deep."""
    waiting = [("", _entries(root))]
    while waiting:
        indent, entries = waiting[-1]
        if not entries:
            waiting.pop()
            continue
        name, entry = entries.pop()
        mark, bar = _MARKS[not entries]
        if isinstance(entry, _Folder):
            yield f"{indent}{mark}{shown(name)}/  {_counts(entry)}"
            waiting.append((indent + bar, _entries(entry)))
        else:
            yield f"{indent}{mark}{shown(name)}  {_facts(entry)}"


def _entries(folder: _Folder) -> list[tuple[bytes, _Folder | DeletedFile]]:
    """The contents of a folder, by name in descending order."""
    found: list[tuple[bytes, _Folder | DeletedFile]] = list(folder.folders.items())
    found += [(name, file) for name, files in folder.below.items() for file in files]
    return sorted(found, key=lambda one: one[0], reverse=True)


def _counts(folder: _Folder) -> str:
    return f"[{count_text(folder.count, 'file')}, {folder.whole:,} whole]"


def _facts(file: DeletedFile) -> str:
    size = "? bytes" if file.size is None else human_size(file.size)
    version = ", earlier version" if file.superseded else ""
    return f"[{file.grade}, {size}{version}]"
