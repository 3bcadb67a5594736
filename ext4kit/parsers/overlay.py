"""Extended attributes by which overlayfs joins layers.

An attribute is `trusted.overlay.NAME`; without privileges (mount option `userxattr`) it is
`user.overlay.NAME`. Sources: kernel fs/overlayfs/overlayfs.h, super.c, copy_up.c and
Documentation/filesystems/overlayfs.rst.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Bytes, Int8ub, Int32ub, Int32ul, Struct

FILE_HANDLE = Layout(
    "overlayfs file handle",
    Struct(
        "version" / Int8ub,  # 0
        "magic" / Int8ub,  # MAGIC
        "len" / Int8ub,  # bytes of all
        "flags" / Int8ub,  # byte order, and whether the file is in the upper layer
        "type" / Int8ub,  # of the file identifier: enum fid_type
        "uuid" / Bytes(16),  # of the file system that has the file
    ),
)
# What ext4 puts after it: include/linux/exportfs.h, FILEID_INO32_GEN
INODE_GENERATION = Layout("file identifier", Struct("ino" / Int32ul, "gen" / Int32ul))
INODE_GENERATION_BE = Layout("file identifier", Struct("ino" / Int32ub, "gen" / Int32ub))
METACOPY = Layout(
    "overlayfs metacopy",
    Struct(
        "version" / Int8ub,  # 0
        "len" / Int8ub,  # bytes of all, with the digest
        "flags" / Int8ub,
        "digest_algo" / Int8ub,  # FS_VERITY_HASH_ALG_*
    ),
)

PRIVILEGED, UNPRIVILEGED = b"trusted.overlay.", b"user.overlay."
PREFIXES = (PRIVILEGED, UNPRIVILEGED)
MAGIC = 0xFB
_BIG_ENDIAN, _ANY_ENDIAN, _UPPER = 1, 2, 4
_INODE_TYPES = (1, 2)  # FILEID_INO32_GEN, and the same with the parent after it
DIGESTS = {1: "sha256", 2: "sha512"}


@dataclass(frozen=True, slots=True)
class LayerHandle:
    """A file of a layer, as overlayfs remembers it.

    Attributes:
        uuid: of its file system; all zeros if overlayfs was mounted with `uuid=null`.
        inode: inode number; None for an identifier that another file system made.
        generation: generation of the inode.
        is_upper: whether the file is in the upper layer.
        identifier: the bytes after the header.
    """

    uuid: str
    inode: int | None
    generation: int | None
    is_upper: bool
    identifier: bytes

    def is_on(self, file_system: bytes) -> bool:
        """Whether the file is on the file system with a UUID, as far as the handle says."""
        return self.uuid in (str(uuid.UUID(bytes=file_system)), str(uuid.UUID(int=0)))


@dataclass(frozen=True, slots=True)
class Metacopy:
    """What `metacopy` says of a file whose content is in a lower layer.

    Attributes:
        algorithm: of the fs-verity digest; "" without one.
        digest: the digest that the content must have.
    """

    algorithm: str
    digest: bytes


def overlay_key(name: bytes) -> str:
    """What an attribute says ("origin", "opaque" ...); "" for one that is not of overlayfs."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :].decode("ascii", "replace")
    return ""


def parse_handle(value: Buffer) -> LayerHandle:
    """The value of `origin` and of `upper`, or the name of an index entry.

    Raises:
        CorruptError: it is too short, or not of version 0.
    """
    raw = FILE_HANDLE.parse(value)
    if (raw.version, raw.magic) != (0, MAGIC):
        what = f"version {raw.version}, magic {raw.magic:#04x}"
        raise CorruptError(FILE_HANDLE.name, 0, what)
    rest = bytes(memoryview(value)[FILE_HANDLE.size : raw.len])
    inode, generation = None, None
    if raw.type in _INODE_TYPES:
        is_big = raw.flags & _BIG_ENDIAN and not raw.flags & _ANY_ENDIAN
        found = (INODE_GENERATION_BE if is_big else INODE_GENERATION).parse(rest)
        inode, generation = found.ino, found.gen
    is_upper = bool(raw.flags & _UPPER)
    return LayerHandle(str(uuid.UUID(bytes=raw.uuid)), inode, generation, is_upper, rest)


def parse_metacopy(value: Buffer) -> Metacopy:
    """The value of `metacopy`.

    Raises:
        CorruptError: it is neither empty nor a whole header of version 0.
    """
    if not memoryview(value).nbytes:
        return Metacopy("", b"")
    raw = METACOPY.parse(value)
    if raw.version:
        raise CorruptError(METACOPY.name, 0, f"version {raw.version}")
    digest = bytes(memoryview(value)[METACOPY.size : raw.len])
    return Metacopy(DIGESTS.get(raw.digest_algo, str(raw.digest_algo)) if digest else "", digest)
