"""Roots that are directories: of LXC, nspawn, chroots, snapshots, and the file system itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4kit.roots.model import LinuxRoot, RootKind
from ext4kit.roots.record_files import RecordFiles, text_of

OS_RELEASES = (b"/usr/lib/os-release", b"/etc/os-release")
_SNAPSHOTS = re.compile(
    rb"/\.snapshots?/|/timeshift/snapshots/|/(hourly|daily|weekly|monthly)\.\d+/"
)
_NSPAWN = re.compile(rb"/var/lib/machines/[^/]+")
_LXC_ROOT = re.compile(r"^\s*lxc\.rootfs(?:\.path)?\s*=\s*(\S+)\s*$", re.MULTILINE)
_LXC_NAME = re.compile(r"^\s*lxc\.(?:uts\.name|utsname)\s*=\s*(\S+)\s*$", re.MULTILINE)
_LXD_RECORDS = (b"backup.yaml", b"metadata.yaml")
_HOME_FILES = {b".bashrc", b".bash_history", b".profile", b".ssh", b".config", b".zshrc", b".cache"}
_MOST_HOMES = 1000


def file_system_root(files: RecordFiles) -> LinuxRoot | None:
    """The root directory of the file system: a system, or the home directories of another one."""
    if any(files.node(path) for path in OS_RELEASES) or _looks_like_root(files, b"/"):
        return LinuxRoot(RootKind.SYSTEM, "system", b"/", (b"/",))
    for name in files.names(b"/")[:_MOST_HOMES]:
        if files.is_directory(b"/" + name) and _HOME_FILES & set(files.names(b"/" + name)):
            return LinuxRoot(RootKind.HOMES, "homes", b"/", (b"/",))
    return None


def lxc_root(files: RecordFiles, rootfs: bytes) -> LinuxRoot | None:
    """The container of LXC, LXD or Incus whose files are in a directory `rootfs`."""
    folder = rootfs.rpartition(b"/")[0]
    config = files.line(folder + b"/config")
    if "lxc." not in config and not any(
        files.node(b"%s/%s" % (folder, one)) for one in _LXD_RECORDS
    ):
        return None
    name = _LXC_NAME.search(config)
    title = name[1] if name else text_of(folder.rpartition(b"/")[2])
    layers = _lxc_layers(files, config)
    if len(layers) > 1:
        return LinuxRoot(RootKind.LXC, title, layers[0], layers, has_upper=True)
    return LinuxRoot(RootKind.LXC, title, rootfs, (rootfs,))


def _lxc_layers(files: RecordFiles, config: str) -> tuple[bytes, ...]:
    """The layers of a container whose root is `overlay:LOWER:UPPER`, the upper one first."""
    found = _LXC_ROOT.search(config)
    method, *paths = found[1].split(":") if found else [""]
    if method not in ("overlay", "overlayfs"):
        return ()
    layers = tuple(path.encode("utf-8", "surrogateescape") for path in reversed(paths))
    return layers if all(map(files.is_directory, layers)) else ()


def directory_root(files: RecordFiles, place: bytes) -> LinuxRoot | None:
    """The root in a directory that has an `os-release`; None if it looks like none."""
    if not _looks_like_root(files, place):
        return None
    kind, name = RootKind.CHROOT, place.strip(b"/")
    if _SNAPSHOTS.search(place + b"/"):
        kind = RootKind.SNAPSHOT
    elif _NSPAWN.fullmatch(place):
        kind, name = RootKind.NSPAWN, place.rpartition(b"/")[2]
    details = {}
    if files.node(place + b"/var/log/bootstrap.log") or files.is_directory(place + b"/debootstrap"):
        details["made by"] = "debootstrap"
    return LinuxRoot(kind, text_of(name), place, (place,), details=details)


def places_of_releases(paths: list[bytes]) -> Iterator[bytes]:
    """The directories in which an `os-release` is where a system has it, each once."""
    found = dict.fromkeys(
        path.removesuffix(end) for path in paths for end in OS_RELEASES if path.endswith(end)
    )
    yield from sorted(filter(None, found))


def _looks_like_root(files: RecordFiles, place: bytes) -> bool:
    names = set(files.names(place))
    return b"etc" in names and bool({b"usr", b"bin"} & names)
