"""Digital Forensics XML 1.x in the form of fiwalk: a volume and a `fileobject` for each file.

The schema fixes the order of elements. Source: the DFXML working group's schema, version 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar
from xml.sax.saxutils import escape

from ext4kit import __version__
from ext4kit.export.format import TextFormat
from ext4kit.export.rows import RESIDENT, Batch, FileRow, Range
from ext4kit.export.texts import iso
from ext4kit.report.safe import printable, printable_text

# (name_type, meta_type) of each type; the numbers are The Sleuth Kit's
_TYPES = {
    "file": ("r", 1), "directory": ("d", 2), "fifo": ("p", 3), "chardev": ("c", 4),
    "blockdev": ("b", 5), "symlink": ("l", 6), "socket": ("s", 8), "unknown": ("-", 0),
}  # fmt: skip
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<dfxml xmlns="http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML"
       xmlns:dc="http://purl.org/dc/elements/1.1/" version="1.1.0">
  <metadata><dc:type>Disk Image</dc:type></metadata>
  <creator version="1.0">
    <program>ext4kit</program>
    <version>{version}</version>
    <execution_environment>
      <command_line>{command}</command_line>
      <start_time>{start}</start_time>
    </execution_environment>
  </creator>
  <source>
{files}
  </source>
"""
_NOT_XML = re.compile("[\ufffe\uffff]")  # further characters that XML forbids are already escaped


class Dfxml(TextFormat):
    """One `fileobject` per file, live or deleted."""

    takes_ranges: ClassVar[bool] = True
    takes_types: ClassVar[bool] = True

    def begin(self) -> None:
        """Write the head and the elements of the volume."""
        subject, volume = self.subject, self.subject.volume
        names = (printable_text(str(path)) for path in subject.image.evidence.files)
        head = _HEAD.format(
            version=__version__,
            command=_text(printable_text(subject.command)),
            start=iso(subject.started),
            files="\n".join(
                f"    <image_filename>{_text(name)}</image_filename>" for name in names
            ),
        )
        self._shift = None if volume.parent else volume.offset
        self.stream.write(head + "\n".join(self._volume()) + "\n")

    def _volume(self) -> Iterator[str]:
        """The elements of the volume, with its offset if the image holds the volume unchanged."""
        superblock, shift = self.subject.fs.superblock, self._shift
        yield "<volume>" if shift is None else f'<volume offset="{shift}">'
        if shift:
            yield _element("partition_offset", shift)
        yield _element("block_size", superblock.block_size)
        yield _element("ftype_str", _text(self.subject.volume.kind))
        yield _element("block_count", superblock.blocks_count)

    def files(self, batch: Batch) -> None:
        """Write one element per file."""
        lines: list[str] = []
        for row, ranges, digests in zip(
            batch.rows, batch.ranges, batch.complete_digests, strict=True
        ):
            self.count += 1
            lines.append("<fileobject>")
            lines += self._facts(row)
            lines += _runs(ranges, self._shift)
            for name, value in digests.items():
                lines.append(_element("hashdigest", value, f' type="{name}"'))
            lines.append("</fileobject>")
        self.stream.write("\n".join(lines) + "\n" if lines else "")

    def _facts(self, row: FileRow) -> Iterator[str]:
        """All elements before the runs."""
        letter, number = _TYPES[row.kind]
        yield _element("filename", _text(row.path.removeprefix("/")))
        yield _element("partition", self.subject.volume.index)
        yield _element("id", self.count)
        yield _element("name_type", letter)
        if row.size is not None:
            yield _element("filesize", row.size)
        yield _element("alloc", 1) if row.gone is None else _element("unalloc", 1)
        if row.mode is not None:
            yield _inode(row, number)
        if row.target is not None:
            yield _element("link_target", _text(printable(row.target)))
        if row.format is not None:
            yield _element("libmagic", _text(row.format.mime))

    def end(self) -> None:
        """Close the open elements."""
        self.stream.write("</volume>\n</dfxml>\n")


def _inode(row: FileRow, number: int) -> str:
    lines = [
        f"<used>1</used><inode>{row.number}</inode><meta_type>{number}</meta_type>"
        f"<mode>{(row.mode or 0) & 0o7777}</mode><nlink>{row.links}</nlink>"
        f"<uid>{row.uid}</uid><gid>{row.gid}</gid>"
    ]
    for name in ("mtime", "ctime", "atime", "crtime", "dtime"):
        moment = getattr(row, name)
        if moment is not None:
            lines.append(f"<{name}>{iso(moment)}</{name}>")
    return "\n".join(lines)


def _runs(ranges: list[Range], shift: int | None) -> Iterator[str]:
    """The runs, with their image offsets if the image holds the volume unchanged."""
    if not ranges:
        return
    yield "<byte_runs>"
    for offset, length, place in ranges:
        where = ' fill="0"'
        if place == RESIDENT:
            where = ' type="resident"'
        elif place is not None:
            image = "" if shift is None else f' img_offset="{place + shift}"'
            where = f' fs_offset="{place}"{image}'
        yield f'<byte_run file_offset="{offset}"{where} len="{length}"/>'
    yield "</byte_runs>"


def _element(name: str, value: object, attributes: str = "") -> str:
    return f"<{name}{attributes}>{value}</{name}>"


def _text(text: str) -> str:
    """A text escaped for use between tags."""
    if not text.isascii():
        text = _NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return escape(text)
