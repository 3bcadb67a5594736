"""Parts of sentences: counts with their nouns, durations, and commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ext4kit.report.safe import printable_text
from ext4kit.units import NANOSECONDS

SPANS = (
    (365 * 86_400, "years"), (30 * 86_400, "months"), (7 * 86_400, "weeks"), (86_400, "days"),
    (3600, "hours"), (60, "minutes"), (1, "seconds"),
)  # fmt: skip


def count_text(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def resumed_text(written: int, kept: int, is_complete: bool) -> str:
    """What two runs wrote; `written` has the files of both, `kept` those of the earlier one."""
    new = written - kept
    text = f"An earlier run wrote {f'{kept:,} of them, this one {new:,}' if new else 'them'}."
    if not is_complete:
        return f"{count_text(written, 'file')} {'is' if written == 1 else 'are'} here. {text}"
    every = f"all {written:,} files are here, and their hashes are right"
    return f"Complete: {every if written != 1 else '1 file is here, and its hash is right'}. {text}"


def duration_text(span: int) -> str:
    """A duration, given in ns, in its largest unit: `6 days`."""
    seconds = span // NANOSECONDS
    if not seconds:
        return "less than a second"
    for unit, word in SPANS:
        if seconds >= 2 * unit or unit == 1:
            number = seconds // unit
            return f"{number:,} {word if number != 1 else word[:-1]}"
    return ""


def command_text(*words: object) -> str:
    """A command line of this program, in backticks."""
    return f"`ext4kit {' '.join(shlex.quote(printable_text(str(word))) for word in words)}`"


def kinds_text(kinds: Mapping[str, int]) -> str:
    """Counts of carved files by kind: `170 pictures, 60 documents`."""
    ordered = sorted(kinds.items(), key=lambda pair: (pair[0] == "other", -pair[1], pair[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in ordered if count)
