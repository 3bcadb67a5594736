"""A rule: what it looks at, which files match it, and why that matters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from ext4kit.timeline import EventKind
from ext4kit.timeline.hints import HintKind
from ext4kit.triage.rules.patterns import as_regex


class Weight(StrEnum):
    """The weight of a rule by itself."""

    STRONG = "strong"  # harmless causes are rare
    LOOK = "look"  # harmless causes exist, but each case deserves a check


class Look(StrEnum):
    """What a rule looks at."""

    LIVE = "live"
    DELETED = "deleted"
    EARLIER = "earlier"  # earlier versions of files
    EVENTS = "events"
    HINTS = "hints"
    OWN = "own"  # facts that a module of this program collects


class Trait(StrEnum):
    """Conditions that a file may meet."""

    REGULAR = "regular"
    DIRECTORY = "directory"
    LINK = "link"  # is a symlink
    EXECUTABLE = "executable"  # a regular file that some user may execute
    SETUID = "setuid"  # setuid or setgid, and executable
    WRITABLE = "writable"  # by every user
    OF_A_USER = "of a user"  # its owner is an ordinary user (uid 1000 or more, but not nobody)
    ATTRIBUTED = "attributed"  # has extended attributes
    FRESH = "fresh"  # written on this system and not unpacked with an older time
    RECENT = "recent"  # created in the period that the journal covers
    EMPTY = "empty"
    STORED = "stored"  # has content
    ODD = "odd"  # the name has control characters, or begins with a blank or with dots and blanks
    GONE = "gone"  # no live file has its path
    LOCKED = "locked"  # immutable or append-only
    GAINED_SETUID = "gained setuid"  # became setuid by a change of mode
    AGED = "aged"  # times were set to the past long after its creation
    SHRUNK = "shrunk"  # became shorter, but not empty
    COPIED = "copied"  # a copy made shortly before, of at least its former size or packed, is there
    LONE = "lone"  # written in the period of the journal, and hardly any file like it beside it was
    BORROWED = "borrowed"  # made in that period, with exactly the older time of an older file
    SMALL = "small"  # at most 256 KiB
    REWRITTEN = "rewritten"  # last changed more than a minute after its creation
    ROUNDED = "rounded"  # times were set to a whole second after the creation


OF_RIGHTS = frozenset(
    (Trait.SETUID, Trait.GAINED_SETUID, Trait.LOCKED, Trait.WRITABLE, Trait.AGED, Trait.OF_A_USER)
)
RARE = frozenset((Trait.SETUID, Trait.LOCKED, Trait.ODD, Trait.ATTRIBUTED))
BESIDE = frozenset((Trait.COPIED, Trait.LONE, Trait.BORROWED))  # follow from other files


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code: stable name of the rule in records.
        family: name of the file that has it.
        title: description; why: why a match matters, in one sentence.
        innocent: harmless causes of a match.
        attack: techniques of MITRE ATT&CK, such as T1505.003.
        references: addresses of pages about it.
        look: what it looks at.
        paths, unless: patterns of paths that match, and of those that do not.
        name: regular expression that the name must match besides; None for any.
        events, hints: kinds of events and hints of the timeline that match.
        needs, lacks: conditions that must all be met, and that must all not be met.
        mentions: texts, one of which the start of the content must have; found much faster than a
            regular expression.
        content, without: regular expressions for the start of the content; it must have the first
            and must not have the second. None for any content.
        added: regular expression for lines that it has and that an earlier version had not.
        comments: regular expression; lines that begin with a match, after blanks, are left out
            before contents are compared, and continued lines are joined. None compares contents as
            they are.
        attributes: extended attributes that it must have, with regular expressions of their values.
        positive, negative: shell commands that must, and must not, make a file system match; they
            run in its root directory, in the tests alone.
    """

    code: str
    family: str
    weight: Weight
    title: str
    why: str
    innocent: tuple[str, ...] = ()
    attack: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    look: frozenset[Look] = frozenset()
    paths: tuple[str, ...] = ("/**",)
    unless: tuple[str, ...] = ()
    name: re.Pattern[bytes] | None = None
    events: tuple[EventKind, ...] = ()
    hints: tuple[HintKind, ...] = ()
    needs: frozenset[Trait] = frozenset()
    lacks: frozenset[Trait] = frozenset()
    mentions: tuple[bytes, ...] = ()
    content: re.Pattern[bytes] | None = None
    without: re.Pattern[bytes] | None = None
    added: re.Pattern[bytes] | None = None
    comments: re.Pattern[bytes] | None = None
    attributes: tuple[tuple[str, re.Pattern[bytes]], ...] = ()
    positive: str = ""
    negative: str = ""

    @property
    def reason(self) -> str:
        """Why a match matters, and which harmless causes exist."""
        causes = f"; harmless causes: {', '.join(self.innocent)}" if self.innocent else ""
        return self.why + causes

    @cached_property
    def _exceptions(self) -> tuple[re.Pattern[bytes], ...]:
        return tuple(map(as_regex, self.unless))

    @property
    def reads_content(self) -> bool:
        """Whether it compares the content of a file."""
        return bool(self.mentions or self.content or self.without or self.added)

    @property
    def is_of_rights(self) -> bool:
        """Whether it is the rights, attributes or flags of a file that match, and not its bytes."""
        return bool(self.needs & (OF_RIGHTS | {Trait.ATTRIBUTED}) or self.attributes)

    def accepts(self, path: bytes) -> bool:
        """Whether a path that matches a pattern is none of the exceptions."""
        name = path.rpartition(b"/")[2]
        if self.name is not None and not self.name.fullmatch(name):
            return False
        return not any(pattern.fullmatch(path) for pattern in self._exceptions)

    @property
    def is_by_state(self) -> bool:
        """Whether it is rare files anywhere that match it, by their inode or by an unusual name."""
        return "/**" in self.paths and bool(self.needs & RARE)
