"""The truth of one case: everything that was deleted, everything that lives, with its times."""

from __future__ import annotations

import json
import stat
import struct
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sample_images.recipes.ondisk import Extent, Slot

KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "chardev", stat.S_IFBLK: "blockdev",
}  # fmt: skip
TIMES_AT = {"atime": (8, 140), "mtime": (16, 136), "crtime": (144, 148)}  # seconds, the rest


@dataclass(slots=True)
class ItemTruth:
    """A file, directory, link or special file; a deleted one as it was just before it went.

    Attributes:
        paths: all its names, relative to the root, no leading slash.
        tag: of a regular file what its parts say; "" where it has none.
        times: ns since 1970 by name, as the inode on the device has them.
        target: of a symbolic link.
        device: (major, minor) of a device.
        blocks: of a regular file, as the kernel and the device say.
    """

    paths: list[bytes]
    kind: str
    inode: int
    generation: int
    mode: int
    uid: int
    gid: int
    size: int
    times: dict[str, int]
    tag: str = ""
    target: bytes | None = None
    device: tuple[int, int] | None = None
    blocks: list[Extent] = field(default_factory=list)


@dataclass(slots=True)
class CaseTruth:
    """What was deleted in one image, and what is there at the end."""

    deleted: list[ItemTruth] = field(default_factory=list)
    live: list[ItemTruth] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write as JSON; bytes of names as Latin-1."""
        path.write_text(json.dumps(asdict(self), default=lambda raw: raw.decode("latin-1")))

    @classmethod
    def load(cls, path: Path) -> CaseTruth:
        """Read what `save` wrote."""
        record = json.loads(path.read_text())
        return cls(*([_item(one) for one in record[key]] for key in ("deleted", "live")))


def _item(record: dict[str, Any]) -> ItemTruth:
    record["paths"] = [path.encode("latin-1") for path in record["paths"]]
    record["target"] = record["target"] and record["target"].encode("latin-1")
    record["device"] = record["device"] and tuple(record["device"])
    record["blocks"] = [tuple(extent) for extent in record["blocks"]]
    return ItemTruth(**record)


def times_of(slot: Slot) -> dict[str, int]:
    """The times of an inode with 256 bytes: access, modification, creation."""
    times: dict[str, int] = {}
    for name, (at, rest_at) in TIMES_AT.items():
        seconds = int(struct.unpack_from("<i", slot.raw, at)[0])
        rest = int(struct.unpack_from("<I", slot.raw, rest_at)[0])
        times[name] = (seconds + ((rest & 3) << 32)) * 10**9 + (rest >> 2)
    return times
