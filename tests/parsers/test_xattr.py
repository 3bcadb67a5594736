"""Extended attributes: against debugfs, e2fsck and the kernel."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.errors import AccessError, CorruptError
from ext4kit.filesystem.xattrs import FetchValue, encryption_context, inline_data_tail, read_xattrs
from ext4kit.parsers import xattr
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.xattr import XattrEntry
from ext4kit.problems import Problems
from ext4kit.units import InodeNumber
from tests.parsers.reference import Image, e2fsprogs_case, make_image, mounted

SMALL, LARGE = b"short value", bytes(range(256)) * 2
BLOCK_HEADER = 32


def no_value_inode(number: InodeNumber, size: int) -> bytes:
    raise AssertionError(f"no value has an inode here, asked for {number} ({size} bytes)")


def fetch_from(image: Image) -> FetchValue:
    """Value inodes read by debugfs."""

    def fetch(number: InodeNumber, size: int) -> bytes:
        data = b"".join(image.block(block) for block in image.data_blocks(f"<{number}>"))
        return data[:size]

    return fetch


def attributes_of(image: Image, target: str) -> tuple[dict[bytes, bytes], Problems]:
    problems = Problems()
    found = read_xattrs(
        image.inode_raw(target),
        image.extra_isize(target),
        image.acl_block(target),
        fetch_from(image),
        problems,
        target,
    )
    return found, problems


def entries_of(image: Image, target: str) -> list[XattrEntry]:
    """Strictly parsed entries of body and block."""
    raw, block = image.inode_raw(target), image.acl_block(target)
    found = []
    if xattr.has_body(raw, image.extra_isize(target)):
        first = xattr.body_offset(image.extra_isize(target)) + 4
        found += xattr.parse_entries(raw, first, first, len(raw))
    if block is not None:
        found += xattr.parse_entries(block, BLOCK_HEADER, 0, len(block))
    return found


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """`/file`: attributes in the body and in a block; `/plain`: none; set by debugfs."""
    folder = tmp_path_factory.mktemp("xattr")
    made = make_image(folder, 8, "-b", "1024", "-O", "metadata_csum,^has_journal")
    (folder / "large").write_bytes(LARGE)
    made.debugfs(
        "write /dev/null file",
        "write /dev/null plain",
        f"ea_set -f {folder}/large file user.large",
        'ea_set file user.small "short value"',
        "ea_set file trusted.empty \"\"",
        "ea_set file security.selinux context_t",
        "ea_set file user.héé x",
        write=True,
    )  # fmt: skip
    assert made.check() == 0
    return made


def test_attributes_in_body_and_block_are_those_that_were_set(image: Image) -> None:
    found, problems = attributes_of(image, "/file")
    assert found == {
        b"user.large": LARGE,
        b"user.small": SMALL,
        b"trusted.empty": b"",
        b"security.selinux": b"context_t",
        "user.héé".encode(): b"x",
    }
    assert not problems.total
    assert image.acl_block("/file") is not None, "one value must have gone to a block"
    assert attributes_of(image, "/plain") == ({}, Problems())


def test_names_and_sizes_are_those_that_debugfs_lists(image: Image) -> None:
    listed = re.findall(r"^  (\w+\.\w+) \((\d+)\)", image.debugfs("ea_list /file"), re.MULTILINE)
    found, _ = attributes_of(image, "/file")
    assert len(listed) >= 4
    for name, size in listed:
        assert len(found[name.encode()]) == int(size)


def test_the_block_checksum_holds_and_depends_on_place_and_content(image: Image) -> None:
    number = image.stat("/file", r"File ACL: (\d+)")
    block = image.block(number)
    stored = xattr.parse_block_header(block).checksum
    assert xattr.block_checksum(image.seed, number, block) == stored
    assert xattr.block_checksum(image.seed, number + 1, block) != stored
    assert xattr.block_checksum(image.seed, number, block[:-1] + b"\x5a") != stored


def test_entry_hashes_hold_and_a_changed_value_breaks_them(image: Image) -> None:
    checked = [entry for entry in entries_of(image, "/file") if entry.hash]
    assert checked
    for entry in checked:
        assert xattr.hash_matches(entry) is True
        assert xattr.hash_matches(changed_value(entry)) is False


def changed_value(entry: XattrEntry) -> XattrEntry:
    return XattrEntry(
        entry.name, entry.index, entry.suffix, (entry.value or b"") + b"x", InodeNumber(0),
        entry.value_size + 1, entry.hash,
    )  # fmt: skip


@pytest.mark.parametrize("signed", [True, False])
def test_hashes_of_either_signedness_are_accepted_as_e2fsck_accepts_them(
    tmp_path: Path, signed: bool
) -> None:
    image = make_image(tmp_path, 8, "-b", "1024", "-I", "128", "-O", "^has_journal")
    image.debugfs("write /dev/null file", "ea_set file user.éß value123", write=True)
    number = image.stat("/file", r"File ACL: (\d+)")
    value = struct.unpack("<2I", b"value123")
    computed = xattr.entry_hash("éß".encode(), list(value), signed=signed)
    rewrite_hash(image, number, computed)
    assert image.check() == 0
    (entry,) = entries_of(image, "/file")
    assert entry.hash == computed
    assert xattr.hash_matches(entry) is True
    rewrite_hash(image, number, computed ^ 1)
    assert image.check() != 0
    (entry,) = entries_of(image, "/file")
    assert xattr.hash_matches(entry) is False


def rewrite_hash(image: Image, number: int, value: int) -> None:
    """Give the block's only entry another hash, and the block its checksum."""
    block = bytearray(image.block(number))
    struct.pack_into("<I", block, BLOCK_HEADER + 12, value)
    struct.pack_into("<I", block, 12, value)  # h_hash: of one entry, the entry's
    struct.pack_into("<I", block, 16, xattr.block_checksum(image.seed, number, bytes(block)))
    image.write(number * image.block_size, bytes(block))


