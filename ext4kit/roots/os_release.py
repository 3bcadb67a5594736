"""The distribution of a root, from its `os-release` (os-release(5))."""

from __future__ import annotations

import shlex

from ext4kit.roots.directories import OS_RELEASES
from ext4kit.roots.model import Distribution
from ext4kit.roots.record_files import RecordFiles

_MOST_TEXT = 200  # characters of a value


def distribution_of(files: RecordFiles) -> Distribution | None:
    """What the file of a root says; None without such a file.

    Args:
        files: of the tree of the root.
    """
    for path in OS_RELEASES:
        if text := files.line(path):
            values = release_values(text)
            title = values.get("PRETTY_NAME") or values.get("NAME", "")
            found = values.get("ID", ""), values.get("VERSION_ID", ""), title
            return Distribution(*(each[:_MOST_TEXT] for each in found))
    return None


def release_values(text: str) -> dict[str, str]:
    """The values of lines as a shell reads them; lines that are not valid are left out."""
    found = {}
    for line in text.split("\n"):
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        try:
            words = shlex.split(value)
        except ValueError:
            continue
        found[key] = words[0] if words else ""
    return found
