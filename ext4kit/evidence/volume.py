"""A volume: a range of a disk, or what is unlocked or put together from one."""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.evidence.signatures import EXT_KINDS
from ext4kit.evidence.source import Window
from ext4kit.fields import VolumeFacts


@dataclass(frozen=True, slots=True)
class Volume:
    """A partition, or the whole image where it has no partition table.

    Attributes:
        index: its number in the evidence, from 1 on.
        offset: byte offset in the image; in its parent for what is in another volume.
        size: bytes that the partition table says; `source.size` is what the image has of them.
        kind: "ext2", "ext3", "ext4", "jbd", "xfs", "swap" ... or "unknown".
        label: the volume's own name, "" when it has none.
        uuid: the volume's own UUID or serial number, "" when it has none.
        scheme: "gpt", "mbr", "bsd" ...; "mbr/bsd" within a partition; "luks", "lvm2"; "" when
            unpartitioned.
        description: the partition table's name or type for it.
        source: the volume's bytes.
        backup: ext whose first superblock is destroyed and of which a backup was found.
        parent: number of the volume that it is in, 0 for the disk itself.
    """

    index: int
    offset: int
    size: int
    kind: str
    label: str
    uuid: str
    scheme: str
    description: str
    source: Window
    backup: bool = False
    parent: int = 0

    @property
    def is_ext(self) -> bool:
        """True for ext2, ext3 and ext4; an external journal is not a file system."""
        return self.kind in EXT_KINDS

    def as_facts(self) -> VolumeFacts:
        """What tells the volume from others, with plain JSON values."""
        return {
            "index": self.index,
            "offset": self.offset,
            "size": self.size,
            "kind": self.kind,
            "label": self.label,
            "uuid": self.uuid,
            "scheme": self.scheme,
            "parent": self.parent or None,
            "readable": self.source.size,
        }
