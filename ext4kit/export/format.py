"""Base class of all formats: a writer of rows, events and findings in the order of the pass."""

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
from ext4kit.triage import Indicator, Rule
from ext4kit.verify import Verification


@dataclass(frozen=True, slots=True)
class Subject:
    """What is exported, by which operator, and how.

    Attributes:
        image: the evidence.
        volume: facts of the volume that holds the file system.
        fs: the file system.
        started: start time, ns.
        locator: address of the file system; "" if it is not given.
        command: the command line, for the record.
        operator, case_number: as given; "" for none.
        hashes: names of the requested hashes.
        fractions: whether times in a bodyfile have nine decimal places.
        rules: the rules of signs; by default, those of the package.
    """

    image: Image
    volume: Volume
    fs: FileSystem
    started: int
    locator: str = ""
    command: str = ""
    operator: str = ""
    case_number: str = ""
    hashes: tuple[HashName, ...] = ()
    fractions: bool = False
    rules: Sequence[Rule] = ()


class Format:
    """A format: `begin`, then all content, then `end`.

    Attributes:
        takes_ranges: whether it needs the location of content.
        takes_types: whether it needs the type by content of all deleted files.
        takes_events: whether it takes the timeline.
        takes_findings: whether it takes the findings of verify and the problems.
        takes_signs: whether it takes the signs of tampering and intrusion.
        count: records written.
    """

    takes_ranges: ClassVar[bool] = False
    takes_types: ClassVar[bool] = False
    takes_events: ClassVar[bool] = False
    takes_findings: ClassVar[bool] = False
    takes_signs: ClassVar[bool] = False

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.count = 0

    def begin(self) -> None:
        """Write the start of the output."""

    def files(self, batch: Batch) -> None:
        """Write files."""

    def events(self, events: Sequence[Event]) -> None:
        """Write events."""

    def findings(self, result: Verification | None, problems: Iterable[Problem]) -> None:
        """Write the findings of verify, and the problems met while reading."""

    def signs(self, found: Sequence[Indicator] | None) -> None:
        """Write the signs of tampering and intrusion; None if they were not searched."""

    def end(self) -> None:
        """Write the end of the output."""


class TextFormat(Format):
    """A text format.

    Args:
        subject: the export.
        stream: the destination; line ends are written unchanged.
    """

    def __init__(self, subject: Subject, stream: TextIO) -> None:
        super().__init__(subject)
        self.stream = stream
