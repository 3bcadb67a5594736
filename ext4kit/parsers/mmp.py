"""The block of multiple mount protection: the host that mounts the file system, and the time.

Source: kernel Documentation/filesystems/ext4/mmp.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.errors import CorruptError
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.layout import Buffer, Layout
from ext4kit.parsers.words import Array, Bytes, Int16ul, Int32ul, Int64ul, Struct
from ext4kit.units import NANOSECONDS

MMP = Layout(
    "mmp block",
    Struct(
        "mmp_magic" / Int32ul,  # MAGIC
        "mmp_seq" / Int32ul,  # increases while mounted; CLEAN or FSCK otherwise
        "mmp_time" / Int64ul,  # seconds since 1970, informational
        "mmp_nodename" / Bytes(64),  # host that updated it last
        "mmp_bdevname" / Bytes(32),  # device name on that host
        "mmp_check_interval" / Int16ul,  # seconds
        "mmp_pad1" / Int16ul,
        "mmp_pad2" / Array(226, Int32ul),
        "mmp_checksum" / Int32ul,  # crc32c(fs seed, everything before it)
    ),
)

MAGIC = 0x004D4D50
CLEAN = 0xFF4D4D50  # unmounted
FSCK = 0xE24D4D50  # e2fsck is (or was) running


@dataclass(frozen=True, slots=True)
class MountProtection:
    """The state of multiple mount protection.

    Attributes:
        sequence: the raw sequence word.
        time_ns: last update, nanoseconds since 1970 UTC by the host's clock.
        host: node name of the host, up to the first NUL.
        device: device name on that host, up to the first NUL.
        check_interval: seconds between two checks of the block.
        checksum: stored checksum; valid with metadata_csum only.
    """

    sequence: int
    time_ns: int
    host: bytes
    device: bytes
    check_interval: int
    checksum: int

    @property
    def state(self) -> str:
        """`clean`, `fsck` or `in use`."""
        return {CLEAN: "clean", FSCK: "fsck"}.get(self.sequence, "in use")


def parse_mmp(block: Buffer) -> MountProtection:
    """The state in the block.

    Raises:
        CorruptError: the block is too short or does not have the magic number.
    """
    raw = MMP.parse(block)
    if raw.mmp_magic != MAGIC:
        raise CorruptError(MMP.name, 0, f"magic number {raw.mmp_magic:#010x}")
    return MountProtection(
        raw.mmp_seq,
        raw.mmp_time * NANOSECONDS,
        raw.mmp_nodename.split(b"\0")[0],
        raw.mmp_bdevname.split(b"\0")[0],
        raw.mmp_check_interval,
        raw.mmp_checksum,
    )


def mmp_checksum(seed: int, block: Buffer) -> int:
    """Computed checksum of the block; `seed` is that of the file system."""
    return crc32c(seed, bytes(memoryview(block)[: MMP.offset_of("mmp_checksum")]))
