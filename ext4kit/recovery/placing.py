"""The path of a recovered file below the output folder."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from ext4kit.filetypes.categories import category_of
from ext4kit.output.names import extension_of, marked_name
from ext4kit.recovery.model import DeletedFile, Grade

OutputPath = tuple[bytes, ...]  # components of a path below the output folder
FRAGMENTS, OTHER = "fragments", "other"  # folders below carved/ besides the categories


class PartialFiles(StrEnum):
    """Where files graded partial are written, so that they are not mistaken for whole ones."""

    APART = "apart"  # in a folder of their own
    MARKED = "marked"  # among the others, marked in their names
    AMONG = "among"  # among the others


def output_path(file: DeletedFile) -> OutputPath:
    """Output path of a file; other files may have the same path."""
    is_inferred = file.grade is Grade.CARVED
    if file.path is not None:
        folder, _, name = file.path.strip(b"/").rpartition(b"/")
        return (*_below(b"inferred" if is_inferred else b"files", folder), name)
    if file.partial_path is not None:
        return (b"inferred" if is_inferred else b"unnamed", *file.partial_path.split(b"/"))
    return nameless_path(file)


def nameless_path(file: DeletedFile, name: bytes = b"") -> OutputPath:
    """Output path of a file without a name, or with a name that cannot be used."""
    extension = extension_of(name) or (file.file_type.extension if file.file_type else "")
    own = (disambiguator(file) + extension).encode()
    if file.inode is not None:
        return b"unnamed", own
    return b"carved", content_folder(file).encode(), own


def partial_path(path: OutputPath, place: PartialFiles) -> OutputPath:
    """Output path of a file that is graded partial.

    Args:
        path: the path that the file would have if it were whole.
        place: where such files are written.
    """
    if place is PartialFiles.APART:
        return (b"partial", *path[path[0] == b"files" :])
    if place is PartialFiles.MARKED:
        return (*path[:-1], marked_name(path[-1], ".partial"))
    return path


def disambiguator(file: DeletedFile) -> str:
    """Text that distinguishes files of equal names."""
    inode = file.inode
    if inode is None:
        return f"block-{file.first_block}"
    return f"inode-{inode.number}-{inode.generation}"


def content_folder(file: DeletedFile) -> str:
    """Folder for content without an inode: its category, or a folder for probable fragments."""
    if file.fragment:
        return FRAGMENTS
    kind = file.file_type
    head = file.head() if kind and kind.encoding else b""  # it is more specific only for text
    return (kind and category_of(kind, head, file.name or b"")) or OTHER


@lru_cache(maxsize=16)
def _below(top: bytes, folder: bytes) -> OutputPath:
    """Output path of the files of a directory, cached because these files are consecutive."""
    return (top, *folder.split(b"/")) if folder else (top,)
