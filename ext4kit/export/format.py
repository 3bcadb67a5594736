"""What every format is: something that takes rows, events and findings as they come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TextIO

from ext4kit.evidence import Volume
from ext4kit.export.rows import Batch
from ext4kit.fields import HashName
from ext4kit.filesystem import FileSystem
from ext4kit.opening import Image
from ext4kit.problems import Problem
from ext4kit.timeline import Event
from ext4kit.verify import Verification


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported, by whom, how.

    Attributes:
        image: the evidence.
        volume: facts of the volume that the file system is on.
        fs: the file system.
        started: when, ns.
        command: the command line, for the record.
        operator, case_number: as given; "" for none.
        hashes: digests asked for, by name.
        fractions: times in a bodyfile with nine decimal places.
    """

    image: Image
    volume: Volume
    fs: FileSystem
    started: int
    command: str = ""
    operator: str = ""
    case_number: str = ""
    hashes: tuple[HashName, ...] = ()
    fractions: bool = False


class Format:
    """A format: `begin`, then whatever there is, then `end`.

    Attributes:
        takes_ranges: wants to know where content lies.
        takes_versions: wants earlier states of files whether or not others do.
        takes_events: wants the timeline.
        takes_findings: wants what verify finds and what was wrong.
        count: records written.
    """

    takes_ranges: ClassVar[bool] = False
    takes_versions: ClassVar[bool] = False
    takes_events: ClassVar[bool] = False
    takes_findings: ClassVar[bool] = False

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.count = 0

    def begin(self) -> None:
        """Write what comes first."""

    def files(self, batch: Batch) -> None:
        """Write files."""

    def events(self, events: Sequence[Event]) -> None:
        """Write events."""

    def findings(self, result: Verification | None, problems: Iterable[Problem]) -> None:
        """Write what is wrong with the file system, and what was met while reading."""

    def end(self) -> None:
        """Write what comes last."""


class TextFormat(Format):
    """A format that is text.

    Args:
        subject: what is exported.
        stream: where it goes; line ends are written as they come.
    """

    def __init__(self, subject: Subject, stream: TextIO) -> None:
        super().__init__(subject)
        self.stream = stream
