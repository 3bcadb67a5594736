"""The users of a system in an image, from all states of its passwd file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.artifacts.root_files import RootFiles
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.links import Names
from ext4kit.filesystem.view import Node
from ext4kit.problems import Severity
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.selection import Selection

MOST_USERS = 1000
MOST_BYTES = 1 << 20  # of a state of the file
_MOST_PATH, _MOST_DEPTH, _MOST_NAME = 1024, 32, 64
_FIELDS = 7
# The file, its backup, and the names that the tools give it while they write it.
_FILES = (b"/etc/passwd", b"/etc/passwd-", b"/etc/passwd+", b"/etc/passwd.edit")
_PASSWD = Selection(paths=_FILES, types=frozenset({"file"}))


@dataclass(frozen=True, slots=True)
class Users:
    """What the states of a passwd file say.

    Attributes:
        homes: the names in the path of each home directory; () for the root directory.
        names: names of users.
        ids: user ids, as text.
    """

    homes: tuple[Names, ...]
    names: Names
    ids: Names


def users_of(files: RootFiles) -> Users:
    """The users in the live passwd file, in its backup, and in deleted and earlier states of them.

    Lines that no tool writes are left out. Of more than `MOST_USERS`, the first are taken.

    Args:
        files: of the system.
    """
    found: dict[tuple[bytes, bytes, Names], None] = {}
    for node in _passwd_files(files):
        for user in _users_in(_data(node)):
            if len(found) >= MOST_USERS and user not in found:
                what = f"more than {MOST_USERS:,} users: the homes of the others are left out"
                files.workspace.fs.problems.add("/etc/passwd", what, Severity.WARNING)
                break
            found[user] = None
    names, ids, homes = zip(*found, strict=True) if found else ((), (), ())
    return Users(*(tuple(dict.fromkeys(each)) for each in (homes, names, ids)))


def _passwd_files(files: RootFiles) -> Iterator[Node]:
    """All states of the file, the live ones first."""
    for path in _FILES:
        try:
            yield files.live.lookup(path)
        except Ext4kitError:
            continue
    if files.workspace.fs.state == LIVE:
        found = files.deleted(_PASSWD, JOURNAL_ONLY)
        yield from (one.node for one in found if one.node.kind == "file")


def _data(node: Node) -> bytes:
    """The first bytes of a file; b"" where they cannot be read."""
    try:
        content: Content | None = node.content() if node.kind == "file" else None
        return b"" if content is None else bytes(content.read(0, min(content.size, MOST_BYTES)))
    except Ext4kitError:
        return b""


def _users_in(data: bytes) -> Iterator[tuple[bytes, bytes, Names]]:
    """(name, user id, names of the home directory) of each line that can be a user's."""
    for line in data.split(b"\n"):
        fields = line.split(b":")
        if len(fields) != _FIELDS or not fields[2].isdigit() or b"\0" in line:
            continue
        name, number, home = fields[0], fields[2], fields[5]
        parts = tuple(part for part in home.split(b"/") if part not in (b"", b"."))
        is_sane = home.startswith(b"/") and len(home) <= _MOST_PATH and len(parts) <= _MOST_DEPTH
        if is_sane and b".." not in parts and 0 < len(name) <= _MOST_NAME and b"/" not in name:
            yield name, number, parts
