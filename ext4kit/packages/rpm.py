"""The database of rpm: Fedora, RHEL, SUSE and their like.

Sources: rpm(8), the format of headers in the reference manual of rpm 4.18, rpmtag.h and rpmfiles.h.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ext4kit.errors import CorruptError
from ext4kit.packages.accounts import Accounts
from ext4kit.packages.owned import (
    NOT_LISTED,
    DigestName,
    ListedKind,
    OwnedPath,
    Package,
    PackageRecords,
    PackageSystem,
    absolute,
    text_of,
)
from ext4kit.packages.roots import SystemRoot
from ext4kit.packages.rpm_stores import headers_in_bdb, headers_in_ndb, headers_in_sqlite
from ext4kit.problems import Severity
from ext4kit.units import NANOSECONDS

FOLDERS = (b"usr/lib/sysimage/rpm", b"var/lib/rpm")
_STORES: tuple[tuple[bytes, Callable[[bytes], Iterator[bytes]]], ...] = (
    (b"Packages.db", headers_in_ndb),
    (b"Packages", headers_in_bdb),
)
_SQLITE = b"rpmdb.sqlite"
PLACES = tuple(
    folder + b"/" + name for folder in FOLDERS for name in (_SQLITE, *(one for one, _ in _STORES))
)
_SIZES = {1: "B", 2: "B", 3: ">u2", 4: ">u4", 5: ">u8"}  # of numeric types
_STRINGS = (6, 8, 9)  # one string, several, several in languages
_MOST_ENTRIES = 1 << 16
_NAME, _VERSION, _RELEASE, _EPOCH, _ARCH, _INSTALLED = 1000, 1001, 1002, 1003, 1022, 1008
_FILE_SIZES, _LONG_SIZES, _MODES, _DIGESTS, _TARGETS = 1028, 5008, 1030, 1035, 1036
_FLAGS, _USERS, _GROUPS, _STATES, _VERIFY, _ALGORITHM = 1037, 1039, 1040, 1029, 1045, 5011
_DIRECTORY_ROWS, _BASE_NAMES, _DIRECTORIES, _OLD_NAMES = 1116, 1117, 1118, 1027
_CONFIG, _MISSING_OK, _GHOST = 1 << 0, 1 << 3, 1 << 6
_CHECK_DIGEST, _CHECK_SIZE, _CHECK_LINK, _CHECK_USER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHECK_GROUP, _CHECK_MODE = 1 << 4, 1 << 6
_ALL_CHECKS = (1 << 32) - 1
_INSTALLED_STATE = 0  # others: replaced, not installed, on a network share, of another colour
_ALGORITHMS: dict[int, DigestName] = {
    1: "md5", 2: "sha1", 8: "sha256", 9: "sha384", 10: "sha512", 11: "sha224",
}  # fmt: skip
_KINDS = {
    stat.S_IFREG: ListedKind.FILE,
    stat.S_IFDIR: ListedKind.DIRECTORY,
    stat.S_IFLNK: ListedKind.SYMLINK,
}


class RpmHeader:
    """The tags of a package.

    Args:
        data: the header as in a database: without magic.

    Raises:
        CorruptError: it is no header.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 8:
            raise CorruptError("rpm header", 0, "too short")
        count, size = struct.unpack_from(">II", data)
        start = 8 + 16 * count
        if count > _MOST_ENTRIES or start + size > len(data):
            raise CorruptError("rpm header", 0, "larger than its entry in the database")
        self._data = data[start : start + size]
        rows = np.frombuffer(data, ">u4", 4 * count, 8).reshape(-1, 4).tolist()
        self._tags = {tag: (kind, offset, number) for tag, kind, offset, number in rows}

    def numbers(self, tag: int) -> list[int]:
        """The numbers of a tag; none without it.

        Raises:
            CorruptError: they lie outside of the header.
        """
        kind, offset, count = self._tags.get(tag, (4, 0, 0))
        dtype = np.dtype(_SIZES.get(kind, "B"))
        if kind not in _SIZES or offset + count * dtype.itemsize > len(self._data):
            raise CorruptError("rpm header", None, f"tag {tag} is damaged")
        found: list[int] = np.frombuffer(self._data, dtype, count, offset).tolist()
        return found

    def strings(self, tag: int) -> list[bytes]:
        """The strings of a tag; none without it.

        Raises:
            CorruptError: they lie outside of the header.
        """
        kind, offset, count = self._tags.get(tag, (8, 0, 0))
        count = 1 if kind == 6 else count
        if not count:
            return []
        if kind not in _STRINGS or offset + count > len(self._data):
            raise CorruptError("rpm header", None, f"tag {tag} is damaged")
        parts = self._data[offset:].split(b"\0", count)
        if len(parts) <= count:
            raise CorruptError("rpm header", None, f"the strings of tag {tag} are cut")
        return parts[:count]

    def first(self, tag: int) -> bytes:
        """The first string of a tag, b"" without it."""
        return next(iter(self.strings(tag)), b"")


def read_rpm(root: SystemRoot, records: PackageRecords) -> bool:
    """Read the packages; False without a database."""
    accounts = Accounts(root)
    seen = set[bytes]()
    for folder in FOLDERS:
        for name, headers in _databases(root, folder):
            where = (folder + b"/" + name).decode()
            try:
                for header in headers:
                    if header not in seen:  # both folders may be the same one
                        seen.add(header)
                        _add_header(root, records, header, accounts, where)
            except CorruptError as error:
                root.problems.add(where, f"damaged: {error}")
            return True
    return False


