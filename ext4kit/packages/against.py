"""Lists from outside of the evidence: files of digests, or the database of a mounted reference."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ext4kit.errors import RequestError
from ext4kit.packages.database import PackageDatabase, read_packages
from ext4kit.packages.owned import (
    DigestName,
    ListedKind,
    OwnedPath,
    Package,
    PackageRecords,
    PackageSystem,
    absolute,
    lines_of,
)
from ext4kit.packages.roots import MOST_FILE, FolderRoot, read_start
from ext4kit.problems import Problems

_SUM = re.compile(rb"(\\?)([0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_BSD = re.compile(rb"(\\?)(?:MD5|SHA1|SHA256) \((.+)\) = ([0-9a-fA-F]{32,64})", re.DOTALL)
_BY_DIGITS: dict[int, DigestName] = {32: "md5", 40: "sha1", 64: "sha256"}
_ESCAPES = {b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}
_STRONGEST: tuple[DigestName, ...] = ("sha256", "sha1", "md5")


def read_outside(path: Path, problems: Problems) -> PackageDatabase:
    """The paths of a list from outside, or of a root directory with a database of packages.

    A list has lines of md5sum, sha1sum or sha256sum, or records of `hash --files --json`.

    Args:
        path: a file, or a directory with a system.
        problems: where damage of a database is added.

    Raises:
        RequestError: it cannot be read, or there is nothing in it.
    """
    if path.is_dir():
        found = read_packages(FolderRoot(path, problems))
        if not found.packages:
            raise RequestError(f"{path}: has no database of packages")
        return found
    try:
        with path.open("rb") as file:
            data = read_start(file)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    paths = list(_paths(data))
    if not paths or len(data) > MOST_FILE:
        what = "is too large" if paths else "has no lines of md5sum, sha1sum or sha256sum"
        raise RequestError(f"{path}: {what}")
    records = PackageRecords()
    records.add(Package(PackageSystem.LIST, path.name, ""), paths)
    return PackageDatabase("", (PackageSystem.LIST,), records.packages, records.table())


def _paths(data: bytes) -> Iterator[OwnedPath]:
    for line in lines_of(data):
        text = line.rstrip(b"\r")
        if text[:1] == b"{":
            yield from _of_record(text)
            continue
        if match := _SUM.fullmatch(text):
            escaped, digits, name = match.groups()
        elif match := _BSD.fullmatch(text):
            escaped, name, digits = match.groups()
        else:
            continue
        algorithm = _BY_DIGITS.get(len(digits), "")
        place = absolute(_plain(name) if escaped else name)
        if place and algorithm:
            yield OwnedPath(place, ListedKind.FILE, algorithm, bytes.fromhex(digits.decode()))


def _plain(name: bytes) -> bytes:
    """A name in which md5sum wrote a backslash before some bytes."""
    return re.sub(rb"\\[\\nr]", lambda match: _ESCAPES[match[0]], name)


def _path_of(record: Mapping[str, object]) -> bytes:
    path, raw = record.get("path"), record.get("path_bytes")
    if isinstance(raw, str):
        try:
            return base64.b64decode(raw, validate=True)
        except ValueError:
            return b""
    return path.encode("utf-8", "replace") if isinstance(path, str) else b""


def _of_record(line: bytes) -> Iterator[OwnedPath]:
    """The file of a record of `hash --files --json`; none for another record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return
    place = absolute(_path_of(record)) if isinstance(record, dict) else b""
    for name in _STRONGEST if place else ():
        digits = record.get(name)
        if isinstance(digits, str) and re.fullmatch(r"[0-9a-fA-F]{32,64}", digits):
            yield OwnedPath(place, ListedKind.FILE, name, bytes.fromhex(digits))
            return
