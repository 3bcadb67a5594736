"""What a tree holds according to something other than ext4kit.

`kernel_tree` reads a mounted file system through system calls, `debugfs_tree` reads an image
that this kernel cannot mount through debugfs and the folder it was made from.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import hashlib
import os
import re
import stat
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ext4kit.units import NANOSECONDS

WHOLE_LIMIT = 32 << 20  # bytes; a larger file is digested by its non-zero pieces
PIECE = 4096
FS_IOC_GETFLAGS = 0x80086601  # include/uapi/linux/fs.h
FS_IOC_GETVERSION = 0x80087601
FS_IOC_FSGETXATTR = 0x801C581F
USER_VISIBLE_FLAGS = 0x725BDFFF  # EXT4_FL_USER_VISIBLE with the encrypt and verity flags
ENCRYPTED = 0x800

Numbers = dict[str, int | tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Node:
    """One inode as the oracle sees it.

    Attributes:
        numbers: field name of `ext4kit` inodes -> value; fields the oracle cannot tell are absent.
        xattrs: None when the oracle cannot tell.
        target: a symbolic link's target, or None.
        digest: `Digest.hexdigest` of a regular file's content, or None.
    """

    numbers: Numbers
    xattrs: dict[bytes, bytes] | None
    target: bytes | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """Every path of a file system, and every inode behind those paths."""

    paths: dict[bytes, int] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)


class Digest:
    """SHA-256 over a content that is told piece by piece in rising order of offset.

    A content of up to `WHOLE_LIMIT` bytes is hashed as it is, with zeros in the gaps. Of a
    larger one each aligned non-zero piece of 4096 bytes is hashed with its offset, so that a
    hole of a terabyte costs nothing and still has to be in its place.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.small = bytearray(size) if size <= WHOLE_LIMIT else None
        self.hash = hashlib.sha256()
        self.index, self.piece = 0, bytearray(PIECE)

    def add(self, offset: int, data: bytes | memoryview) -> None:
        """Take `data` at byte `offset`."""
        assert offset + len(data) <= self.size, "content goes past its size"
        if self.small is not None:
            self.small[offset : offset + len(data)] = data
            return
        while data:
            index, start = divmod(offset, PIECE)
            if index != self.index:
                self._finish_piece(index)
            part = data[: PIECE - start]
            self.piece[start : start + len(part)] = part
            offset, data = offset + len(part), data[len(part) :]

    def _finish_piece(self, following: int) -> None:
        if any(self.piece):
            self.hash.update((self.index * PIECE).to_bytes(8, "little") + self.piece)
        self.index, self.piece = following, bytearray(PIECE)

    def hexdigest(self) -> str:
        """The size and the hash, in one word."""
        self._finish_piece(0)
        if self.small is not None:
            self.hash.update(self.small)
        return f"{self.size}-{self.hash.hexdigest()}"


def data_pieces(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The (offset, data) pieces of an open file outside its holes, at most 1 MiB each.

    A small file is one piece: the kernel finds no end of inline data that has a hole behind it.
    """
    if size <= PIECE:
        yield 0, os.pread(descriptor, size, 0)
        return
    position = 0
    while position < size:
        try:
            position = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole up to the end
            return
        end = os.lseek(descriptor, position, os.SEEK_HOLE)
        position -= position % PIECE
        while position < end:
            data = os.pread(descriptor, min(1 << 20, end - position), position)
            yield position, data
            position += len(data)


def file_digest(descriptor: int, size: int) -> str:
    """The digest of an open file's content."""
    digest = Digest(size)
    for offset, data in data_pieces(descriptor, size):
        digest.add(offset, data)
    return digest.hexdigest()


# ---- the kernel as the oracle

_libc = ctypes.CDLL(None, use_errno=True)


def _statx(path: bytes) -> tuple[bytes, int]:
    """The raw struct statx of a path (not followed), with its mask."""
    buffer = ctypes.create_string_buffer(256)
    if _libc.statx(-100, path, 0x100, 0xFFF, buffer) != 0:
        raise OSError(ctypes.get_errno(), "statx", path)
    return buffer.raw, struct.unpack_from("<I", buffer.raw)[0]


def _statx_time(raw: bytes, offset: int) -> int:
    seconds, nanoseconds = struct.unpack_from("<qI", raw, offset)
    return int(seconds * NANOSECONDS + nanoseconds)


def _stat_numbers(path: bytes) -> tuple[int, Numbers]:
    """The inode number and the fields that statx tells."""
    raw, mask = _statx(path)
    links, uid, gid, mode = struct.unpack_from("<IIIH", raw, 16)
    inode, size = struct.unpack_from("<QQ", raw, 32)
    numbers: Numbers = {"mode": mode, "uid": uid, "gid": gid, "size": size, "links_count": links}
    numbers |= {name: _statx_time(raw, at) for name, at in (("atime", 64), ("ctime", 96))}
    numbers["mtime"] = _statx_time(raw, 112)
    if mask & 0x800:  # STATX_BTIME
        numbers["crtime"] = _statx_time(raw, 80)
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        numbers["device"] = struct.unpack_from("<II", raw, 128)
    return inode, numbers


def _ioctl_number(descriptor: int, request: int, size: int, offset: int = 0) -> int:
    answer = fcntl.ioctl(descriptor, request, bytes(size))
    return int(struct.unpack_from("<I", answer, offset)[0])


def _opened_numbers(descriptor: int) -> Numbers:
    """Flags, generation and project, which only an open file tells."""
    return {
        "flags": _ioctl_number(descriptor, FS_IOC_GETFLAGS, 8),
        "generation": _ioctl_number(descriptor, FS_IOC_GETVERSION, 8),
        "project_id": _ioctl_number(descriptor, FS_IOC_FSGETXATTR, 28, 12),
    }


def kernel_xattrs(path: bytes) -> dict[bytes, bytes]:
    """Every extended attribute of a path (not followed)."""
    names = [os.fsencode(name) for name in os.listxattr(path, follow_symlinks=False)]
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}


