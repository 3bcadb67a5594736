"""The database of dpkg: Debian, Ubuntu and their like.

Sources: dpkg(1), deb-control(5), deb-md5sums(5), dpkg-divert(1), dpkg-statoverride(1), and the
files that dpkg 1.21 writes below /var/lib/dpkg. Images without dpkg ("distroless") have a stanza
and the digests of each package in status.d.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.packages.accounts import Accounts
from ext4kit.packages.owned import (
    NOT_LISTED,
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

FOLDER = b"var/lib/dpkg"
INFO = FOLDER + b"/info"
STATUS = FOLDER + b"/status"
_STATUS_D = FOLDER + b"/status.d"
PLACES = (STATUS, _STATUS_D)
_ABSENT = (b"not-installed", b"config-files")
_MD5 = re.compile(rb"([0-9a-fA-F]{32}) [ *](.+)", re.DOTALL)
_CONFFILE = re.compile(
    rb" (/.*?) ([0-9a-f]{32}|newconffile)( obsolete)?( remove-on-upgrade)?\s*", re.DOTALL
)
_FIELDS = re.compile(
    rb"^(Package|Status|Version|Architecture|Multi-Arch|Conffiles):[ \t]*(.*(?:\n[ \t].*)*)", re.M
)
_RULE = re.compile(rb"path-(exclude|include)[ \t]*=[ \t]*(\S.*?)[ \t]*$")
_MOST_RULES = 100
_LOCAL = b":"  # in place of a package, for a diversion of the administrator


@dataclass(frozen=True, slots=True)
class _Stanza:
    name: bytes
    version: bytes
    architecture: bytes
    is_absent: bool
    conffiles: bytes


@dataclass(slots=True)
class _Lists:
    """The files of info by package, with or without architecture.

    Attributes:
        paths: contents of `.list`; digests: of `.md5sums`.
    """

    paths: dict[bytes, bytes]
    digests: dict[bytes, bytes]

    def named(self, stanza: _Stanza) -> bytes:
        """The name in info of a package: that with its architecture, if there is one."""
        long = stanza.name + b":" + stanza.architecture
        return long if long in self.paths or long in self.digests else stanza.name


def read_dpkg(root: SystemRoot, records: PackageRecords) -> bool:
    """Read the packages; False without a database.

    Args:
        root: the root directory.
        records: where they are added.
    """
    status = root.read(STATUS)
    apart = [one.name for one in root.listing(_STATUS_D) if not one.is_directory]
    if status is None and not apart:
        return False
    rules = _Rules(root, Accounts(root))
    names = [one.name for one in root.listing(INFO)] if status is not None else []
    lists = _Lists(*(_read(root, INFO, names, end) for end in (b".list", b".md5sums")))
    for stanza in _stanzas(status or b""):
        _add(records, stanza, lists, rules)
    single = _Lists({}, _read(root, _STATUS_D, apart, b".md5sums"))
    plain = [name for name in apart if not name.endswith(b".md5sums")]
    for _, data in sorted(root.contents(_STATUS_D, plain)):
        for stanza in _stanzas(data):
            _add(records, stanza, single, rules)
    return True


def _read(root: SystemRoot, folder: bytes, names: list[bytes], end: bytes) -> dict[bytes, bytes]:
    wanted = [name for name in names if name.endswith(end)]
    return {name.removesuffix(end): data for name, data in root.contents(folder, wanted)}


def _stanzas(data: bytes) -> Iterator[_Stanza]:
    """The packages of a status file."""
    for part in re.split(rb"\n[ \t]*\n+", data):
        fields = {key: value for key, value in _FIELDS.findall(part)}
        state = fields.get(b"Status", b"install ok installed").split()
        if name := fields.get(b"Package", b"").strip():
            yield _Stanza(
                name, fields.get(b"Version", b"").strip(), fields.get(b"Architecture", b"").strip(),
                state[-1:] in ([each] for each in _ABSENT), fields.get(b"Conffiles", b""),
            )  # fmt: skip


def _add(records: PackageRecords, stanza: _Stanza, lists: _Lists, rules: _Rules) -> None:
    if stanza.is_absent:
        return
    named = lists.named(stanza)
    digests = md5sums(lists.digests.get(named, b""))
    config = _conffiles(stanza.conffiles)
    listed = lists.paths.get(named)
    paths = list(digests) if listed is None else [absolute(each) for each in lines_of(listed)]
    package = Package(
        PackageSystem.DPKG,
        text_of(stanza.name),
        text_of(stanza.version),
        text_of(stanza.architecture),
        has_digests=bool(digests),
    )
    every = dict.fromkeys([*paths, *config])
    records.add(
        package,
        [rules.owned(stanza.name, path, digests, config) for path in every if path],
    )


def md5sums(data: bytes) -> dict[bytes, bytes]:
    """The digests in a file `md5sums`, by path."""
    found: dict[bytes, bytes] = {}
    for line in lines_of(data):
        match = _MD5.fullmatch(line)
        if match and (path := absolute(match[2])):
            found[path] = bytes.fromhex(match[1].decode("ascii"))
    return found


def _conffiles(value: bytes) -> dict[bytes, tuple[bytes, bool]]:
    """Path -> (digest, b"" for none; whether the file may be missing)."""
    found: dict[bytes, tuple[bytes, bool]] = {}
    for line in value.split(b"\n"):
        match = _CONFFILE.fullmatch(line)
        if match and (path := absolute(match[1])):
            digest = b"" if match[2] == b"newconffile" else bytes.fromhex(match[2].decode("ascii"))
            found[path] = digest, bool(match[3] or match[4])
    return found


class _Rules:
    """What the administrator changed: diversions, modes, and paths that are not installed."""

    def __init__(self, root: SystemRoot, accounts: Accounts) -> None:
        self._diverted = _diversions(root.read(FOLDER + b"/diversions") or b"")
        self._modes = _overrides(root.read(FOLDER + b"/statoverride") or b"", accounts)
        self._excluded = list(_path_rules(root))
        self._has_rules = any(kind == b"exclude" for kind, _ in self._excluded)

    def owned(
        self,
        package: bytes,
        path: bytes,
        digests: dict[bytes, bytes],
        config: dict[bytes, tuple[bytes, bool]],
    ) -> OwnedPath:
        """The row of a path of a package."""
        digest, is_optional = config.get(path, (digests.get(path, b""), False))
        place = path
        if path in self._diverted:
            to, by = self._diverted[path]
            place = path if by == package else to
        nothing = NOT_LISTED, NOT_LISTED, NOT_LISTED
        mode, uid, gid = self._modes.get(place, nothing) if self._modes else nothing
        return OwnedPath(
            place,
            ListedKind.FILE if digest else ListedKind.ANY,
            "md5" if digest else "",
            digest,
            mode=mode,
            uid=uid,
            gid=gid,
            is_config=path in config,
            may_miss=is_optional or (self._has_rules and self._is_excluded(path)),
        )

    def _is_excluded(self, path: bytes) -> bool:
        """Whether dpkg was told not to install a path; the last rule that fits counts."""
        found = False
        for kind, pattern in self._excluded:
            if pattern.fullmatch(path):
                found = kind == b"exclude"
        return found


def _diversions(data: bytes) -> dict[bytes, tuple[bytes, bytes]]:
    """Path -> (where it is instead, the package whose file stays at the path)."""
    lines = data.split(b"\n")
    found = {}
    for start in range(0, len(lines) - 2, 3):
        path, to, package = lines[start : start + 3]
        if (place := absolute(path)) and (other := absolute(to)):
            found[place] = other, package
    return found


def _overrides(data: bytes, accounts: Accounts) -> dict[bytes, tuple[int, int, int]]:
    """Path -> (mode, uid, gid)."""
    found = {}
    for line in lines_of(data):
        fields = line.split(b" ", 3)
        if len(fields) == 4 and re.fullmatch(rb"[0-7]{1,6}", fields[2]):
            mode = int(fields[2], 8) & 0o7777
            found[absolute(fields[3])] = mode, accounts.uid(fields[0]), accounts.gid(fields[1])
    return found


def _path_rules(root: SystemRoot) -> Iterator[tuple[bytes, re.Pattern[bytes]]]:
    """(exclude or include, pattern) of the configuration of dpkg, in order."""
    folder = b"etc/dpkg/dpkg.cfg.d"
    names = [one.name for one in root.listing(folder) if not one.is_directory]
    files = [root.read(b"etc/dpkg/dpkg.cfg") or b""]
    files += [data for _, data in sorted(root.contents(folder, names))]
    count = 0
    for line in (line for data in files for line in lines_of(data)):
        if (match := _RULE.match(line.strip())) and (count := count + 1) <= _MOST_RULES:
            translated = fnmatch.translate(match[2].decode("latin-1"))
            yield match[1], re.compile(translated.encode("latin-1"))