def test_hashes_by_unsigned_characters_in_body_block_and_value_inode(tmp_path: Path) -> None:
    image = e2fsprogs_case("f_ea_unsigned_hash", tmp_path)
    (inline,), (block,), (far,) = (
        entries_of(image, target) for target in ("/inline", "/block", "/ea_inode")
    )
    assert (inline.hash, xattr.hash_matches(inline)) == (0, None)
    assert xattr.hash_matches(block) is True
    assert (far.value, xattr.hash_matches(far)) == (None, None)
    value = fetch_from(image)(far.value_inode, far.value_size)
    assert xattr.hash_matches(far, crc32c(image.seed, value)) is True
    assert xattr.hash_matches(far, crc32c(image.seed, value + b"x")) is False


# --- by the kernel --------------------------------------------------------------------------


def set_many(path: Path) -> None:
    """Attributes of every namespace, large ones among them, and access control lists."""
    os.setxattr(path, "user.small", b"value")
    os.setxattr(path, "user.empty", b"")
    os.setxattr(path, "trusted.t", b"\0\xff" * 20)
    os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    os.setxattr(path, b"user.\xe9\xdf\xff", b"not UTF-8")
    for number in range(6):
        os.setxattr(path, f"user.medium{number}", bytes([number]) * (150 + number))
    subprocess.run(["setfacl", "-m", "u:1000:rw,g:5:r,m:rwx", path], check=True)


def shown_by_kernel(path: Path) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.mark.kernel
@pytest.mark.parametrize(
    "options",
    [
        ["-I", "256"],
        ["-I", "128"],
        ["-I", "1024", "-O", "ea_inode"],
        ["-O", "^metadata_csum,ea_inode"],
        ["-O", "inline_data"],
    ],
    ids=" ".join,
)
def test_attributes_are_those_that_the_kernel_shows(tmp_path: Path, options: list[str]) -> None:
    image = make_image(tmp_path, 16, "-b", "4096", *options)
    with mounted(image, tmp_path / "mnt") as root:
        file, directory = root / "file", root / "directory"
        file.write_bytes(b"x" * 100)
        directory.mkdir()
        for path in (file, directory):
            set_many(path)
        subprocess.run(["setfacl", "-d", "-m", "u:7:x", directory], check=True)
        if "ea_inode" in " ".join(options):
            os.setxattr(file, "user.inode", LARGE * 20)
            os.setxattr(file, b"user.inode\xff", LARGE * 60)
        expected = {path.name: shown_by_kernel(path) for path in (file, directory)}
    assert len(expected["file"]) >= 12
    in_inodes = [entry for entry in entries_of(image, "/file") if entry.value_inode]
    assert bool(in_inodes) == ("ea_inode" in " ".join(options))
    for name, shown in expected.items():
        found, problems = attributes_of(image, f"/{name}")
        assert found == shown
        assert not problems.total
        if "^metadata_csum" not in " ".join(options):
            assert_hashes(image, f"/{name}")


