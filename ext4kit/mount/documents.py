"""The files of `metadata/`: records of commands, made when a size or a content is first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO

from ext4kit.evidence.temporary import temporary_file
from ext4kit.fields import Record
from ext4kit.filesystem.view import Node, NodeId
from ext4kit.journal import Log
from ext4kit.report.info import info_records
from ext4kit.report.journal_list import transaction_records
from ext4kit.report.records import json_line, write_lines
from ext4kit.report.timeline import timeline_records
from ext4kit.timeline import EventFilter
from ext4kit.workspace import Workspace


@dataclass(frozen=True)
class DocumentNode(Node):
    """A file of JSON lines, kept in a temporary file without a name once it is made.

    Attributes:
        make: returns the records.
    """

    make: Callable[[], Iterable[Record]] = field(kw_only=True, repr=False, compare=False)

    @cached_property
    def file(self) -> BinaryIO:
        """The records as lines."""
        made = temporary_file()  # noqa: SIM115 -- open as long as the node
        write_lines(map(json_line, self.make()), lambda text: made.write(text.encode("ascii")))
        made.flush()
        return made

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self.file.fileno()).st_size


def documents(workspace: Workspace, raw: Workspace) -> Iterator[DocumentNode]:
    """The records of `info`, `timeline` and `journal list`.

    Args:
        workspace: the file system.
        raw: the file system without its journal replayed, as `info` and `journal list` read it.
    """
    made: tuple[tuple[str, Callable[[], Iterable[Record]]], ...] = (
        ("superblock.json", lambda: info_records(raw.fs, False)),
        ("timeline.jsonl", lambda: timeline_records(workspace.timeline(), EventFilter())),
        ("journal.jsonl", lambda: _transactions(raw)),
    )
    for name, make in made:
        yield DocumentNode(NodeId("metadata", detail=name), b"/" + name.encode(), make=make)


def _transactions(raw: Workspace) -> Iterable[Record]:
    log = Log.open(raw.fs)
    return () if log is None else transaction_records(raw.fs, log)
