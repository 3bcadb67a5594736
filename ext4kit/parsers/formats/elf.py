"""ELF headers: the ends of the tables, sections and segments of a program.

Source: System V Application Binary Interface, chapters 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Buffer, Layout, Structures
from ext4kit.parsers.words import (
    Bytes,
    Int16ub,
    Int16ul,
    Int32ub,
    Int32ul,
    Int64ub,
    Int64ul,
    Struct,
    Word,
)

MAGIC = b"\x7fELF"
SHT_NOBITS = 8  # has no bytes in the file


def _layouts(half: Word, word: Word, wide: Word) -> tuple[Layout, Layout, Layout]:
    """The headers of the file, of a section and of a segment with fields of these sizes."""
    header = Struct(
        "e_ident" / Bytes(16),  # magic, class, byte order, version
        "e_type" / half,
        "e_machine" / half,
        "e_version" / word,
        "e_entry" / wide,
        "e_phoff" / wide,  # program headers, from the start of the file
        "e_shoff" / wide,  # section headers, from the start of the file
        "e_flags" / word,
        "e_ehsize" / half,
        "e_phentsize" / half,
        "e_phnum" / half,
        "e_shentsize" / half,
        "e_shnum" / half,  # 0: stored in sh_size of the first section header
        "e_shstrndx" / half,
    )
    section = Struct(
        "sh_name" / word,
        "sh_type" / word,  # SHT_NOBITS: nothing in the file
        "sh_flags" / wide,
        "sh_addr" / wide,
        "sh_offset" / wide,
        "sh_size" / wide,
        "sh_link" / word,
        "sh_info" / word,
        "sh_addralign" / wide,
        "sh_entsize" / wide,
    )
    is_64_bit = wide.size == 8  # p_flags is then at another offset
    segment = Struct(
        "p_type" / word,
        *(["p_flags" / word] if is_64_bit else []),
        "p_offset" / wide,
        "p_vaddr" / wide,
        "p_paddr" / wide,
        "p_filesz" / wide,
        "p_memsz" / wide,
        *([] if is_64_bit else ["p_flags" / word]),
        "p_align" / wide,
    )
    return (
        Layout("ELF header", header),
        Layout("ELF section header", section),
        Layout("ELF program header", segment),
    )


# (class, byte order) as in e_ident
_LAYOUTS = {
    (1, 1): _layouts(Int16ul, Int32ul, Int32ul),
    (1, 2): _layouts(Int16ub, Int32ub, Int32ub),
    (2, 1): _layouts(Int16ul, Int32ul, Int64ul),
    (2, 2): _layouts(Int16ub, Int32ub, Int64ub),
}


@dataclass(frozen=True, slots=True)
class ElfHeader:
    """The fields of an ELF header that determine lengths; offsets and sizes in bytes.

    Attributes:
        size: size of the header itself.
        section_at: offset of the section headers; 0 for none.
        section_size: size of one section header; section_count: number of section headers, 0 if the
            first section header holds it.
        segment_at: offset of the program headers; 0 for none.
        segment_count: number of program headers.
        layouts: layouts of the file header, of section headers and of program headers.
    """

    size: int
    section_at: int
    section_size: int
    section_count: int
    segment_at: int
    segment_count: int
    layouts: tuple[Layout, Layout, Layout]

    @classmethod
    def parse(cls, data: Buffer) -> Self:
        """The header at the start of a file.

        Raises:
            CorruptError: the header is truncated or of an unknown class, or its entries have wrong
                sizes.
        """
        piece = bytes(data[:6])
        layouts = _LAYOUTS.get((piece[4], piece[5])) if len(piece) == 6 else None
        if layouts is None or piece[:4] != MAGIC:
            raise CorruptError("ELF header", 0, "no known class and byte order")
        raw = layouts[0].parse(data)
        if raw.e_shoff and raw.e_shentsize != layouts[1].size:
            raise CorruptError("ELF header", 0, f"section headers of {raw.e_shentsize} bytes")
        if raw.e_phnum and raw.e_phentsize != layouts[2].size:
            raise CorruptError("ELF header", 0, f"program headers of {raw.e_phentsize} bytes")
        sections = (raw.e_shoff, layouts[1].size, raw.e_shnum)
        return cls(layouts[0].size, *sections, raw.e_phoff, raw.e_phnum, layouts)

    @property
    def section_bytes(self) -> int:
        """Size of all section headers in bytes; of the first one only, if it holds their number."""
        return self.section_size * max(self.section_count, 1) if self.section_at else 0

    @property
    def segment_bytes(self) -> int:
        """Size of all program headers in bytes."""
        return self.layouts[2].size * self.segment_count

    def sections(self, data: Buffer) -> Structures:
        """The section headers in the given bytes, with the raw field names."""
        return self.layouts[1].table(data)

    def segments(self, data: Buffer) -> Structures:
        """The program headers in the given bytes, with the raw field names."""
        return self.layouts[2].table(data)

    def sections_elsewhere(self, sections: Structures) -> bool:
        """Whether the first section header holds the number of section headers."""
        return bool(self.section_at and not self.section_count and len(sections))
