"""Parts of sentences: numbers with their nouns, spans of time, commands to type."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ext4kit.report.safe import printable_text
from ext4kit.units import NANOSECONDS

_SPANS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def counted(count: int, name: str) -> str:
    """A number with its noun."""
    return f"{count:,} {name}{'s' * (count != 1)}"


def span_text(time: int) -> str:
    """A span of nanoseconds in words, in its largest unit."""
    seconds = max(time // NANOSECONDS, 0)
    for length, name in _SPANS:
        if seconds >= length:
            count = round(seconds / length)
            return counted(count, name)
    return "less than a second"


def command_text(*words: object) -> str:
    """A command of this program to type, in backticks."""
    return f"`ext4kit {' '.join(shlex.quote(printable_text(str(word))) for word in words)}`"


def kinds_text(kinds: Mapping[str, int]) -> str:
    """Numbers of contents by kind: `170 pictures, 60 documents`."""
    ordered = sorted(kinds.items(), key=lambda pair: (pair[0] == "other", -pair[1], pair[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in ordered if count)
