"""A file system that debugfs changes step by step, each step a transaction of a log: no mount.

What a step changed are the blocks that differ, but for those of files, whose blocks here all begin
with DATA; in ordered mode they are not in the log.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ext4kit.filesystem import FileSystem
from tests.journal.kernel_log import opened, run
from tests.journal.log_writer import LOG_START, LogWriter

SIZE = 1024
NOW = 2_000_000_000  # behind the time at which mke2fs says that it has checked
SECONDS = 100  # between two steps
FIRST = 11  # id of the first transaction
DATA = b"DATA"
SUPERBLOCK = 1


def content(text: str, blocks: int) -> bytes:
    """The bytes of a file of so many blocks."""
    row = DATA + text.encode()
    return b"".join((row + b" %d " % number).ljust(SIZE, b".") for number in range(blocks))


def spread(told: str) -> list[int]:
    """The blocks of a content that debugfs tells as runs."""
    runs = re.findall(r"\((\d+)(?:-(\d+))?\):(\d+)", told)
    return [
        int(block) + step
        for first, last, block in runs
        for step in range(int(last or first) - int(first) + 1)
    ]


@dataclass
class Session:
    """The image and its states.

    Attributes:
        folder: where files lie.
        journaled: contents of files are in the log as well.
        logs_superblock: so is the superblock, which a kernel logs now and then only.
        states: the image after each step; the first one before all of them.
    """

    folder: Path
    options: str = ""
    journaled: bool = False
    logs_superblock: bool = False
    states: list[bytes] = field(default_factory=list)
    steps: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        words = f"-b 1024 -N 512 -J size=1 -O ^resize_inode,^orphan_file {self.options}".split()
        run("mke2fs", "-q", "-F", "-t", "ext4", *words, self.image, "4M")
        self.states.append(self.image.read_bytes())
        self.log_blocks = np.array(spread(run("debugfs", "-R", "stat <8>", self.image)))
        self.writer = LogWriter(len(self.log_blocks))
        self.newest = FIRST - 1

    @property
    def image(self) -> Path:
        """The image."""
        return self.folder / "image"

    @property
    def time(self) -> int:
        """Seconds since 1970 of the step that comes next."""
        return NOW + SECONDS * len(self.steps)

    def file(self, name: str, data: bytes) -> Path:
        """A file outside the image, for debugfs to write."""
        path = self.folder / name
        path.write_bytes(data)
        return path

    def step(self, *requests: str, revokes: tuple[int, ...] = (), commit: bool = True) -> int:
        """Let debugfs change the image, and write a transaction with what has changed.

        Returns:
            Id of the transaction.
        """
        script = "\n".join([f"set_current_time @{self.time}", *requests, ""])
        command = ["debugfs", "-w", "-f", "-", str(self.image)]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        before, after = self.states[-1], self.image.read_bytes()
        self.newest += 1
        if revokes:
            self.writer.revoke(self.newest, revokes)
        self.writer.descriptor(self.newest, self._changed(before, after))
        if commit:
            self.writer.commit(self.newest, self.time + 5)
        self.states.append(after)
        self.steps.append(list(requests))
        return self.newest

    def _changed(self, before: bytes, after: bytes) -> list[tuple[int, bytes]]:
        rows = [np.frombuffer(data, np.uint8).reshape(-1, SIZE) for data in (before, after)]
        blocks = np.flatnonzero((rows[0] != rows[1]).any(axis=1)).tolist()
        found = [
            (block, rows[1][block].tobytes())
            for block in blocks
            if self.logs_superblock or block != SUPERBLOCK
        ]
        return [one for one in found if self.journaled or one[1][:4] != DATA]

    def finish(self, *, replayed: int | None = None) -> FileSystem:
        """Write the log into the image.

        Args:
            replayed: how many steps are in place, a recovery being due for the others; by default
                all, and the log is clean.
        """
        start, sequence = 0, self.newest + 1
        if replayed is not None:
            self._set_back(replayed)
            places = self.writer.rows[LOG_START:].view(">u4")
            wanted = FIRST + replayed
            heads = (places[:, 0] == 0xC03B3998) & (places[:, 2] == wanted)
            start, sequence = int(np.flatnonzero(heads)[0]), wanted
        self.writer.log(sequence, start)
        with self.image.open("r+b") as file:
            for position, block in enumerate(self.log_blocks.tolist()):
                file.seek(block * SIZE)
                file.write(self.writer.rows[LOG_START + position].tobytes())
        if replayed is not None:
            run("debugfs", "-w", "-R", "feature needs_recovery", self.image)
        return opened(self.image)

    def _set_back(self, replayed: int) -> None:
        """Metadata as after some steps; contents of files are in place already."""
        old, new = (
            np.frombuffer(data, np.uint8).reshape(-1, SIZE)
            for data in (self.states[replayed], self.states[-1])
        )
        is_data = (new[:, :4] == np.frombuffer(DATA, np.uint8)).all(axis=1)
        keep = is_data & (not self.journaled)
        rows: Any = np.where(keep[:, None], new, old)
        self.image.write_bytes(rows.astype(np.uint8).tobytes())

    def state(self, number: int) -> Path:
        """The image after so many steps, for debugfs to look at."""
        path = self.folder / f"state {number}"
        path.write_bytes(self.states[number])
        return path

    def ask(self, request: str, number: int = -1) -> str:
        """What debugfs answers about the image after so many steps."""
        return run("debugfs", "-R", request, self.state(number % len(self.states)))

    def number(self, path: str, state: int = -1) -> int:
        """Inode number of a path."""
        return int(re.findall(r"Inode: (\d+)", self.ask(f"stat {path}", state))[0])

    def blocks(self, path: str, state: int = -1) -> list[int]:
        """The blocks of a path's content."""
        return spread(self.ask(f"stat {path}", state))

    def tree_block(self, path: str) -> int:
        """The one block of a path's extent tree."""
        (block,) = re.findall(r"\(ETB0\):(\d+)", self.ask(f"stat {path}"))
        return int(block)

    def attribute_block(self, path: str, state: int = -1) -> int:
        """The block of a path's attributes."""
        (block,) = re.findall(r"File ACL: (\d+)", self.ask(f"stat {path}", state))
        return int(block)

    def table_block(self, number: int) -> tuple[int, int]:
        """(block, byte in it) of an inode."""
        place = re.findall(r"block (\d+), offset (0x[0-9a-f]+)", self.ask(f"imap <{number}>"))
        return int(place[0][0]), int(place[0][1], 16)

    def copy(self, name: str) -> Path:
        """A copy of the image."""
        return Path(shutil.copyfile(self.image, self.folder / name))


def tree(fs: FileSystem) -> dict[str, int]:
    """Path -> inode number of everything but `lost+found`."""
    found = {one.path.decode(): one.number for one in fs.walk(b"/")}
    return {path: number for path, number in found.items() if path not in ("/", "/lost+found")}
