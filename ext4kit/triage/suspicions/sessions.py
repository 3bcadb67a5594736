"""All sightings in one list in the order of time, grouped by the pauses between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ext4kit.logs.logins import Login
from ext4kit.triage.rules.rule import Weight
from ext4kit.triage.suspicions.search import Indicator
from ext4kit.triage.suspicions.sighting import Sighting
from ext4kit.units import NANOSECONDS

PAUSE = 30 * 60 * NANOSECONDS  # a longer one begins another session
_REPEATED = ("written",)  # a step of a log for each line; only the first of a file is listed


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that happened to a file of a sign.

    Attributes:
        time: ns, by the inode, else of the commit.
        what: what happened, in a word or two.
        path: path of the file; None if unknown.
        uid: owner of the file; None if unknown.
        codes: rules that the file matches.
        is_strong: whether one of these is a strong sign.
    """

    time: int
    what: str
    path: bytes | None
    inode: int | None
    generation: int | None
    uid: int | None
    codes: tuple[str, ...]
    is_strong: bool


@dataclass(frozen=True, slots=True)
class SignSession:
    """Deeds without a long pause between them.

    Attributes:
        deeds: in the order of time.
        logins: users who were logged in at that time, by the records of the system.
    """

    deeds: tuple[Deed, ...]
    logins: tuple[Login, ...]

    @property
    def start(self) -> int:
        """Time of the first deed, ns."""
        return self.deeds[0].time

    @property
    def end(self) -> int:
        """Time of the last deed, ns."""
        return self.deeds[-1].time


def find_sessions(found: Sequence[Indicator], logins: Sequence[Login]) -> tuple[SignSession, ...]:
    """The sessions of all sightings with a time, oldest first; each deed is in it once."""
    codes: dict[tuple[object, ...], list[Indicator]] = {}
    deeds: dict[tuple[object, ...], tuple[int, str, Sighting]] = {}
    for one in found:
        for seen in one.sightings:
            file = (seen.inode, seen.generation, None if seen.inode else seen.path)
            codes.setdefault(file, []).append(one)
            for time, what in _steps(seen):
                deeds.setdefault((*file, time, what), (time, what, seen))
    listed = []
    for key, (time, what, seen) in deeds.items():
        signs = {one.rule.code: one.rule.weight for one in codes[key[:3]]}
        listed.append(
            Deed(time, what, seen.path, seen.inode, seen.generation, seen.uid, tuple(signs),
                 Weight.STRONG in signs.values())
        )  # fmt: skip
    listed.sort(key=lambda deed: (deed.time, deed.path or b""))
    return tuple(_session(deeds, logins) for deeds in _without_pauses(listed))


def _steps(seen: Sighting) -> Iterator[tuple[int, str]]:
    told: set[str] = set()
    for step in seen.story:
        time = step.commit if step.time is None else step.time
        if time is not None and not (step.what in _REPEATED and step.what in told):
            told.add(step.what)
            yield time, step.what
    if not seen.story and seen.when is not None:
        yield seen.when, ", ".join(seen.seen)


def _without_pauses(deeds: Iterable[Deed]) -> Iterator[list[Deed]]:
    part: list[Deed] = []
    for deed in deeds:
        if part and deed.time - part[-1].time > PAUSE:
            yield part
            part = []
        part.append(deed)
    if part:
        yield part


def _session(deeds: list[Deed], logins: Sequence[Login]) -> SignSession:
    first, last = deeds[0].time, deeds[-1].time
    present = (one for one in logins if one.start <= last and (one.end is None or one.end >= first))
    return SignSession(tuple(deeds), tuple(present))
