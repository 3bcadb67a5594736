"""The database of pacman: Arch and its like.

Sources: pacman(8), the page "Pacman database" of the developers' wiki, mtree(5).
"""

from __future__ import annotations

import fnmatch
import re
import zlib
from collections.abc import Iterator

from ext4kit.errors import CorruptError
from ext4kit.packages.owned import (
    NOT_LISTED,
    DigestName,
    ListedKind,
    OwnedPath,
    Package,
    PackageRecords,
    PackageSystem,
    absolute,
    lines_of,
    text_of,
)
from ext4kit.packages.roots import MOST_FILE, SystemRoot
from ext4kit.problems import Severity
from ext4kit.units import NANOSECONDS

FOLDER = b"var/lib/pacman/local"
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
_KINDS = {b"file": ListedKind.FILE, b"dir": ListedKind.DIRECTORY, b"link": ListedKind.SYMLINK}
_DIGESTS: tuple[tuple[bytes, DigestName, int], ...] = (
    (b"sha256digest", "sha256", 64), (b"sha256", "sha256", 64),
    (b"md5digest", "md5", 32), (b"md5", "md5", 32),
)  # fmt: skip
_OF_PACKAGE = (b"/.BUILDINFO", b"/.PKGINFO", b"/.INSTALL", b"/.CHANGELOG", b"/.MTREE")
_MOST_RULES = 100
_Facts = dict[bytes, bytes]


def read_pacman(root: SystemRoot, records: PackageRecords) -> bool:
    """Read the packages; False without a database."""
    folders = [one.name for one in root.listing(FOLDER) if one.is_directory]
    if not folders and root.read(FOLDER + b"/ALPM_DB_VERSION") is None:
        return False
    skipped = list(_skipped(root))
    for name in folders:
        place = FOLDER + b"/" + name
        files = dict(root.contents(place, (b"desc", b"files", b"mtree")))
        desc, listed = (_sections(files.get(key, b"")) for key in (b"desc", b"files"))
        if not desc.get(b"NAME"):
            what = "no description of a package"
            root.problems.add(place.decode("utf-8", "backslashreplace"), what, Severity.WARNING)
            continue
        try:
            facts = _mtree(files.get(b"mtree", b""))
        except CorruptError as error:
            root.problems.add(place.decode("utf-8", "backslashreplace"), f"mtree: {error}")
            facts = {}
        records.add(_package(desc, bool(facts)), list(_paths(listed, facts, skipped)))
    return True


def _package(desc: dict[bytes, list[bytes]], has_digests: bool) -> Package:
    def first(key: bytes) -> bytes:
        return next(iter(desc.get(key, ())), b"")

    time = first(b"INSTALLDATE")
    installed = int(time) * NANOSECONDS if re.fullmatch(rb"\d{1,10}", time) else None
    return Package(PackageSystem.PACMAN, text_of(first(b"NAME")), text_of(first(b"VERSION")),
                   text_of(first(b"ARCH")), installed, has_digests)  # fmt: skip


def _sections(data: bytes) -> dict[bytes, list[bytes]]:
    """The lines below each `%HEADING%`."""
    found: dict[bytes, list[bytes]] = {}
    lines: list[bytes] = []
    for line in lines_of(data):
        if line[:1] == line[-1:] == b"%" and len(line) > 2:
            lines = found.setdefault(line[1:-1], [])
        elif line:
            lines.append(line)
    return found


def _mtree(data: bytes) -> dict[bytes, _Facts]:
    """The keywords of each path.

    Raises:
        CorruptError: it is damaged, or unpacks to more than a list has.
    """
    found: dict[bytes, _Facts] = {}
    default: _Facts = {}
    for line in lines_of(_unpacked(data)):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        given = dict(word.split(b"=", 1) for word in words[1:] if b"=" in word)
        if words[0] == b"/set":
            default = {**default, **given}
        elif words[0] == b"/unset":
            default = {key: each for key, each in default.items() if key not in words[1:]}
        elif path := absolute(_plain(words[0])):
            found[path] = {**default, **given}
    return found


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    unpacker = zlib.decompressobj(31)
    try:
        found = unpacker.decompress(data, min(MOST_FILE, 100 * len(data) + (1 << 20)))
    except zlib.error as error:
        raise CorruptError("mtree", None, str(error)) from error
    if not unpacker.eof:
        raise CorruptError("mtree", None, "it is cut, or unpacks to too much")
    return found


def _plain(text: bytes) -> bytes:
    """A name in which other bytes are written in octal after a backslash."""
    return _OCTAL.sub(lambda match: bytes((int(match[1], 8),)), text) if b"\\" in text else text


def _paths(
    listed: dict[bytes, list[bytes]], facts: dict[bytes, _Facts], skipped: list[re.Pattern[bytes]]
) -> Iterator[OwnedPath]:
    backup = {absolute(line.partition(b"\t")[0]) for line in listed.get(b"BACKUP", ())}
    names = {absolute(line): line.endswith(b"/") for line in listed.get(b"FILES", ())}
    for path in dict.fromkeys([*names, *facts]):
        if not path or path in _OF_PACKAGE:
            continue
        may_miss = any(rule.fullmatch(path[1:]) for rule in skipped)
        if path in facts:
            owned = _owned(path, facts[path])
        else:
            owned = OwnedPath(path, ListedKind.DIRECTORY if names[path] else ListedKind.ANY)
        yield owned._replace(is_config=path in backup, may_miss=may_miss)


def _owned(path: bytes, facts: _Facts) -> OwnedPath:
    kind = _KINDS.get(facts.get(b"type", b"file"), ListedKind.OTHER)
    algorithm: DigestName = ""
    digest = b""
    for key, name, count in _DIGESTS:
        value = facts.get(key, b"")
        if not digest and re.fullmatch(rb"[0-9a-fA-F]{%d}" % count, value):
            algorithm, digest = name, bytes.fromhex(value.decode("ascii"))
    return OwnedPath(
        path,
        kind,
        algorithm,
        digest,
        _plain(facts.get(b"link", b"")) if kind is ListedKind.SYMLINK else b"",
        _number(facts, b"size", 10) if kind is ListedKind.FILE else NOT_LISTED,
        _number(facts, b"mode", 8) if kind is not ListedKind.SYMLINK else NOT_LISTED,
        _number(facts, b"uid", 10),
        _number(facts, b"gid", 10),
    )


def _number(facts: _Facts, key: bytes, base: int) -> int:
    value = facts.get(key, b"")
    digits = rb"[0-7]{1,18}" if base == 8 else rb"\d{1,18}"
    return int(value, base) if re.fullmatch(digits, value) else NOT_LISTED


def _skipped(root: SystemRoot) -> Iterator[re.Pattern[bytes]]:
    """The patterns of paths that pacman was told not to extract."""
    for line in lines_of(root.read(b"etc/pacman.conf") or b""):
        key, _, value = line.partition(b"=")
        if key.strip() == b"NoExtract":
            for pattern in value.split()[:_MOST_RULES]:
                if pattern[:1] != b"!":
                    yield re.compile(fnmatch.translate(pattern.decode("latin-1")).encode("latin-1"))
