"""Headers of containers and volumes, at the edges of what their formats allow.

Sources: QEMU docs/interop/qcow2.rst; Microsoft's Virtual Hard Disk Image Format Specification;
libewf's documentation of EWF; the LUKS2 On-Disk Format Specification.
"""

from __future__ import annotations

import struct
import zlib

import pytest

from ext4kit.errors import CorruptError, UnsupportedError
from ext4kit.parsers import ewf, luks, lvm, qcow2, vhd

# --- QCOW2 ------------------------------------------------------------------------------------


def qcow2_header(
    features: int = 0, version: int = 3, crypt: int = 0, bits: int = 16, size: int = 1 << 30,
    backing: int = 0, length: int = 112, compression: int = 0,
) -> bytes:  # fmt: skip
    first = struct.pack(
        ">4sIQIIQIIQQIIQ", b"QFI\xfb", version, 1000 * bool(backing), backing, bits, size, crypt,
        7, 3 << 16, 1 << 16, 1, 2, 9 << 16,
    )  # fmt: skip
    return first + struct.pack(">QQQIIB7x", features, 0, 0, 4, length, compression)


def test_a_qcow2_header_says_where_what_is() -> None:
    found = qcow2.parse_header(qcow2_header())
    assert (found.size, found.cluster_bits, found.first_level) == (1 << 30, 16, (3 << 16, 7))
    assert (found.backing, found.snapshots, found.entry_size) == ((0, 0), 2, 8)
    assert not (found.zstd or found.extended or found.marked_corrupt)
    assert qcow2.parse_header(qcow2_header(backing=1023)).backing == (1000, 1023)


@pytest.mark.parametrize("bit", range(64))
def test_each_incompatible_feature_of_qcow2_means_what_the_specification_says(bit: int) -> None:
    header = qcow2_header(1 << bit, compression=1)
    if bit not in (0, 1, 3, 4):  # dirty, corrupt, a compression type, extended entries
        with pytest.raises(UnsupportedError, match="external" if bit == 2 else "unknown"):
            qcow2.parse_header(header)
        return
    found = qcow2.parse_header(header)
    assert found.marked_corrupt is (bit == 1)
    assert found.entry_size == (16 if bit == 4 else 8)


