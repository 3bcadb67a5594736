"""The conditions of rules that need the content or the attributes of a file; checked last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ext4kit.errors import AccessError, CorruptError, path_text
from ext4kit.filesystem.content import Content
from ext4kit.parsers.inode import Inode
from ext4kit.problems import Problems, Severity
from ext4kit.triage.rules.rule import Rule
from ext4kit.triage.rules.traits import SMALL

MOST_BYTES = 2 << 30  # of all contents
_CONTINUED = re.compile(rb"\\\n[ \t]*")
_SHOWN = 160  # bytes of a match
_MOST_MATCHES = 10_000  # in one content


@dataclass(frozen=True)
class Examined:
    """A file that matches a rule by its path and its inode.

    Attributes:
        path: its path.
        content, attributes: read them; None where they are unknown.
        inode: its inode; None where only events show it.
        present: of a former version, the live file that has its path; None without one.
    """

    path: bytes
    content: Callable[[], Content | None] | None = None
    attributes: Callable[[], Mapping[bytes, bytes]] | None = None
    inode: Inode | None = None
    present: Callable[[], Examined | None] | None = None

    @cached_property
    def start(self) -> bytes:
        """The start of its content; b"" if it cannot be read."""
        try:
            content = None if self.content is None else self.content()
            return b"" if content is None else content.read(0, min(content.size, SMALL))
        except (AccessError, CorruptError):
            return b""

    def text(self, comments: re.Pattern[bytes] | None) -> bytes:
        """The start of its content without comment lines, and with continued lines joined.

        Args:
            comments: what begins a comment line after blanks; None for the content as it is.
        """
        if comments is None:
            return self.start
        if comments not in self._texts:
            lines = self.start.splitlines()
            kept = [line for line in lines if not comments.match(line.lstrip(b" \t"))]
            self._texts[comments] = _CONTINUED.sub(b" ", b"\n".join(kept))
        return self._texts[comments]

    @cached_property
    def _texts(self) -> dict[re.Pattern[bytes], bytes]:
        return {}

    @cached_property
    def values(self) -> Mapping[bytes, bytes]:
        """Its extended attributes."""
        try:
            return {} if self.attributes is None else self.attributes()
        except (AccessError, CorruptError):
            return {}


class Conditions:
    """Checks files, within a limit of bytes.

    Args:
        problems: where a limit that was reached is told.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._left = MOST_BYTES

    def note(self, rule: Rule, examined: Examined, former: Iterable[Examined] = ()) -> str | None:
        """What of a file meets the conditions, "" if that says nothing; None if it does not.

        Args:
            rule: the rule.
            examined: the file.
            former: its former versions, for rules with `added`.
        """
        if not _has_attributes(rule, examined):
            return None
        if not rule.reads_content:
            return ""
        data = self._text_of(rule, examined)
        if rule.mentions and not any(text in data for text in rule.mentions):
            return None
        if rule.without is not None and rule.without.search(data):
            return None
        if rule.added is not None and not (data := self._added(rule, rule.added, data, former)):
            return None
        if rule.content is None:
            return _shown(_told(rule, data)) if data else None
        found = rule.content.search(data)
        if found is None or examined.present is None:
            return None if found is None else _shown(found[0])
        return self._removed(rule, rule.content, data, examined.present())

    def _added(
        self, rule: Rule, wanted: re.Pattern[bytes], data: bytes, former: Iterable[Examined]
    ) -> bytes:
        """The wanted lines that a former version of a file had not."""
        lines = _matches(wanted, data)
        before = [text for one in former if lines and (text := self._text_of(rule, one))]
        known = [set(_matches(wanted, text)) for text in before]
        return b"\n".join(line for line in lines if any(line not in had for had in known))

    def _removed(
        self, rule: Rule, wanted: re.Pattern[bytes], data: bytes, present: Examined | None
    ) -> str | None:
        """What a former version of a file has and the live one has not."""
        now = b"" if present is None else self._text_of(rule, present)
        is_excepted = rule.without is not None and rule.without.search(now)
        kept = set() if is_excepted else set(_matches(wanted, now))
        gone = next((each for each in _matches(wanted, data) if each not in kept), None)
        if gone is None:
            return None
        return _shown(gone) + "; the present file has it no longer" * (present is not None)

    def _text_of(self, rule: Rule, examined: Examined) -> bytes:
        if self._left < 0:
            return b""
        is_new = "start" not in vars(examined)
        data = examined.text(rule.comments)
        self._left -= len(data) if is_new else 0
        if self._left < 0:
            what = f"contents were compared up to {MOST_BYTES >> 30} GiB; the rest is unchecked"
            self._problems.add("rules", what, Severity.NOTE)
        return data


def _matches(wanted: re.Pattern[bytes], data: bytes) -> list[bytes]:
    return [found[0] for found in islice(wanted.finditer(data), _MOST_MATCHES)]


def _told(rule: Rule, data: bytes) -> bytes:
    """What to tell of a content that no regular expression was searched in."""
    return data if rule.added else next((text for text in rule.mentions if text in data), b"")


def _has_attributes(rule: Rule, examined: Examined) -> bool:
    values = ((examined.values.get(name.encode()), wanted) for name, wanted in rule.attributes)
    return all(value is not None and wanted.search(value) for value, wanted in values)


def _shown(match: bytes) -> str:
    """A match as one line of text."""
    return path_text(b" ".join(match[:_SHOWN].split()))