def _target(path: bytes) -> bytes:
    return os.readlink(path)  # noqa: PTH115 - Path.readlink tidies the target up


def kernel_node(path: bytes) -> tuple[int, Node]:
    """The inode number and the node of one path of a mounted file system."""
    inode, numbers = _stat_numbers(path)
    mode, size = numbers["mode"], numbers["size"]
    assert isinstance(mode, int) and isinstance(size, int)
    target = _target(path) if stat.S_ISLNK(mode) else None
    digest = None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # ENOKEY: an encrypted file without its key
            return inode, Node(numbers, kernel_xattrs(path))
        try:
            numbers |= _opened_numbers(descriptor)
            digest = file_digest(descriptor, size) if stat.S_ISREG(mode) else None
        finally:
            os.close(descriptor)
    return inode, Node(numbers, kernel_xattrs(path), target, digest)


def kernel_tree(root: Path) -> Tree:
    """The whole tree below a mount point; each inode is read once.

    Paths are absolute within the file system (`b"/a/b"`). A name that the kernel shows in
    its no-key form is turned back into the ciphertext that is on disk.
    """
    tree = Tree()
    waiting = [(os.fsencode(root), b"/", False)]
    while waiting:
        place, path, hidden = waiting.pop()
        number = os.lstat(place).st_ino
        tree.paths[path] = number
        if number not in tree.nodes:
            tree.nodes[number] = kernel_node(place)[1]
        if stat.S_ISDIR(_number(tree.nodes[number], "mode")):
            hidden = hidden or bool(_number(tree.nodes[number], "flags") & ENCRYPTED)
            with os.scandir(place) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                shown = _ciphertext(name) if hidden else name
                waiting.append((place + b"/" + name, path.rstrip(b"/") + b"/" + shown, hidden))
    return tree


def _number(node: Node, name: str) -> int:
    value = node.numbers[name]
    assert isinstance(value, int)
    return value


def _ciphertext(name: bytes) -> bytes:
    """The stored bytes of a no-key name: base64url of two hash words and the ciphertext.

    Source: kernel fs/crypto/fname.c, struct fscrypt_nokey_name; ciphertexts of more than
    149 bytes are shown in part and are not used in these trees.
    """
    raw = base64.urlsafe_b64decode(name + b"=" * (-len(name) % 4))
    assert len(raw) - 8 <= 149
    return raw[8:]


# ---- debugfs as the oracle

_LISTED = re.compile(rb"/(\d+)/(\d{6})/-?\d+/-?\d+/([^/]*)/\d*/\n")
_STAT_FIELDS = {
    "mode": rb"Mode: +(\d+)",
    "generation": rb"Generation: (\d+)",
    "uid": rb"User: +(-?\d+)",
    "gid": rb"Group: +(-?\d+)",
    "project_id": rb"Project: +(\d+)",
    "size": rb"Size: (\d+)",
    "links_count": rb"Links: (\d+)",
}
_TYPES = {
    b"regular": stat.S_IFREG,
    b"directory": stat.S_IFDIR,
    b"symlink": stat.S_IFLNK,
    b"character special": stat.S_IFCHR,
    b"block special": stat.S_IFBLK,
    b"FIFO": stat.S_IFIFO,
    b"socket": stat.S_IFSOCK,
}


def debugfs(image: Path, *requests: str, write: bool = False) -> bytes:
    """The output of debugfs for some requests."""
    command = ["debugfs", *(["-w"] if write else []), "-f", "-", str(image)]
    script = "".join(f"{request}\n" for request in requests).encode()
    return subprocess.run(command, input=script, capture_output=True, check=True).stdout