def _databases(root: SystemRoot, folder: bytes) -> Iterator[tuple[bytes, Iterator[bytes]]]:
    if (data := root.read(folder + b"/" + _SQLITE)) is not None:
        yield _SQLITE, headers_in_sqlite(data, root.read(folder + b"/" + _SQLITE + b"-wal"))
    for name, reader in _STORES:
        if (data := root.read(folder + b"/" + name)) is not None:
            yield name, reader(data)


def _add_header(
    root: SystemRoot, records: PackageRecords, data: bytes, accounts: Accounts, where: str
) -> None:
    try:
        header = RpmHeader(data)
        name = header.first(_NAME)
        if name == b"gpg-pubkey":
            return
        package, paths = _package(header), list(_paths(header, accounts))
    except CorruptError as error:
        root.problems.add(where, f"a package cannot be read: {error}", Severity.ERROR)
        return
    records.add(package, paths)


def _package(header: RpmHeader) -> Package:
    version = b"-".join((header.first(_VERSION), header.first(_RELEASE)))
    epoch = next(iter(header.numbers(_EPOCH)), None)
    installed = next(iter(header.numbers(_INSTALLED)), None)
    return Package(
        PackageSystem.RPM,
        text_of(header.first(_NAME)),
        ("" if epoch is None else f"{epoch}:") + text_of(version),
        text_of(header.first(_ARCH)),
        None if installed is None else installed * NANOSECONDS,
    )


def _names(header: RpmHeader) -> list[bytes]:
    """The paths of a package.

    Raises:
        CorruptError: a row of its directories does not exist.
    """
    base, rows = header.strings(_BASE_NAMES), header.numbers(_DIRECTORY_ROWS)
    folders = header.strings(_DIRECTORIES)
    if not base:
        return header.strings(_OLD_NAMES)
    if len(rows) != len(base) or max(rows) >= len(folders):
        raise CorruptError("rpm header", None, "its directories do not fit its files")
    return [folders[row] + name for row, name in zip(rows, base, strict=True)]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The tags that have one value for each path."""

    sizes: Sequence[int]
    modes: Sequence[int]
    digests: Sequence[bytes]
    targets: Sequence[bytes]
    flags: Sequence[int]
    states: Sequence[int]
    checks: Sequence[int]
    users: Sequence[bytes]
    groups: Sequence[bytes]

    @classmethod
    def of(cls, header: RpmHeader, count: int) -> _Columns:
        """Those of a header; a tag that is absent or has too few values is filled up."""

        def numbers(tag: int, missing: int) -> list[int]:
            found = header.numbers(tag)[:count]
            return found + [missing] * (count - len(found))

        def strings(tag: int) -> list[bytes]:
            found = header.strings(tag)[:count]
            return found + [b""] * (count - len(found))

        sizes = numbers(_LONG_SIZES, NOT_LISTED)
        plain = numbers(_FILE_SIZES, NOT_LISTED)
        return cls(
            [one if one != NOT_LISTED else other for one, other in zip(sizes, plain, strict=True)],
            numbers(_MODES, 0), strings(_DIGESTS), strings(_TARGETS), numbers(_FLAGS, 0),
            numbers(_STATES, _INSTALLED_STATE), numbers(_VERIFY, _ALL_CHECKS), strings(_USERS),
            strings(_GROUPS),
        )  # fmt: skip


def _paths(header: RpmHeader, accounts: Accounts) -> Iterator[OwnedPath]:
    names = _names(header)
    columns = _Columns.of(header, len(names))
    number = next(iter(header.numbers(_ALGORITHM)), 1)
    algorithm = _ALGORITHMS.get(number, "")
    for row, name in enumerate(names):
        path = absolute(name)
        if path and columns.states[row] == _INSTALLED_STATE:
            yield _owned(path, columns, row, algorithm, accounts)


def _owned(
    path: bytes, columns: _Columns, row: int, algorithm: DigestName, accounts: Accounts
) -> OwnedPath:
    mode, flags, checks = columns.modes[row], columns.flags[row], columns.checks[row]
    kind = _KINDS.get(stat.S_IFMT(mode), ListedKind.OTHER)
    is_ghost = bool(flags & _GHOST)
    is_file = kind is ListedKind.FILE and not is_ghost
    digest = _digest(columns.digests[row]) if is_file and checks & _CHECK_DIGEST else b""
    is_link = kind is ListedKind.SYMLINK and checks & _CHECK_LINK
    size = columns.sizes[row] if is_file and checks & _CHECK_SIZE else NOT_LISTED
    is_moded = checks & _CHECK_MODE and kind is not ListedKind.SYMLINK and not is_ghost
    return OwnedPath(
        path,
        ListedKind.ANY if is_ghost else kind,
        algorithm if digest else "",
        digest if algorithm else b"",
        columns.targets[row] if is_link and not is_ghost else b"",
        size if size < 1 << 63 else NOT_LISTED,
        mode & 0o7777 if is_moded else NOT_LISTED,
        accounts.uid(columns.users[row]) if checks & _CHECK_USER and not is_ghost else NOT_LISTED,
        accounts.gid(columns.groups[row]) if checks & _CHECK_GROUP and not is_ghost else NOT_LISTED,
        bool(flags & _CONFIG),
        is_ghost or bool(flags & _MISSING_OK),
    )


def _digest(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""
