"""The truth about one image: what was deleted, what lives, and how much can be had."""

from __future__ import annotations

import base64
import json
import lzma
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from sample_images.recipes.ondisk import Extent

TRUTH = ".truth.json"  # how the name of such a file ends


def running_kernel() -> tuple[int, int]:
    """Version of the running kernel, as (6, 18)."""
    major, minor, *_ = [*map(int, re.findall(r"\d+", platform.release())), 0, 0]
    return major, minor


@dataclass(frozen=True, slots=True)
class Built:
    """An image and the file with its truth."""

    image: Path
    truth: Path

    @classmethod
    def of(cls, name: str, folder: Path) -> Built:
        """Where they lie in a folder."""
        return cls(folder / f"{name}.img", folder / f"{name}{TRUTH}")


@dataclass(slots=True)
class FileTruth:
    """One state of one file that is no more, as it was just before it went.

    Attributes:
        path: relative to the root of the file system, no leading slash.
        sha256: of the content, hexadecimal.
        blocks: (first file block, first block, blocks, unwritten) in file system blocks.
        state: "deleted" for the last state of a deleted file, "earlier" for one before it or
            an earlier state of a living file.
        held: the file was unlinked while open, and open at the power cut.
        ends_in_zero: the content ends in a zero byte, so its size cannot be seen in its blocks.
        blocks_hold: the recorded blocks of the final image still give the SHA-256.
        inode_known: how the map can still be known: "log", "disk" (the table itself, before
            replay), "orphan", "inline" (the dead inode still holds the content),
            "stale-index" (it still points to its leaves, which are on disk), or "".
        inode_undescribed: a log block for which no descriptor speaks any more has the slot.
        allocated_over: some of its blocks were later given to a file that never wrote them, so
            its bytes are there and yet not its own any more.
        path_in_log: each name of the path is in a journaled copy of a block, or lives.
        name_left: an entry of its inode and name can be read in a free block or in the log.
        path_left: the same of every folder of the path that does not live.
        parts_left: how many parts at the end of the path are left so, or live.
    """

    path: bytes
    inode: int
    generation: int
    size: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    sha256: str
    blocks: list[Extent]
    state: str = "deleted"
    held: bool = False
    inline: bool = False
    ends_in_zero: bool = False
    blocks_hold: bool = False
    inode_known: str = ""
    inode_undescribed: bool = False
    allocated_over: bool = False
    path_in_log: bool = False
    name_left: bool = False
    path_left: bool = False
    parts_left: int = 0

    @property
    def recoverable(self) -> bool:
        """Whether the bytes and the way to them are there."""
        if self.inode_known == "stale-index" and self.ends_in_zero:
            return False
        return self.blocks_hold and not self.allocated_over and self.inode_known != ""

    @property
    def holds(self) -> bool:
        """Whether this is a last state whose bytes are still in its own, now free, blocks."""
        there = self.blocks_hold and not self.allocated_over and not self.inline
        return self.state == "deleted" and self.size > 0 and there

    @property
    def could_be_had(self) -> bool:
        """Whether a tool can be asked to bring this last state back bit for bit."""
        return self.state == "deleted" and self.recoverable


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One file that is still there at the end."""

    path: bytes
    inode: int
    generation: int
    sha256: str


@dataclass(slots=True)
class Truth:
    """All that is known about one image.

    Attributes:
        kernel: version of the kernel that wrote it, as (6, 18).
    """

    recipe: str
    files: list[FileTruth] = field(default_factory=list)
    live: list[LiveFile] = field(default_factory=list)
    kernel: tuple[int, int] = field(default_factory=running_kernel)

    def save(self, path: Path) -> None:
        """Write as JSON, a record a line and at a time; packed when the name ends in .xz."""
        with _opened(path, "wt") as file:
            file.write(f'{{"recipe": {json.dumps(self.recipe)}, "kernel": {list(self.kernel)}')
            lists: dict[str, Sequence[FileTruth | LiveFile]]
            lists = {"files": self.files, "live": self.live}
            for key, records in lists.items():
                file.write(f',\n"{key}": [')
                for number, one in enumerate(records):
                    file.write(",\n" if number else "\n")
                    file.write(json.dumps(_as_json(asdict(one))))
                file.write("]")
            file.write("}\n")


def load(path: Path) -> Truth:
    """Read what `Truth.save` wrote."""
    with _opened(path, "rt") as file:
        truth: Truth = json.load(file, object_hook=_from_json)
    return truth


def _opened(path: Path, mode: Literal["rt", "wt"]) -> TextIO:
    opened = lzma.open if path.suffix == ".xz" else open
    return cast(TextIO, opened(path, mode, encoding="utf-8"))


def _from_json(values: dict[str, Any]) -> Truth | FileTruth | LiveFile:
    """One object of the file, those inside it made already."""
    if "files" in values:
        return Truth(**{**values, "kernel": tuple(values["kernel"])})
    if "blocks" not in values:
        return LiveFile(**_with_path(values))
    blocks = [(a, b, c, bool(d)) for a, b, c, d in values["blocks"]]
    return FileTruth(**{**_with_path(values), "blocks": blocks})


def path_of(record: dict[str, Any]) -> bytes | None:
    """The exact bytes of a record's path, without a leading slash; None when it has none."""
    path = bytes_of(record, "path")
    return None if path is None else path.lstrip(b"/")


def bytes_of(record: dict[str, Any], key: str) -> bytes | None:
    """The exact bytes of a record's text `key`; None when it has none."""
    packed = record.get(f"{key}_bytes")
    if packed:
        return base64.b64decode(packed)
    text: str | None = record.get(key)
    return None if text is None else text.encode()


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    path: bytes = values.pop("path")
    named = {"path": path.decode(errors="replace")}
    if named["path"].encode() != path:
        named["path_bytes"] = base64.b64encode(path).decode()
    return {**named, **values}


def _with_path(record: dict[str, Any]) -> dict[str, Any]:
    values = {key: value for key, value in record.items() if key != "path_bytes"}
    return {**values, "path": path_of(record)}