def test_version_2_of_qcow2_has_no_features_and_old_headers_no_compression_type() -> None:
    old = qcow2.parse_header(qcow2_header(0b10010, version=2, compression=1))
    assert not (old.zstd or old.extended or old.marked_corrupt)
    assert qcow2.parse_header(qcow2_header(compression=1, length=112)).zstd
    assert not qcow2.parse_header(qcow2_header(compression=1, length=104)).zstd


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": 1}, UnsupportedError), ({"version": 4}, UnsupportedError),
        ({"crypt": 1}, UnsupportedError), ({"crypt": 2}, UnsupportedError),
        ({"compression": 2}, UnsupportedError),
        ({"bits": 8}, CorruptError), ({"bits": 22}, CorruptError),
        ({"size": 1 << 62}, CorruptError), ({"backing": 1024}, CorruptError),
    ],
)  # fmt: skip
def test_a_qcow2_header_out_of_bounds_is_refused(
    changes: dict[str, int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        qcow2.parse_header(qcow2_header(**changes))


@pytest.mark.parametrize(
    "changes", [{"bits": 9}, {"bits": 21}, {"size": (1 << 62) - 1}, {"size": 0}]
)
def test_a_qcow2_header_at_its_bounds_is_read(changes: dict[str, int]) -> None:
    assert qcow2.parse_header(qcow2_header(**changes)).cluster_bits == changes.get("bits", 16)


# --- VHD --------------------------------------------------------------------------------------


def footer(kind: int = 3, size: int = 1 << 20, cookie: bytes = b"conectix") -> bytes:
    parts = [cookie, 2, 0x10000, 512, 7, b"test", 0x60003, b"Wi2k", size, size, b"\0" * 4, kind]
    raw = struct.pack(">8sIIQI4sI4sQQ4sI", *parts) + bytes(4) + bytes(range(16)) + bytes(428)
    return raw[:64] + struct.pack(">I", ~sum(raw) & 0xFFFFFFFF) + raw[68:]


@pytest.mark.parametrize("kind", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 512, (1 << 62) - 1])
def test_a_footer_says_what_disk_it_is(kind: int, size: int) -> None:
    raw = footer(kind, size)
    found = vhd.parse_footer(raw)
    assert (found.kind, found.size, found.is_sound) == (kind, size, True)
    for at in (8, 67, 84, 511):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        assert not vhd.parse_footer(changed).is_sound


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (footer(cookie=b"conectiX"), CorruptError), (footer(size=0), CorruptError),
        (footer(size=1 << 62), CorruptError),
        (footer(size=1 << 63), CorruptError), (footer(0), UnsupportedError),
        (footer(1), UnsupportedError), (footer(5), UnsupportedError),
    ],
)  # fmt: skip
def test_a_footer_that_is_none_is_refused(raw: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        vhd.parse_footer(raw)


# --- EWF --------------------------------------------------------------------------------------


def table(entries: list[int], wrong_by: int = 0, base: int = 0) -> bytes:
    """The body of a table section."""
    head = struct.pack("<I4xQ4x", len(entries), base)
    body = struct.pack(f"<{len(entries)}I", *entries)
    stored = (zlib.adler32(body) + wrong_by) & 0xFFFFFFFF
    return head + struct.pack("<I", zlib.adler32(head)) + body + struct.pack("<I", stored)


def test_a_table_says_where_chunks_start_and_which_are_compressed() -> None:
    starts, packed = ewf.parse_table(table([100, 1 << 31 | 300, 500], base=7000), 0)
    assert starts.tolist() == [7100, 7300, 7500]
    assert packed.tolist() == [False, True, False]


def test_behind_two_gibibytes_entries_have_no_mark() -> None:
    entries = [(1 << 31) - 9, (1 << 31) + 5, (1 << 31) + 900]
    starts, packed = ewf.parse_table(table(entries), 0)
    assert (starts.tolist(), packed.tolist()) == (entries, [False] * 3)


@pytest.mark.parametrize("wrong_by", [-1, 1])
def test_a_table_with_another_checksum_is_damaged(wrong_by: int) -> None:
    with pytest.raises(CorruptError, match="entries"):
        ewf.parse_table(table([100, 300], wrong_by), 0)
    for at in (0, 8, 20):
        raw = bytearray(table([100, 300]))
        raw[at] = (raw[at] + wrong_by) % 256
        with pytest.raises(CorruptError, match="header"):
            ewf.parse_table(bytes(raw), 0)
    with pytest.raises(CorruptError, match="header"):
        ewf.parse_table(table([100, 300])[: 24 + 7], 0)


# --- LUKS2, LVM2 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "read"),
    [(16 << 10, 16 << 10), (4 << 20, 4 << 20), (8 << 20, 0), (4096, 0), (100, 0), (0, 0)],
)
def test_a_luks2_header_has_a_size_between_its_binary_part_and_4_mib(size: int, read: int) -> None:
    raw = struct.pack(">6sHQ", b"LUKS\xba\xbe", 2, size).ljust(4096, b"\0")
    assert luks.header_size(raw) == read


@pytest.mark.parametrize("text", ["a {", "a", "a { b", "a =", "a { b = [ 1,", "a b", "{"])
def test_a_cut_text_of_lvm_is_corrupt_or_ends_where_it_is_cut(text: str) -> None:
    if text in ("a {", "a { b = [ 1,"):
        assert set(lvm.parse_text(text)) == {"a"}
        return
    with pytest.raises(CorruptError):
        lvm.parse_text(text)
