"""Evidence: an image or a device, opened read-only, and the volumes in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ext4kit.evidence.signatures import LEAVE_OTHERS
from ext4kit.evidence.source import Source
from ext4kit.evidence.volume import Volume
from ext4kit.problems import Problems


@dataclass(slots=True)
class Evidence:
    """Opened evidence, which is a context manager that closes the evidence at the end.

    Attributes:
        source: all bytes of the disk, with split images joined and containers opened.
        files: all files of the image (segments, extents, backing files), the opened file first.
        format: "raw", "split raw", "device", "ewf", "qcow2", "vmdk" ...
        facts: case data in the container, by name.
        hashes: hashes of the disk that the container stores, "md5" and "sha1".
        problems: defects of the image or its partition tables; grows while it is read.
        volumes: the volumes by offset, each followed by the volumes in it.
        disguise: evidence that the file begins like a container but is also a disk; "" for none.
        other: the other reading of such a file, if both are possible.
    """

    source: Source
    files: tuple[Path, ...]
    format: str = "raw"
    facts: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    volumes: tuple[Volume, ...] = ()
    disguise: str = ""
    other: Evidence | None = None

    @property
    def path(self) -> Path:
        """Path as given by the caller."""
        return self.files[0]

    @property
    def disguises(self) -> tuple[str, ...]:
        """Texts that name the image or volumes that can be read in two ways, a sign of intent."""
        volumes = (
            f"volume {volume.index} begins like {volume.format} and holds {volume.hides}"
            for volume in self.volumes
            if volume.hides and volume.kind not in LEAVE_OTHERS
        )
        image = f"the image {self.disguise}" if self.disguise else ""
        return tuple(filter(None, (image, *volumes)))

    def place(self, volume: Volume) -> str:
        """The place of a volume, from the disk inwards; it does not depend on unlocked volumes."""
        above = "" if not volume.parent else self.place(self.volumes[volume.parent - 1]) + "/"
        return above + volume.place

    def close(self) -> None:
        """Close every file; later reads of a volume fail."""
        self.source.close()
        if self.other is not None:
            self.other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
