"""The complete address of a file system: one line that another process can open."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Annotated, Self, TypedDict

from ext4kit.errors import RequestError
from ext4kit.units import Moment

NOW, RAW = "now", "raw"
_TRANSACTION, _TIME, _LOST = "transaction:", "time:", "lost:"
_PLAIN = "/:\\@, +"  # characters of a path that are not percent-encoded


class LocatorFacts(TypedDict):
    """A locator in records."""

    path: Annotated[str, "The image."]
    form: Annotated[str, "The format it is read in; empty for the one it is found to be."]
    offset: Annotated[int | None, "The byte at which its only volume starts."]
    volume: Annotated[str, "The volume, from the disk inwards; empty for the only ext volume."]
    superblock: Annotated[int | None, "The block of the superblock copy that is read."]
    journal: Annotated[str, "The image of the external journal."]
    state: Annotated[str, "now, raw, transaction:N, time:NANOSECONDS or lost:N."]


@dataclass(frozen=True, slots=True)
class Locator:
    """The place and the state of a file system; a locator contains no passphrases or keys.

    Attributes:
        path: first file of the image.
        form: name of the format to read the image in; "" to detect the format.
        offset: byte at which the only volume starts, if no partition table is to be read.
        volume: number of the volume in `volumes`, or its place (`Volume.place`), which does not
            depend on the volumes that could be unlocked; "" for the only ext volume.
        superblock: block number of the superblock copy to read.
        journal: image of the external journal device; "" for none.
        state: "now" (with the journal replayed); "raw" (without a replay); "transaction:N" or
            "time:NANOSECONDS" (as recorded in the journal); "lost:N" (the Nth file system that the
            present one overwrote).
    """

    path: str
    form: str = ""
    offset: int | None = None
    volume: str = ""
    superblock: int | None = None
    journal: str = ""
    state: str = NOW

    def __post_init__(self) -> None:
        kind, _, number = self.state.partition(":")
        is_plain = self.state in (NOW, RAW)
        if not is_plain and (f"{kind}:" not in (_TRANSACTION, _TIME, _LOST) or not _is_int(number)):
            raise RequestError(
                f"{self.state!r} is no state of a file system: now, raw, transaction:N,"
                " time:NANOSECONDS, lost:N"
            )

    @property
    def as_of(self) -> int | Moment | None:
        """The transaction or time of an earlier state, as `ImageVolume.filesystem` takes it."""
        if self.state.startswith(_TRANSACTION):
            return int(self.state.removeprefix(_TRANSACTION))
        time = self.state.startswith(_TIME)
        return Moment(int(self.state.removeprefix(_TIME))) if time else None

    @property
    def lost(self) -> int:
        """Number of the overwritten file system; 0 for the present one."""
        is_lost = self.state.startswith(_LOST)
        return int(self.state.removeprefix(_LOST)) if is_lost else 0

    def __str__(self) -> str:
        """One line: the path, then values other than the default: `disk.img?volume=gpt@1048576`."""
        from urllib.parse import quote  # imported late, as few commands need it

        named = {
            name: str(value)
            for name, value in asdict(self).items()
            if value not in ("", None, NOW) and name != "path"
        }
        text = "&".join(f"{name}={quote(value, safe=_PLAIN)}" for name, value in named.items())
        path = quote(os.fsencode(self.path), safe=_PLAIN)
        return f"{path}?{text}" if text else path

    @classmethod
    def parse(cls, text: str) -> Self:
        """The locator that a line of text describes.

        Raises:
            RequestError: the text is not a locator.
        """
        from urllib.parse import parse_qsl, unquote

        path, _, rest = text.partition("?")
        given = dict(parse_qsl(rest.replace("+", "%2B"), keep_blank_values=True))
        if unknown := given.keys() - cls.__annotations__.keys() | ({"path"} & given.keys()):
            raise RequestError(f"{text!r} is no locator: {', '.join(sorted(unknown))} is unknown")
        numbers = [given.pop(name, "") for name in ("offset", "superblock")]
        if wrong := [value for value in numbers if value and not _is_int(value)]:
            raise RequestError(f"{text!r} is no locator: {wrong[0]!r} is no number")
        offset, superblock = (int(value) if value else None for value in numbers)
        place = unquote(path, errors="surrogateescape")
        return cls(place, offset=offset, superblock=superblock, **given)

    def as_facts(self) -> LocatorFacts:
        """Plain JSON values."""
        return {
            "path": self.path,
            "form": self.form,
            "offset": self.offset,
            "volume": self.volume,
            "superblock": self.superblock,
            "journal": self.journal,
            "state": self.state,
        }

    @classmethod
    def from_facts(cls, facts: LocatorFacts) -> Self:
        """The locator of a record."""
        return cls(**facts)


def state_of(as_of: int | Moment | None, lost: int = 0, replay: bool = True) -> str:
    """The text of a state: a transaction or a time, a lost file system, or the present state."""
    if lost:
        return f"{_LOST}{lost}"
    if isinstance(as_of, Moment):
        return f"{_TIME}{as_of.time}"
    if as_of is not None:
        return f"{_TRANSACTION}{as_of}"
    return NOW if replay else RAW


def _is_int(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()
