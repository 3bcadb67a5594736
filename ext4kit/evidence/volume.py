"""A volume: a range of a disk, or an unlocked or logical volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ext4kit.evidence.magics import VolumeSignature
from ext4kit.evidence.signatures import EXT_KINDS
from ext4kit.evidence.source import Window
from ext4kit.fields import VolumeFacts


@dataclass(frozen=True, slots=True)
class Volume:
    """A partition, a volume in another volume, or the whole of an unpartitioned image.

    Attributes:
        index: number of the volume in the evidence, from 1.
        offset: byte offset in the image, or in the logical or unlocked volume that contains it.
        size: bytes according to the partition table; `source.size` counts those in the image.
        kind: kind as blkid names it ("ext4", "jbd", "xfs", "crypto_LUKS" ...), or "unknown".
        label: the volume's own name, "" if it has none.
        uuid: the volume's own UUID or serial number, "" if it has none.
        scheme: "gpt", "mbr", "bsd" ...; "mbr/bsd" within a partition; "luks", "lvm2"; "" when
            unpartitioned.
        description: name or type in the partition table.
        source: the volume's bytes.
        backup: whether the first superblock of ext is destroyed and a backup was found.
        parent: number of the volume that contains it, 0 for the disk itself.
        version: version of the format as blkid names it ("FAT32", "2" for LUKS); "" if there is
            none.
        name: "group/volume" if it is a logical volume or is inside one; else "".
        hides: a second format that its bytes contain, such as "a partition table", which is listed
            too; "" for none.
        first_byte: where the first byte is stored: (number of the volume or 0 for the image, offset
            there); None if unknown or if a physical volume is missing.
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
    version: str = ""
    hides: str = ""
    name: str = ""
    first_byte: tuple[int, int] | None = None

    @classmethod
    def of(cls, window: Window, signature: VolumeSignature, scheme: str, description: str) -> Self:
        """The volume in a range of a source; its number is assigned later."""
        return cls(
            index=0,
            offset=window.offset,
            size=window.size + window.missing,
            kind=signature.kind,
            label=signature.label,
            uuid=signature.uuid,
            scheme=scheme,
            description=description,
            source=window,
            backup=signature.backup,
            version=signature.version,
        )

    @property
    def place(self) -> str:
        """Text that identifies the volume within its disk or volume: scheme, name, byte offset."""
        name = f":{self.name.replace('/', ':')}" if self.name else ""
        return f"{self.scheme}{name}@{self.offset}"

    @property
    def frame(self) -> str:
        """Text that names what its offset, and the offsets in its file system, count from."""
        if not self.parent:
            return "the image"
        unlocked = f"the unlocked bytes of volume {self.parent}"
        return f"logical volume {self.name}" if self.name else unlocked

    @property
    def is_ext(self) -> bool:
        """Whether the volume is ext2, ext3 or ext4 (an external journal is not)."""
        return self.kind in EXT_KINDS

    @property
    def format(self) -> str:
        """Kind and version for display; the version of ext is omitted."""
        return self.kind if self.is_ext or not self.version else f"{self.kind} ({self.version})"

    def as_facts(self) -> VolumeFacts:
        """The facts that identify the volume, as plain JSON values."""
        return {
            "index": self.index,
            "offset": self.offset,
            "size": self.size,
            "kind": self.kind,
            "version": self.version,
            "label": self.label,
            "uuid": self.uuid,
            "scheme": self.scheme,
            "parent": self.parent or None,
            "name": self.name,
            "first_byte": None
            if self.first_byte is None
            else {"volume": self.first_byte[0] or None, "offset": self.first_byte[1]},
            "readable": self.source.size,
        }
