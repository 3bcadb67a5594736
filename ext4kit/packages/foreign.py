"""Files in system directories that no package owns, and why some of them are normal.

The reasons are a table: what maintainer scripts, triggers and tools generate. They were measured
on new systems, in which every other file of these directories has an owner.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ext4kit.packages.disk import DiskTree

_SYSTEM = re.compile(
    rb"/(?:s?bin|lib(?:32|64|x32|exec)?|usr/(?:s?bin|games|lib(?:32|64|x32|exec)?)|etc/pam\.d)/.+",
    re.DOTALL,
)
_GENERATED: tuple[tuple[str, str], ...] = (
    (r".*/__pycache__/[^/]+\.pyc", "compiled Python"),
    (r".*\.(?:dist|egg)-info/.*", "records of a Python package"),
    (r"(?:/usr)?/lib/modules/[^/]+/modules\.[a-z._]+", "index of kernel modules"),
    (r"(?:/usr)?/lib/modules/[^/]+/(?:initrd|initramfs\.img|vmlinuz)", "start of the kernel"),
    (r".*/gconv/gconv-modules\.cache", "cache of character sets"),
    (r".*/gdk-pixbuf-2\.0/[^/]+/loaders\.cache", "cache of picture loaders"),
    (r".*/gio/modules/giomodule\.cache", "cache of GIO modules"),
    (r".*/gtk-[234]\.0/[^/]+/immodules\.cache", "cache of input methods"),
    (r"/usr/lib(?:64)?/locale/(?:locale-archive|[^/]+/.*)", "locales"),
    (r"(?:/usr)?/lib/udev/hwdb\.bin", "database of hardware"),
    (r"/usr/lib/systemd/catalog/database", "catalogue of messages"),
    (r"/usr/lib/jvm/.*/(?:classes\.jsa|lib/security/cacerts)", "data of Java"),
    (r"/usr/lib/ghc[^/]*/.*/package\.cache(?:\.lock)?", "cache of Haskell packages"),
    (r"/usr/lib/R/(?:site-library|doc)/.*", "data of R"),
    (r"/usr/lib/(?:sysimage|fontimage|rpm)/.*", "state of rpm"),
    (r"/usr/lib/fontconfig/cache/.*", "cache of fonts"),
    (r"(?:/usr)?/lib/(?:apk|rc)/.*", "state of apk and OpenRC"),
    (r"/usr/sbin/policy-rc\.d", "the administrator's policy for the start of services"),
    (r"/usr/lib/cgi-bin/.*", "place of the administrator's own CGI programs"),
    (r"/etc/pam\.d/common-(?:auth|account|password|session|session-noninteractive)",
     "written by pam-auth-update"),
    (r"/etc/pam\.d/(?:system|password|fingerprint|smartcard|postlogin)(?:-auth)?(?:-ac)?",
     "written by authselect"),
)  # fmt: skip
_RULES = tuple((re.compile(regex.encode(), re.DOTALL), why) for regex, why in _GENERATED)
_COMPILED = re.compile(rb"(.*)/__pycache__/([^/]+?)\.[^/.]+(?:\.opt-[12])?\.pyc", re.DOTALL)
ALTERNATIVE = "link of update-alternatives"
LINK = "link to a packaged file"
OTHER_NAME = "other name of a packaged file"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A file in a system directory that no package owns.

    Attributes:
        row: in the files of the disk.
        path: below the root directory of the system.
        reason: why that is normal; "" for no reason.
        target: of a symlink.
    """

    row: int
    path: bytes
    reason: str
    target: bytes = b""


def is_system_path(path: bytes) -> bool:
    """Whether a path is in a directory whose files all have an owner."""
    return _SYSTEM.fullmatch(path) is not None


def foreign_files(
    tree: DiskTree, owned: Collection[bytes], same_inode: Callable[[int], bool]
) -> list[ForeignFile]:
    """The files in system directories that no package owns.

    Args:
        tree: the files on the disk.
        owned: the places of all owned paths.
        same_inode: whether an inode number is that of an owned file.
    """
    files, found = tree.files, list[ForeignFile]()
    kinds = files.kind.tolist()
    for row, path in enumerate(files.path):
        if path in owned or kinds[row] == stat.S_IFDIR or not is_system_path(path):
            continue
        is_link = kinds[row] == stat.S_IFLNK
        target = tree.target(row) if is_link else b""
        if is_link:
            reason = _of_link(tree, path, target, owned)
        elif same_inode(int(files.number[row])):
            reason = OTHER_NAME
        else:
            reason = _generated(path, owned) if kinds[row] == stat.S_IFREG else ""
        found.append(ForeignFile(row, path, reason, target))
    return found


def _of_link(tree: DiskTree, path: bytes, target: bytes, owned: Collection[bytes]) -> str:
    if target.startswith(b"/etc/alternatives/"):
        return ALTERNATIVE
    end = tree.end_of(path)
    return LINK if end in owned and end != path else ""


def _generated(path: bytes, owned: Collection[bytes]) -> str:
    if match := _COMPILED.fullmatch(path):
        source = match[1] + b"/" + match[2] + b".py"
        return _GENERATED[0][1] if source in owned else ""
    if b"/__pycache__/" in path:
        return ""
    return next((why for rule, why in _RULES if rule.fullmatch(path)), "")
