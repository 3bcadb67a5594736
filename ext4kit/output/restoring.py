"""What of an inode a written file gets beside its bytes: mode, times, owner, attributes.

The order is that in which no step undoes another. A change of the owner clears setuid, setgid and
capabilities; attributes of the owner need a file that may be written; times come last.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple, TypedDict

from ext4kit.errors import Ext4kitError
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems, Severity

PRIVILEGE_BITS = 0o6000  # setuid and setgid
MODE_BITS = 0o7777
CAPABILITY = b"security.capability"
_NEED_ROOT = (b"trusted.", b"security.")
_SETTABLE = (b"user.", *_NEED_ROOT, b"system.posix_acl_")
_GIVEN = (b"user.", b"trusted.", CAPABILITY, b"system.posix_acl_")
_ON_HANDLES = os.supports_fd
_NOT_HERE = "this system has no such thing"
_NOT_ASKED = "only with --restore privileges"
_USABLE = "its owner keeps the right to read it"


class RestoredPart(StrEnum):
    """What `--restore` names."""

    __hash__ = str.__hash__  # that of an `Enum` is slow

    MODE = "mode"
    TIMES = "times"
    OWNER = "owner"
    LINKS = "links"
    FOLDERS = "folders"
    XATTRS = "xattrs"
    PRIVILEGES = "privileges"


RestoredParts = frozenset[RestoredPart]
DEFAULT_PARTS: RestoredParts = frozenset({RestoredPart.MODE, RestoredPart.TIMES})
ALL_PARTS: RestoredParts = frozenset(RestoredPart) - {RestoredPart.PRIVILEGES}


class NotRestored(TypedDict):
    """Something that a file of the output lacks."""

    what: Annotated[str, "A word of --restore, or the name of an extended attribute."]
    why: str


class RestoredFacts(TypedDict):
    """What a written file has of its inode."""

    restored: Annotated[
        list[RestoredPart], "What was restored besides the bytes, in the words of --restore."
    ]
    not_restored: Annotated[list[NotRestored], "What could not be restored."]


@dataclass(slots=True)
class Outcome:
    """What was restored of one file, and what was not."""

    restored: list[RestoredPart] = field(default_factory=list)
    missed: list[NotRestored] = field(default_factory=list)

    def miss(self, what: str, why: str) -> None:
        """Record something that the file does not get."""
        self.missed.append({"what": what, "why": why})

    def record(self) -> RestoredFacts:
        """Both as fields of a record."""
        return {"restored": sorted(self.restored), "not_restored": self.missed}


NOTHING: RestoredFacts = {"restored": [], "not_restored": []}


class Attributes(NamedTuple):
    """What an inode has beside its bytes.

    Attributes:
        mode: `i_mode`.
        xattrs: reads the extended attributes, name to value; called only where they are wanted.
    """

    mode: int
    uid: int
    gid: int
    atime: int
    mtime: int
    xattrs: Callable[[], Mapping[bytes, bytes]]

    @classmethod
    def of(cls, inode: Inode, xattrs: Callable[[], Mapping[bytes, bytes]]) -> Attributes:
        """Those of an inode."""
        return cls(inode.mode, inode.uid, inode.gid, inode.atime, inode.mtime, xattrs)


class WrittenEntry(NamedTuple):
    """A file or folder of the output to restore by its descriptor, or a link by its path.

    Attributes:
        path: its path.
        handle: its descriptor; None for a link, and on systems whose calls take paths.
        is_link: a symbolic link, which is not followed.
        folder: of a link, the descriptor of the folder in which its path is a name, if any.
    """

    path: str
    handle: int | None
    is_link: bool = False
    folder: int | None = None

    def by(self, call: object) -> int | str:
        """What a call takes: the descriptor where it can."""
        return self.handle if self.handle is not None and call in _ON_HANDLES else self.path


def restore(target: WrittenEntry, inode: Attributes, parts: RestoredParts) -> Outcome:
    """Give a file what its inode had; what cannot be given is in the outcome.

    Args:
        target: the file, with all its content.
        inode: what it had.
        parts: what of it is wanted.
    """
    outcome, capability = Outcome(), {}
    if RestoredPart.XATTRS in parts:
        values = _read_xattrs(inode, outcome)
        capability = {name: values.pop(name) for name in [CAPABILITY] if name in values}
        _set_xattrs(target, values, outcome)
    if RestoredPart.OWNER in parts:
        _try(outcome, RestoredPart.OWNER, lambda: _set_owner(target, inode.uid, inode.gid))
    if RestoredPart.MODE in parts and not target.is_link:
        _restore_mode(target, inode.mode, parts, outcome)
    if capability and RestoredPart.PRIVILEGES in parts:
        _set_xattrs(target, capability, outcome)
    elif capability:
        outcome.miss(CAPABILITY.decode(), _NOT_ASKED)
    if RestoredPart.TIMES in parts:
        _try(outcome, RestoredPart.TIMES, lambda: _set_times(target, (inode.atime, inode.mtime)))
    return outcome


def take_back(target: WrittenEntry, parts: RestoredParts, mode: int | None = None) -> None:
    """Take back what an earlier run gave a file or folder, which is to be given it again.

    What cannot be taken back is found when it is given again.

    Args:
        target: what the earlier run wrote.
        parts: what it was to get.
        mode: of a new file; None for a folder, whose files get nothing of it.
    """
    if RestoredPart.XATTRS in parts:
        with suppress(OSError, AttributeError):
            for name in os.listxattr(target.by(os.listxattr)):
                if os.fsencode(name).startswith(_GIVEN):
                    os.removexattr(target.by(os.removexattr), name)
    with suppress(OSError):
        if mode is not None and RestoredPart.MODE in parts:
            _set_mode(target, mode)
        elif mode is None and RestoredPart.PRIVILEGES in parts:
            before = os.stat(target.by(os.stat)).st_mode  # noqa: PTH116 -- of a descriptor
            _set_mode(target, stat.S_IMODE(before) & ~PRIVILEGE_BITS)


def _read_xattrs(inode: Attributes, outcome: Outcome) -> dict[bytes, bytes]:
    try:
        return dict(inode.xattrs())
    except Ext4kitError as error:
        outcome.miss(RestoredPart.XATTRS, str(error))
        return {}


def _try(outcome: Outcome, part: RestoredPart, change: Callable[[], None]) -> None:
    try:
        change()
    except OSError as error:
        outcome.miss(part, error.strerror or str(error))
    except (OverflowError, NotImplementedError, AttributeError) as error:
        outcome.miss(part, _NOT_HERE if isinstance(error, AttributeError) else str(error))
    else:
        outcome.restored.append(part)


def _restore_mode(target: WrittenEntry, mode: int, parts: RestoredParts, outcome: Outcome) -> None:
    """Set the mode; setuid and setgid only where they are wanted and the owner is restored.

    A file would else run with the rights of the one who restores it. Whoever is not root and owns
    the file keeps the right to read it, and to use a folder.
    """
    bits, why = mode & MODE_BITS, ""
    if RestoredPart.PRIVILEGES not in parts:
        why = _NOT_ASKED
    elif RestoredPart.OWNER not in outcome.restored:
        why = "the owner is not restored"
    wanted = bits & ~PRIVILEGE_BITS if why else bits
    usable = 0
    if not _is_root() and RestoredPart.OWNER not in outcome.restored:
        usable = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
    _try(outcome, RestoredPart.MODE, lambda: _set_mode(target, wanted | usable))
    if usable & ~bits and RestoredPart.MODE in outcome.restored:
        outcome.restored.remove(RestoredPart.MODE)
        outcome.miss(RestoredPart.MODE, _USABLE)
    if bits != wanted:
        outcome.miss(RestoredPart.PRIVILEGES, why)
    elif bits & PRIVILEGE_BITS and RestoredPart.MODE in outcome.restored:
        outcome.restored.append(RestoredPart.PRIVILEGES)


def _set_mode(target: WrittenEntry, bits: int) -> None:
    os.chmod(target.by(os.chmod), bits)  # noqa: PTH101 -- a path has no descriptor


def _set_owner(target: WrittenEntry, uid: int, gid: int) -> None:
    if target.is_link:
        os.chown(target.path, uid, gid, dir_fd=target.folder, follow_symlinks=False)
    else:
        os.chown(target.by(os.chown), uid, gid)


def _set_times(target: WrittenEntry, times: tuple[int, int]) -> None:
    if target.is_link:
        os.utime(target.path, ns=times, dir_fd=target.folder, follow_symlinks=False)
    else:
        os.utime(target.by(os.utime), ns=times)


def _set_xattrs(target: WrittenEntry, values: Mapping[bytes, bytes], outcome: Outcome) -> None:
    """Set extended attributes; each that cannot be set is missed by its name."""
    before = len(outcome.missed)
    for name, value in values.items():
        shown = name.decode("utf-8", "backslashreplace")
        if not name.startswith(_SETTABLE):
            outcome.miss(shown, "no attribute that a program can set")
            continue
        try:
            if target.is_link:
                above = "" if target.folder is None else f"/proc/self/fd/{target.folder}/"
                os.setxattr(above + target.path, name, value, follow_symlinks=False)
            else:
                os.setxattr(target.by(os.setxattr), name, value)
        except AttributeError:
            outcome.miss(shown, _NOT_HERE)
        except (OSError, ValueError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            outcome.miss(shown, why or str(error))
    is_new = RestoredPart.XATTRS not in outcome.restored
    if is_new and len(outcome.missed) - before < len(values):
        outcome.restored.append(RestoredPart.XATTRS)


class Shortfall:
    """Counts what was not restored, for one line about each kind of it."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count what one file lacks."""
        for each in outcome.missed:
            name = each["what"]
            what = name if name in set(RestoredPart) else name.split(".")[0] + ".* attributes"
            self._counts[what, each["why"]] += 1

    def report(self, problems: Problems) -> None:
        """One line about each kind."""
        for (what, why), count in self._counts.items():
            if why in (_NOT_ASKED, _USABLE):
                continue
            files = f"{count:,} file" + "s" * (count != 1)
            needs = what == RestoredPart.OWNER or what.startswith(("trusted", "security"))
            hint = "; this needs root" if needs and why != _NOT_HERE and not _is_root() else ""
            text = f"not restored for {files}: {why}{hint}; the manifest lists them"
            problems.add(what, text, Severity.WARNING)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