def assert_hashes(image: Image, target: str) -> None:
    for entry in entries_of(image, target):
        value = entry.value
        if value is None:
            value = fetch_from(image)(entry.value_inode, entry.value_size)
        assert xattr.hash_matches(entry, crc32c(image.seed, value)) in (
            (None, True) if entry.hash == 0 else (True,)
        )


@pytest.mark.kernel
def test_inline_data_is_not_an_attribute_but_the_tail_of_the_file(tmp_path: Path) -> None:
    content = bytes(range(33, 133))
    image = make_image(tmp_path, 8, "-O", "inline_data")
    with mounted(image, tmp_path / "mnt") as root:
        (root / "long").write_bytes(content)
        (root / "short").write_bytes(content[:50])
        os.setxattr(root / "long", "user.a", b"1")
    for name, tail in (("long", content[60:]), ("short", b"")):
        raw, extra = image.inode_raw(f"/{name}"), image.extra_isize(f"/{name}")
        assert inline_data_tail(raw, extra) == tail
    assert attributes_of(image, "/long") == ({b"user.a": b"1"}, Problems())


SET_POLICY = 0x800C6613  # FS_IOC_SET_ENCRYPTION_POLICY; takes a version 1 policy without a key


@pytest.mark.kernel
def test_the_encryption_context_holds_the_policy_that_was_set(tmp_path: Path) -> None:
    modes, key_name = bytes([1, 4, 3]), b"key name"
    image = make_image(tmp_path, 8, "-b", "4096", "-O", "encrypt")
    with mounted(image, tmp_path / "mnt") as root:
        (root / "secret").mkdir()
        descriptor = os.open(root / "secret", os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SET_POLICY, b"\0" + modes + key_name)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip("needs a kernel with fscrypt")
            raise
        finally:
            os.close(descriptor)
        shown = shown_by_kernel(root / "secret")
    raw, extra = image.inode_raw("/secret"), image.extra_isize("/secret")
    context = encryption_context(raw, extra, image.acl_block("/secret"))
    assert context is not None
    assert context[:12] == b"\1" + modes + key_name
    assert len(context) == 28, "version, modes, flags, key name and a nonce of 16 bytes"
    assert attributes_of(image, "/secret") == (shown, Problems())


# --- made by hand ---------------------------------------------------------------------------

EXTRA = 32
FIRST = 128 + EXTRA + 4


def entry_bytes(
    index: int, suffix: bytes, offset: int, size: int, *, inode: int = 0, hash_: int = 0
) -> bytes:
    head = struct.pack("<BBHIII", len(suffix), index, offset, inode, size, hash_)
    return head + suffix + bytes(-len(suffix) % 4)


def inode_with(*entries: bytes, values: bytes = b"", end_mark: bytes = bytes(4)) -> bytes:
    """An inode of 256 bytes with the entries in its body and the values at its end."""
    head = bytes(128 + EXTRA) + struct.pack("<I", 0xEA020000) + b"".join(entries) + end_mark
    assert len(head) + len(values) <= 256
    return head + bytes(256 - len(head) - len(values)) + values


def block_with(*entries: bytes, values: bytes = b"") -> bytes:
    """An attribute block of 1,024 bytes."""
    head = struct.pack("<IIIII12x", 0xEA020000, 1, 1, 0, 0) + b"".join(entries)
    return head + bytes(1024 - len(head) - len(values)) + values


def read(raw: bytes, block: bytes | None = None) -> tuple[dict[bytes, bytes], list[str]]:
    problems = Problems()
    found = read_xattrs(raw, EXTRA, block, no_value_inode, problems, "inode 12")
    return found, [str(problem) for problem in problems]


BODY_END = 256 - FIRST
GOOD = entry_bytes(1, b"good", BODY_END - 4, 4)


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (entry_bytes(1, b"bad", 200, 4), "value"),  # begins behind the inode
        (entry_bytes(1, b"bad", BODY_END - 4, 5), "value"),  # ends behind it
        (entry_bytes(1, b"bad", 0, 1 << 30), "value"),  # larger than anything
        (entry_bytes(1, b"bad", 0, 1 << 30, inode=13), "value"),
        (entry_bytes(2, b"", BODY_END - 4, 4), "acl"),  # not an access control list
    ],
)
def test_a_broken_attribute_is_a_problem_and_the_others_are_read(broken: bytes, word: str) -> None:
    found, problems = read(inode_with(broken, GOOD, values=b"abcd"))
    assert found.pop(b"user.good") == b"abcd"
    assert b"user.bad" not in found
    assert len(problems) == 1
    assert problems[0].startswith("inode 12: ")
    assert word in problems[0]


