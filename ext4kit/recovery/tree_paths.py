"""The path of a deleted file in a tree of deleted files, for exports, views and mounts."""

from __future__ import annotations

from ext4kit.recovery.model import DeletedFile

# folders of files without a path, and of contents without an inode
UNNAMED, CARVED = b"/$Unnamed", b"/$Carved"


def tree_path(file: DeletedFile) -> bytes:
    """The last path of a file, or a made-up one below `UNNAMED` or `CARVED` if it is unknown."""
    if file.inode is None:
        extension = file.file_type.extension if file.file_type else ""
        return CARVED + f"/block-{file.first_block}{extension}".encode()
    if file.path is not None:
        return file.path
    part = file.name if file.partial_path is None else file.partial_path
    return UNNAMED + b"/" + (part or b"inode-%d-%d" % (file.inode.number, file.inode.generation))
