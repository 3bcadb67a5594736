"""The database of apk: Alpine and its like.

Source: apk(5) and the page "Apk spec" of Alpine's wiki: one record of a package a block of lines;
`F:` a directory, `M:` its owner and mode, `R:` a file in it, `a:` its owner and mode, `Z:` the
digest of its content or of the target of the link.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from ext4kit.packages.owned import (
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
from ext4kit.packages.roots import SystemRoot

DATABASES = (b"lib/apk/db/installed", b"usr/lib/apk/db/installed")
_ACCESS = re.compile(rb"(\d{1,10}):(\d{1,10}):([0-7]{1,6})(?::.*)?", re.DOTALL)
_LINK_MODE = 0o777
_DEFAULT_FILE, _DEFAULT_DIRECTORY = (0, 0, 0o644), (0, 0, 0o755)
_PROTECTED, _NOT_PROTECTED = b"/etc/", b"/etc/init.d/"


def read_apk(root: SystemRoot, records: PackageRecords) -> bool:
    """Read the packages; False without a database."""
    for place in DATABASES:
        if (data := root.read(place)) is not None:
            _read(data, records)
            return True
    return False


@dataclass(slots=True)
class _Block:
    """A package, while its lines are read."""

    fields: dict[bytes, bytes] = field(default_factory=dict)
    paths: list[OwnedPath] = field(default_factory=list)
    folder: bytes = b""

    def take(self, key: bytes, value: bytes) -> None:
        """Read a line."""
        if key in b"PVA":
            self.fields[key] = value
        elif key == b"F":
            self.folder = value.strip(b"/")
            if path := absolute(self.folder):
                self.paths.append(_with(OwnedPath(path, ListedKind.DIRECTORY), _DEFAULT_DIRECTORY))
        elif key == b"M" and self.paths and self.paths[-1].kind is ListedKind.DIRECTORY:
            self.paths[-1] = _with(self.paths[-1], _access(value))
        elif key == b"R" and (path := absolute(self.folder + b"/" + value)):
            is_config = path.startswith(_PROTECTED) and not path.startswith(_NOT_PROTECTED)
            found = OwnedPath(path, ListedKind.FILE, is_config=is_config)
            self.paths.append(_with(found, _DEFAULT_FILE))
        elif self.paths and self.paths[-1].kind is not ListedKind.DIRECTORY:
            self._add_facts(key, value)

    def _add_facts(self, key: bytes, value: bytes) -> None:
        last = self.paths[-1]
        if key == b"a":
            access = _access(value)
            is_link = access is not None and access[2] == _LINK_MODE
            kind = ListedKind.SYMLINK if is_link else ListedKind.FILE
            self.paths[-1] = _with(last._replace(kind=kind), access)
        elif key == b"Z":
            algorithm, digest = _digest(value)
            self.paths[-1] = last._replace(algorithm=algorithm, digest=digest)


def _read(data: bytes, records: PackageRecords) -> None:
    block = _Block()
    for line in lines_of(data):
        if line[1:2] == b":":
            block.take(line[:1], line[2:])
        elif not line.strip():
            _add(block, records)
            block = _Block()
    _add(block, records)


def _add(block: _Block, records: PackageRecords) -> None:
    if name := block.fields.get(b"P"):
        version, machine = (text_of(block.fields.get(key, b"")) for key in (b"V", b"A"))
        records.add(Package(PackageSystem.APK, text_of(name), version, machine), block.paths)


def _access(value: bytes) -> tuple[int, int, int] | None:
    """(uid, gid, mode); None for a bad value."""
    match = _ACCESS.fullmatch(value)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3], 8) & 0o7777)


def _with(path: OwnedPath, access: tuple[int, int, int] | None) -> OwnedPath:
    if access is None:
        return path
    uid, gid, mode = access
    return path._replace(uid=uid, gid=gid, mode=mode)


def _digest(value: bytes) -> tuple[DigestName, bytes]:
    """`Q1` and SHA-1 in base64, or MD5 in hex of old versions."""
    try:
        if value.startswith(b"Q1"):
            digest = base64.b64decode(value[2:], validate=True)
            return ("sha1", digest) if len(digest) == 20 else ("", b"")
        digest = bytes.fromhex(value.decode("ascii"))
        return ("md5", digest) if len(digest) == 16 else ("", b"")
    except (binascii.Error, ValueError):
        return "", b""
