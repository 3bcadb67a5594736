"""The name that a computer gives itself."""

from __future__ import annotations

from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem

_PATH, _MOST = "/etc/hostname", 256  # bytes that are read


def host_name(fs: FileSystem) -> str:
    """The name in /etc/hostname as it is, "" for none; it may be hostile."""
    try:
        with fs.open(_PATH) as file:
            name = file.read(_MOST).split(b"\n")[0].strip()
    except (Ext4kitError, OSError):
        return ""
    return name.decode("utf-8", "replace")
