"""Listings of live files as names, long lines or records, built column by column for speed."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Literal, NotRequired

import numpy as np

from ext4kit import fields
from ext4kit.arrays.types import Bytes2D, Int64s
from ext4kit.errors import AccessError, CorruptError, quoted
from ext4kit.fields import Nothing, TargetText, json_name
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.directories import DirTree
from ext4kit.filesystem.filesystem import FOLDER
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.selected import known_key_of, selected_rows
from ext4kit.known.files import KnownFiles
from ext4kit.parsers.inode import CRTIME_END, KINDS, InodeTable, is_fast_symlink
from ext4kit.report import text_columns
from ext4kit.report.known_marks import known_text
from ext4kit.report.safe import are_plain, printable, printable_lines, shown, shown_lines
from ext4kit.report.tables import fold_row, human_size, screen_width
from ext4kit.selection import Selection

AT_ONCE = 1 << 16
RUNS_AT_ONCE = 256
_NUMBERS = (
    "number",
    "mode",
    "links_count",
    "uid",
    "gid",
    "stored_size",
    "generation",
    "extra_isize",
)
_TIMES = ("atime", "mtime", "ctime", "crtime")


@dataclass(frozen=True, slots=True)
class ListedNames:
    """The files to list."""

    given: list[bytes]  # a name or a path for each file; empty where `tree` has them
    inode: Int64s
    folder: bytes | None = None  # of the names; None for full paths, or if given as `<12>`
    tree: DirTree | None = None  # entries below a directory
    known: list[str] | None = None  # the list that has each file, "" for none; None: not asked

    def __len__(self) -> int:
        return len(self.inode)

    @property
    def names(self) -> list[bytes]:
        """The name or path of each file."""
        return self.given if self.tree is None else self.tree.paths


def list_names(
    fs: FileSystem, target: bytes, recursive: bool, hidden: bool
) -> Iterator[ListedNames]:
    """Files for `ls TARGET`: the entries of a directory, all files below it, or TARGET itself.

    The target is a path or `<12>`. With `recursive`, the files have full paths and are in tree
    order; a large tree comes in several parts. `hidden` adds `.` and `..` to the entries of one
    directory.

    Raises:
        RequestError: the path does not exist.
    """
    if target.strip(b"/") == FOLDER and not fs.has_name(ROOT, FOLDER):
        tops = fs.unattached
        return iter([ListedNames(tops.names.tolist(), tops.number, target)])
    number = fs.lookup(target)
    if not fs.has_entries(number):
        return iter([ListedNames([target], np.array([number]))])
    if recursive:
        trees = fs.tree_pieces(number, _path(target))
        return (ListedNames([], tree.inode, tree=tree) for tree in trees)
    if number == ROOT and fs.root_is_lost:
        tops = fs.unattached
        names = [FOLDER + b"/" + name for name in tops.names.tolist()]
        return iter([ListedNames(names, tops.number, b"/")])
    entries = sorted(fs.entries(number), key=lambda entry: entry.name)
    kept = [entry for entry in entries if hidden or entry.name not in (b".", b"..")]
    numbers = np.array([entry.inode for entry in kept], np.int64)
    folder = None if _is_number(target) else target
    return iter([ListedNames([entry.name for entry in kept], numbers, folder)])


def _is_number(target: bytes) -> bool:
    return target.startswith(b"<") and target.endswith(b">")


def _path(target: bytes) -> bytes:
    """A target as an absolute path without a trailing slash; `<12>` is unchanged."""
    return target if _is_number(target) else b"/".join([b"", *filter(None, target.split(b"/"))])


def compared_names(
    fs: FileSystem, found: Iterable[ListedNames], known: KnownFiles, selection: Selection
) -> Iterator[ListedNames]:
    """The names with the list that has each file; those that a selection leaves.

    Args:
        fs: the file system.
        found: the names.
        known: the lists.
        selection: its condition `known` alone counts.
    """
    for each in found:
        for names, table in _tables(fs, each):
            are_known = fs.inodes_known(table.number).tolist()
            rows, marks = list[int](), list[str]()
            for row, is_known in enumerate(are_known):
                key = known_key_of(fs, table, row, is_known)
                if selection.known is None or selection.known(*key):
                    match = known.match(*key)
                    rows.append(row)
                    marks.append(match.source if match else "")
            given = [names[row] for row in rows]
            yield ListedNames(given, table.number[rows], each.folder, known=marks)


def selected_names(
    fs: FileSystem, found: Iterable[ListedNames], selection: Selection
) -> Iterator[ListedNames]:
    """The names of the selected files.

    Args:
        fs: the file system.
        found: the names.
        selection: the conditions.
    """
    for each in found:
        above = b"" if each.folder is None else _path(each.folder) + b"/"
        names = each.names
        rows = selected_rows(fs, selection, [above + name for name in names], each.inode)
        given = [names[row] for row in rows.tolist()]
        yield ListedNames(given, each.inode[rows], each.folder)


def plain_text(found: ListedNames) -> Iterator[bytes]:
    """One name per line, many lines at a time."""
    if found.tree is not None:
        yield from _tree_text(found.tree)
    elif len(found):
        text = shown_lines(found.names)
        if found.known is not None and any(found.known):
            pairs = zip(text.split("\n"), found.known, strict=False)
            text = "".join(
                f"{line}  [{known_text(source)}]\n" if source else f"{line}\n"
                for line, source in pairs
            )
        yield text.encode()


def _tree_text(tree: DirTree) -> Iterator[bytes]:
    """The paths of a tree, one per line; plain names of one directory are joined in one step."""
    folders = printable_lines(tree.folders).split("\n")
    is_clear = [quoted(folder) == folder for folder in folders]
    runs = tree.name_runs()
    first = 1  # omits the line break before the first line
    while some := list(islice(runs, RUNS_AT_ONCE)):
        lines = []
        for folder, rows, names in some:
            is_whole = names.count(b"\n") == rows.stop - rows.start
            if is_clear[folder] and is_whole and are_plain(names):
                lines.append(names.replace(b"\n", f"\n{folders[folder]}/".encode()))
            else:
                each = tree.names.take(rows).tolist()
                paths = (quoted(f"{folders[folder]}/{printable(name)}") for name in each)
                lines += (f"\n{path}".encode() for path in paths)
        yield b"".join(lines)[first:]
        first = 0
    if len(tree):
        yield b"\n"


def numbered_text(found: ListedNames) -> Iterator[bytes]:
    """Inode number and name, one file per line."""
    width = len(str(found.inode.max())) if len(found) else 0
    lines = b"".join(plain_text(found)).decode().split("\n")
    pairs = zip(found.inode.tolist(), lines, strict=False)
    return (f"{number:>{width}} {name}\n".encode() for number, name in pairs)


def long_text(
    fs: FileSystem, found: ListedNames, numbered: bool, human: bool = False
) -> Iterator[bytes]:
    """`ls -l` lines: mode, links, uid, gid, size, mtime, name, link target.

    Args:
        fs: the file system.
        found: the files.
        numbered: begin with the inode number.
        human: show sizes in the largest fitting unit.
    """
    start = 0
    for lines in _line_batches(found):
        table = fs.inode_table(found.inode[start : start + len(lines)])
        start += len(lines)
        columns = [
            text_columns.by_value(table.mode, mode_text),
            *map(text_columns.decimals, (table.links_count, table.uid, table.gid)),
            _sizes(table, human),
            text_columns.times(table.whole_seconds("mtime")),
        ]
        unknown = ~fs.inodes_known(table.number)  # inodes of unknown state, as of a transaction
        for column in columns:
            column[unknown] = np.frombuffer(b"?".rjust(column.shape[1]), np.uint8)
        columns[0][unknown] = ord("?")
        if numbered:
            columns.insert(0, text_columns.decimals(table.number))
        for row, target in link_targets(fs, table).items():
            lines[row] += f" -> {shown(target)}".encode()
        yield _folded(text_columns.joined(columns, lines), lines)


def _folded(text: bytes, tails: list[bytes]) -> bytes:
    """The lines of a list; on a terminal, long names are folded to the screen width."""
    width = screen_width()
    if width is None or not tails:
        return text
    lines = text.split(b"\n")[:-1]
    rows = (
        fold_row(line[: -len(tail)].decode(), tail.decode()) if tail else line.decode()
        for line, tail in zip(lines, tails, strict=True)
    )
    return "".join(f"{row}\n" for row in rows).encode()


def _line_batches(found: ListedNames) -> Iterator[list[bytes]]:
    """The lines of `plain_text` without their line breaks, at most `AT_ONCE` in a batch."""
    lines: list[bytes] = []
    for text in plain_text(found):
        lines += text.strip(b"\n").split(b"\n") if text != b"\n" else []
        for _ in range(len(lines) // AT_ONCE):
            yield lines[:AT_ONCE]
            del lines[:AT_ONCE]
    if lines:
        yield lines


def _tables(fs: FileSystem, found: ListedNames) -> Iterator[tuple[list[bytes], InodeTable]]:
    names = found.names
    for start in range(0, len(names), AT_ONCE):
        numbers = found.inode[start : start + AT_ONCE]
        yield names[start : start + AT_ONCE], fs.inode_table(numbers)


@cache
def mode_text(mode: int) -> str:
    """Text such as `-rw-r--r--`; `?` for a type that ext4 does not have."""
    return stat.filemode(mode)


def _sizes(table: InodeTable, human: bool) -> Bytes2D:
    """Sizes in bytes or in the largest fitting unit; `major,minor` for devices."""
    if human:
        sizes = text_columns.by_value(table.stored_size, human_size)
    else:
        sizes = text_columns.decimals(table.stored_size)
    kind = table.mode & 0xF000
    rows = np.flatnonzero((kind == stat.S_IFCHR) | (kind == stat.S_IFBLK))
    devices = [table.one(row).device or (0, 0) for row in rows.tolist()]
    return text_columns.replaced(sizes, rows, [f"{major},{minor}" for major, minor in devices])


def link_targets(fs: FileSystem, table: InodeTable) -> dict[int, bytes]:
    """The target of each symlink, by row; an unreadable target is reported as a problem."""
    links = np.flatnonzero(table.is_symlink)
    fast = is_fast_symlink(table.mode, table.size, table.flags)
    found = {}
    for row in links.tolist():
        if fast[row]:
            found[row] = table.i_block[row].tobytes()[: int(table.size[row])]
            continue
        try:
            found[row] = fs.link_target(table.one(row))
        except (AccessError, CorruptError) as error:
            fs.problems.add(f"inode {table.number[row]}", f"its target cannot be read: {error}")
    return found


class EntryRecord(fields.KnownFact, fields.PathText, fields.LiveInode):
    """A name and its inode."""

    record: Literal["entry"]
    links_count: fields.Count
    target: NotRequired[fields.Target]
    target_bytes: NotRequired[fields.Exact]


class UnknownEntryRecord(fields.PathText):
    """A name and the number of an inode whose state is unknown (--as-of)."""

    record: Literal["entry"]
    inode: fields.Inode
    type: None
    mode: None
    links_count: None
    uid: None
    gid: None
    size: None
    generation: None
    atime: None
    mtime: None
    ctime: None
    crtime: None
    unknown: fields.Unknown


def entry_records(fs: FileSystem, found: ListedNames) -> Iterator[EntryRecord | UnknownEntryRecord]:
    """A record for each entry, with at least the fields of `ls -l`; times in nanoseconds."""
    prefix = b"" if found.folder is None else _path(found.folder) + b"/"
    start = 0
    for names, table in _tables(fs, found):
        targets = link_targets(fs, table)
        known = fs.inodes_known(table.number).tolist()
        columns = (getattr(table, name).tolist() for name in _NUMBERS)
        rows = zip(*columns, *map(table.times, _TIMES), strict=True)
        for row, (name, values) in enumerate(zip(names, rows, strict=True)):
            if known[row]:
                link: TargetText | Nothing = (
                    json_name(targets[row], "target") if row in targets else {}
                )
                source = None if found.known is None else found.known[start + row]
                asked: fields.KnownFact = {} if source is None else {"known": source or None}
                yield _entry(prefix + name, values, link, asked)
            else:
                yield _unknown_entry(prefix + name, values[0], f"its table block {fs.unreadable}")
        start += len(names)


def _entry(
    path: bytes, values: tuple[int, ...], link: TargetText | Nothing, asked: fields.KnownFact
) -> EntryRecord:
    """The record of an entry, built from the columns of its inode."""
    mode, extra_isize = values[1], values[7]
    return {
        "record": "entry",
        **json_name(path),
        "inode": values[0],
        "type": KINDS.get(stat.S_IFMT(mode), "unknown"),
        "mode": mode,
        "links_count": values[2],
        "uid": values[3],
        "gid": values[4],
        "size": values[5],
        "generation": values[6],
        "atime": values[8],
        "mtime": values[9],
        "ctime": values[10],
        "crtime": values[11] if extra_isize >= CRTIME_END else None,
        **link,
        **asked,
    }


def _unknown_entry(path: bytes, number: int, reason: str) -> UnknownEntryRecord:
    """The record of an entry whose inode state is unknown."""
    return {
        "record": "entry",
        **json_name(path),
        "inode": number,
        "type": None,
        "mode": None,
        "links_count": None,
        "uid": None,
        "gid": None,
        "size": None,
        "generation": None,
        "atime": None,
        "mtime": None,
        "ctime": None,
        "crtime": None,
        "unknown": reason,
    }
