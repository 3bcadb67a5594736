"""The entries of a directory: names that a mount can show, attributes, nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ext4kit.filesystem.filesystem import LIVE
from ext4kit.filesystem.live_view import LiveNode
from ext4kit.filesystem.view import Node, free_name
from ext4kit.mount.attributes import STAT, Defaults, Stats, are_valid, live_stats, stats_of
from ext4kit.mount.documents import DocumentNode
from ext4kit.mount.live_files import LiveFiles

_ESCAPES = ((b"%", b"%25"), (b"/", b"%2F"), (b"\0", b"%00"))
_DOTS = {b"": b"%", b".": b"%2E", b"..": b"%2E%2E"}


@dataclass(frozen=True)
class FolderListing:
    """The entries of one directory.

    Attributes:
        names: the names, each once.
        stats: attributes of each.
        is_shown: bool of each: whether a listing may give the attributes of the entry.
        node: returns the node of a row.
        files: the files of a directory of the live tree; None elsewhere.
        has_facts: whether more may be known of an entry than its attributes, as of deleted files.
    """

    names: list[bytes]
    stats: Stats
    is_shown: list[bool]
    node: Callable[[int], Node]
    files: LiveFiles | None = None
    has_facts: bool = True

    @cached_property
    def rows(self) -> dict[bytes, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)


def listing_of(node: Node, defaults: Defaults) -> FolderListing:
    """The entries of a directory.

    Raises:
        AccessError: the directory cannot be read.
        CorruptError: its structure is damaged.
    """
    if isinstance(node, LiveNode) and (batch := node.listed()) is not None:
        start = len(node.path.rstrip(b"/")) + 1
        names = usable_names([path[start:] for path in batch.paths])
        stats = live_stats(batch, defaults.block_size)
        shown, has_facts = are_valid(stats).tolist(), batch.fs.state != LIVE
        return FolderListing(names, stats, shown, batch.node, LiveFiles(batch), has_facts)
    nodes = list(node.children())
    names = usable_names([each.name for each in nodes])
    is_lazy = [isinstance(each, DocumentNode) for each in nodes]
    stats = np.zeros(len(nodes), STAT)
    known = [row for row, lazy in enumerate(is_lazy) if not lazy]
    stats[known] = stats_of([nodes[row] for row in known], defaults)
    shown = are_valid(stats) & ~np.array(is_lazy, bool)
    return FolderListing(names, stats, shown.tolist(), nodes.__getitem__)


def usable_names(names: list[bytes]) -> list[bytes]:
    """The names, with the bytes encoded that no name in a mount may have; each is there once."""
    text = b"\0".join(names)
    is_plain = b"/" not in text and text.count(b"\0") == max(len(names) - 1, 0)
    if is_plain and len(set(names)) == len(names) and not _DOTS.keys() & set(names):
        return names
    taken: dict[bytes, None] = {}
    for name in names:
        taken[free_name(_usable(name), taken)] = None
    return list(taken)


def _usable(name: bytes) -> bytes:
    if b"/" in name or b"\0" in name:
        for byte, escape in _ESCAPES:
            name = name.replace(byte, escape)
    return _DOTS.get(name, name)
