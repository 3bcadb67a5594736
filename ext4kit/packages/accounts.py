"""Names of users and groups -> numbers, from /etc/passwd and /etc/group of a system."""

from __future__ import annotations

from ext4kit.packages.owned import NOT_LISTED, lines_of
from ext4kit.packages.roots import SystemRoot

_MOST = 1 << 20  # accounts
_MOST_NUMBER = 1 << 32


class Accounts:
    """The users and groups of a system.

    Args:
        root: its root directory.
    """

    def __init__(self, root: SystemRoot) -> None:
        self._users = _numbers(root.read(b"etc/passwd"))
        self._groups = _numbers(root.read(b"etc/group"))

    def uid(self, name: bytes) -> int:
        """The number of a user; `NOT_LISTED` where it is not known."""
        return _number(self._users, name)

    def gid(self, name: bytes) -> int:
        """The number of a group; `NOT_LISTED` where it is not known."""
        return _number(self._groups, name)


def _numbers(data: bytes | None) -> dict[bytes, int]:
    found: dict[bytes, int] = {b"root": 0}
    for line in lines_of(data or b""):
        fields = line.split(b":", 3)
        if len(fields) > 3 and len(found) < _MOST and fields[2].isdigit() and len(fields[2]) < 11:
            found.setdefault(fields[0], int(fields[2]) % _MOST_NUMBER)
    return found


def _number(known: dict[bytes, int], name: bytes) -> int:
    """The number of an account, which may be given as `#0`."""
    if name[:1] == b"#" and name[1:].isdigit() and len(name) < 12:
        return int(name[1:])
    return known.get(name, NOT_LISTED)
