"""Root directories inside a file system: layers of containers, and systems below a directory."""

from __future__ import annotations

import re

from ext4kit.triage.rules.patterns import as_regex

_ROOTS = (
    "/var/lib/docker/overlay2/*/diff",
    "/var/lib/containers/storage/overlay/*/diff",
    "/home/*/.local/share/containers/storage/overlay/*/diff",
    "/var/lib/containerd/*/snapshots/*/fs",
    "/var/lib/lxc/*/rootfs",
    "/var/lib/machines/*",
    "/srv/chroot/*",
)
_ROOT = re.compile(b"(?:" + b"|".join(as_regex(one).pattern for one in _ROOTS) + b")(?=/)")


def path_inside(path: bytes) -> bytes:
    """A path as the innermost root directory that it is in sees it; itself if it is in none."""
    while (found := _ROOT.match(path)) is not None:
        path = path[found.end() :]
    return path


def is_root(folder: bytes) -> bool:
    """Whether a directory is a root directory of its own."""
    return path_inside(folder + b"/") == b"/"