FILLS_THE_REST = entry_bytes(1, b"x" * (256 - FIRST - len(GOOD) - 16), 0, 0)


@pytest.mark.parametrize(
    "tail", [b"\xff\x01\0\0", FILLS_THE_REST], ids=["name too long", "no end mark"]
)
def test_a_chain_that_runs_out_keeps_what_came_before(tail: bytes) -> None:
    raw = inode_with(GOOD, end_mark=tail)
    found, problems = read(raw)
    assert found[b"user.good"] == raw[252:]
    assert len(problems) == 1
    assert "from there on" in problems[0]
    with pytest.raises(CorruptError):
        xattr.parse_entries(raw, FIRST, FIRST, 256)


def test_a_value_inode_with_less_than_the_value_is_a_problem() -> None:
    raw = inode_with(entry_bytes(1, b"far", 0, 700, inode=99))
    problems = Problems()
    found = read_xattrs(raw, EXTRA, None, lambda number, size: b"abc", problems, "inode 12")
    assert found == {b"user.far": b"abc"}
    assert "3 of its 700 bytes" in str(list(problems)[0])


def test_a_bad_block_header_leaves_the_body(tmp_path: Path) -> None:
    raw = inode_with(GOOD, values=b"abcd")
    for block in (bytes(1024), block_with()[:20], b"\1" + block_with()[1:]):
        found, problems = read(raw, block)
        assert found == {b"user.good": b"abcd"}
        assert len(problems) == 1
        assert "attribute block" in problems[0]


def test_of_one_name_in_both_places_the_body_counts() -> None:
    block = block_with(entry_bytes(1, b"good", 1020, 4), values=b"wxyz")
    found, problems = read(inode_with(GOOD, values=b"abcd"), block)
    assert found == {b"user.good": b"abcd"}
    assert "twice" in problems[0]


def test_an_unknown_name_index_is_shown_and_told() -> None:
    found, problems = read(inode_with(entry_bytes(77, b"n", BODY_END - 4, 4), values=b"abcd"))
    assert found == {b"index-77.n": b"abcd"}
    assert "no kernel" in problems[0]


def test_a_value_inode_that_cannot_be_read_is_a_problem() -> None:
    def refuse(number: InodeNumber, size: int) -> bytes:
        raise AccessError(f"{number} is gone, {size} bytes")

    raw = inode_with(entry_bytes(1, b"far", 0, 700, inode=99), GOOD, values=b"abcd")
    problems = Problems()
    assert read_xattrs(raw, EXTRA, None, refuse, problems, "inode 12") == {b"user.good": b"abcd"}
    assert [str(problem) for problem in problems] == [
        "inode 12: attribute user.far: inode 99: 99 is gone, 700 bytes"
    ]


def test_the_encryption_context_is_found_in_body_and_block_but_not_listed() -> None:
    context = bytes(range(40))
    raw = inode_with(entry_bytes(9, b"c", BODY_END - 40, 40), values=context)
    assert read(raw) == ({}, [])
    assert encryption_context(raw, EXTRA, None) == context
    block = block_with(entry_bytes(9, b"c", 1024 - 40, 40), values=context)
    assert encryption_context(inode_with(GOOD, values=b"abcd"), EXTRA, block) == context
    assert encryption_context(inode_with(GOOD, values=b"abcd"), EXTRA, None) is None


def test_an_inode_without_room_for_a_body_has_none() -> None:
    assert read_xattrs(bytes(128), 0, None, no_value_inode, Problems(), "") == {}
    assert read_xattrs(bytes(256), 65535, None, no_value_inode, Problems(), "") == {}
    assert inline_data_tail(bytes(128), 0) == b""


def test_a_broken_inline_tail_is_corrupt() -> None:
    with pytest.raises(CorruptError):
        inline_data_tail(inode_with(entry_bytes(7, b"data", 200, 8)), EXTRA)


@given(st.binary(max_size=92), st.binary(max_size=120))
def test_any_bytes_give_attributes_or_problems(body: bytes, block: bytes) -> None:
    raw = bytes(128 + EXTRA) + struct.pack("<I", 0xEA020000) + body
    problems = Problems()
    found = read_xattrs(
        raw, EXTRA, block_with()[:32] + block, lambda number, size: b"", problems, "inode 12"
    )
    assert all(len(value) <= 500 for value in found.values())