def _answers(image: Path, requests: list[str]) -> list[bytes]:
    """One piece of output for each request."""
    output = debugfs(image, *requests)
    pieces = re.split(rb"^debugfs: .*\n", output, flags=re.MULTILINE)[1:]
    assert len(pieces) == len(requests), "debugfs answered something else"
    return pieces


def _listed(image: Path, folders: Iterable[int]) -> dict[bytes, int]:
    """Every path with its inode number, one debugfs process a level of the tree.

    What is told of `folders` by the first one is not asked again.
    """
    paths = {b"/": 2}
    level = [(b"/", 2)]
    told: dict[int, bytes] = {}
    asked = {2, *folders}
    while level:
        asked = {*asked, *(number for _, number in level)} - told.keys()
        answers = _answers(image, [f"ls -p <{number}>" for number in asked]) if asked else []
        told.update(zip(asked, answers, strict=True))
        deeper = []
        for folder, own in level:
            for number, mode, name in _LISTED.findall(told[own]):
                if name in (b".", b"..", b"") or number == b"0":
                    continue
                path = folder.rstrip(b"/") + b"/" + name
                paths[path] = int(number)
                if stat.S_ISDIR(int(mode, 8)):
                    deeper.append((path, int(number)))
        level = deeper
    return paths


def _debugfs_time(answer: bytes, name: str) -> int | None:
    """Nanoseconds from the raw field pair; the low 2 bits of the extra word are epoch bits."""
    found = re.search(rb"^ ?" + name.encode() + rb": 0x([0-9a-f]+)(?::([0-9a-f]+))?", answer, re.M)
    if found is None:
        return None
    seconds, extra = int(found[1], 16), int(found[2] or b"0", 16)
    seconds -= (seconds & 0x80000000) << 1
    return (seconds + ((extra & 3) << 32)) * NANOSECONDS + (extra >> 2)


def _searched(pattern: bytes, answer: bytes) -> bytes:
    found = re.search(pattern, answer)
    assert found is not None, f"debugfs stat has no {pattern!r}"
    return found[1]


def _debugfs_numbers(answer: bytes) -> Numbers:
    """The fields of one debugfs `stat`; an inode of 128 bytes has no project."""
    texts = {
        name: _searched(pattern, answer)
        for name, pattern in _STAT_FIELDS.items()
        if name != "project_id" or b" Project:" in answer
    }
    numbers: Numbers = {
        name: int(text, 8 if name == "mode" else 10) for name, text in texts.items()
    }
    kind = _TYPES[_searched(rb"Type: (.*?) +Mode:", answer)]
    numbers["mode"] = int(texts["mode"], 8) | kind
    for name in ("uid", "gid"):  # shown as signed
        numbers[name] = int(texts[name]) % (1 << 32)
    numbers["flags"] = int(_searched(rb"Flags: 0x([0-9a-f]+)", answer), 16)
    for name in ("atime", "mtime", "ctime", "crtime"):
        moment = _debugfs_time(answer, name)
        if moment is not None:
            numbers[name] = moment
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        pair = re.search(rb"device number: (\d+):(\d+)", answer, re.I)
        pair = pair or re.search(rb"number: (\d+):(\d+)", answer)
        assert pair is not None
        numbers["device"] = (int(pair[1]), int(pair[2]))
    return numbers


def _host_node(numbers: Numbers, host: Path) -> Node:
    """A node with debugfs's numbers and the content of the folder the image was made from."""
    if not os.path.lexists(host):
        return Node(numbers, {})
    xattrs = kernel_xattrs(os.fsencode(host))
    if host.is_symlink():
        return Node(numbers, xattrs, _target(os.fsencode(host)))
    if not host.is_file():
        return Node(numbers, xattrs)
    with host.open("rb") as file:
        return Node(numbers, xattrs, None, file_digest(file.fileno(), host.stat().st_size))


def debugfs_tree(image: Path, source: Path, folders: Iterable[int] = ()) -> Tree:
    """The tree of an image made by `mke2fs -d source`.

    `folders` are inode numbers that are likely directories: fewer processes then.

    Paths and inode fields are debugfs's; contents, targets and attributes are those of the
    source folder. A path that is not in the source has neither.
    """
    paths = _listed(image, folders)
    numbers = sorted(set(paths.values()))
    answers = _answers(image, [f"stat <{number}>" for number in numbers])
    fields = {n: _debugfs_numbers(a) for n, a in zip(numbers, answers, strict=True)}
    tree = Tree(paths)
    for path, number in paths.items():
        host = Path(os.fsdecode(os.fsencode(source) + path))
        tree.nodes.setdefault(number, _host_node(fields[number], host))
    return tree
