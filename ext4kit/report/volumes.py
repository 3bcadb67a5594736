"""The volumes of an image as a table and as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ext4kit import fields
from ext4kit.evidence import Volume
from ext4kit.report.safe import printable_text
from ext4kit.report.tables import table_lines

_HEADINGS = ("index", "offset", "size", "kind", "label", "uuid", "scheme", "description")


def volume_lines(volumes: Sequence[Volume]) -> list[str]:
    """A heading, then a line for each volume; offset and size in bytes.

    Where volumes are nested, a column "in" has the number of the outer one.
    """
    headings, rows, right = list(_HEADINGS), [], {0, 1, 2}
    for volume in volumes:
        kind = f"{volume.kind} (backup superblock)" if volume.backup else volume.kind
        values = (volume.index, volume.offset, volume.size, kind, volume.label, volume.uuid,
                  volume.scheme, volume.description)  # fmt: skip
        rows.append([printable_text(str(value)) or "-" for value in values])
    if any(volume.parent for volume in volumes):
        headings.insert(1, "in")
        for row, volume in zip(rows, volumes, strict=True):
            row.insert(1, str(volume.parent or "-"))
        right.add(3)
    return table_lines(headings, rows, right=right)


class VolumeRecord(fields.VolumeFacts):
    """A volume of the image (`volumes`, `report`)."""

    record: Literal["volume"]
    description: str
    is_ext: bool
    backup: bool


def volume_record(volume: Volume) -> VolumeRecord:
    """A volume as a record."""
    return {
        "record": "volume",
        **volume.as_facts(),
        "description": volume.description,
        "is_ext": volume.is_ext,
        "backup": volume.backup,
    }
