"""Damaged logs: what e2fsck makes of them, and a clear word where nobody can use them.

Nothing here is mounted: the kernel need not like it.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ext4kit.journal import Log
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.journal import BlockType
from sample_images.recipes import machine
from tests.journal.crashes import TIMES, Crash, Setup, crash, differences, kernel_tree, recovered
from tests.journal.kernel_log import opened
from tests.journal.replaying import called, replayed
from tests.journal.test_replayed_copies import EXT4, JOURNALED, NO_CHECKSUMS

pytestmark = pytest.mark.kernel

SETUPS = (
    Setup("v3", f"{EXT4} -b 4096 -J size=4"),
    Setup("v1", f"{NO_CHECKSUMS} -b 1024 -J size=2", "data=ordered,journal_checksum"),
    Setup("v1-async", f"{NO_CHECKSUMS} -b 4096 -J size=4", "data=writeback,journal_async_commit"),
    Setup("none", f"{NO_CHECKSUMS} -b 2048 -J size=4", JOURNALED),
)
KINDS = {"descriptor": BlockType.DESCRIPTOR, "commit": BlockType.COMMIT, "revoke": BlockType.REVOKE}


@pytest.fixture(scope="module", params=SETUPS, ids=lambda setup: setup.name)
def cut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crash:
    return crash(request.param, tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Crash:
    """A log without checksums, so that what is changed in it is taken at its word."""
    return crash(SETUPS[3], tmp_path_factory.mktemp("plain"))


def log_of(image: Path) -> Log:
    log = Log.open(opened(image))
    assert log is not None
    return log


def copied(image: Path, target: Path) -> Path:
    machine.copy_sparse(image, target)
    return target


def write(image: Path, offset: int, data: bytes | bytearray) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def spoil(image: Path, position: int, at: int = 600) -> None:
    """Change a few bytes of a log block."""
    log = log_of(image)
    place = int(log.reader.log_blocks[position]) * log.home.block_size + at
    with image.open("r+b") as file:
        file.seek(place)
        before = file.read(4)
        file.seek(place)
        file.write(bytes(byte ^ 0x5A for byte in before))


def due(log: Log, kind: BlockType) -> list[int]:
    """Positions of the metadata blocks of one kind that a recovery would use."""
    rows = log.walk.headers
    return [int(p) for p in log.headers.position[rows[log.headers.kind[rows] == kind]]]


def same_as_e2fsck(image: Path, folder: Path) -> int:
    """The exit code of writing a copy, which is e2fsck's byte for byte."""
    ours = folder / "ours.img"
    done = replayed(image, ours)
    theirs, _ = recovered(image, None, folder)
    assert differences(ours, theirs, TIMES) == []
    return done.exit_code


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_metadata_block_stops_what_it_stops_for_e2fsck(
    cut: Crash, tmp_path: Path, kind: str
) -> None:
    image = copied(cut.image, tmp_path / "bad.img")
    places = due(log_of(image), KINDS[kind])
    if not places:
        pytest.skip("the log has none of these to replay")
    spoil(image, places[len(places) // 2], 16 if kind == "commit" else 600)
    code = same_as_e2fsck(image, tmp_path)
    if cut.setup.name != "none":
        unseen = cut.setup.name != "v3" and kind == "revoke"  # checksum v1 leaves revokes out
        assert code == (0 if unseen else 1)


@pytest.mark.parametrize(("kind", "name"), [(2, "md5"), (3, "sha1"), (9, "unknown")])
def test_a_checksum_v1_that_is_no_crc32_is_told_and_not_believed(
    tmp_path: Path, kind: int, name: str
) -> None:
    made = crash(SETUPS[1], tmp_path)
    log = log_of(made.image)
    places = due(log, BlockType.COMMIT)
    block = int(log.reader.log_blocks[places[len(places) // 2]])
    write(made.image, block * log.home.block_size + 12, bytes([kind]))
    assert same_as_e2fsck(made.image, tmp_path) == 1
    assert f"of type {kind} ({name})" in called("ls", made.image, "/").stderr


@pytest.mark.parametrize("number", [1, 2])
def test_with_async_commit_the_last_commit_may_have_been_cut_short(
    tmp_path: Path, number: int
) -> None:
    """A bad commit block at the end is no damage; with another one behind it it is."""
    made = crash(SETUPS[2], tmp_path)
    place = due(log_of(made.image), BlockType.COMMIT)[-number]
    spoil(made.image, place, 16)
    assert same_as_e2fsck(made.image, tmp_path) == number - 1
    assert "replayed" in called("ls", made.image, "/").stderr


def test_a_bad_copy_is_left_out_as_e2fsck_leaves_it_out(cut: Crash, tmp_path: Path) -> None:
    image = copied(cut.image, tmp_path / "bad.img")
    log = log_of(image)
    mine = np.isin(log.tags.descriptor, due(log, BlockType.DESCRIPTOR))
    spoil(image, int(log.tags.position[mine][-1]))
    code = same_as_e2fsck(image, tmp_path)
    # With async commit the last transaction may just have been cut short: a warning.
    assert code == (0 if cut.setup.name in ("none", "v1-async") else 1)


def test_a_commit_block_written_in_part_still_counts_as_it_does_for_the_kernel(
    tmp_path: Path,
) -> None:
    made = crash(SETUPS[0], tmp_path)
    places = due(log_of(made.image), BlockType.COMMIT)
    spoil(made.image, places[len(places) // 2], 1024)
    ours = tmp_path / "ours.img"
    assert replayed(made.image, ours).exit_code == 0
    kernels = copied(made.image, tmp_path / "kernels.img")
    try:
        expected = kernel_tree(kernels, "noatime")
    except machine.MachineError as error:  # before `jbd2_commit_block_csum_verify_partial`
        pytest.skip(f"this kernel recovers no such journal ({error})")
    assert kernel_tree(ours, "ro,noload") == expected


def test_an_error_that_the_journal_recorded_is_handed_on(plain: Crash, tmp_path: Path) -> None:
    image = copied(plain.image, tmp_path / "bad.img")
    change_superblock(image, {0x20: 0xFFFFFFFB})  # s_errno: -5
    assert same_as_e2fsck(image, tmp_path) == 0
    said = machine.run("dumpe2fs", "-h", tmp_path / "ours.img").decode()
    assert "clean with errors" in said


def change_superblock(image: Path, words: dict[int, int]) -> None:
    """Set big-endian words of the journal superblock; its checksum, where it has one, fits."""
    log = log_of(image)
    place = log.superblock_block * log.home.block_size
    body = bytearray(image.read_bytes()[place : place + 1024])
    for offset, value in words.items():
        struct.pack_into(">I", body, offset, value)
    if log.features.has_block_checksums:
        struct.pack_into(">I", body, 0xFC, 0)
        struct.pack_into(">I", body, 0xFC, crc32c(ONES, body))
    write(image, place, body)


UNUSABLE = {
    "magic": ({0: 0x12345678}, "no journal superblock"),
    "type": ({4: 9}, "block type 9"),
    "block size": ({12: 512}, "block size 512"),
    "block size 0": ({12: 0}, "block size 0"),
    "longer than the log": ({16: 1 << 20}, "1,048,576 blocks"),
    "endless": ({16: 0xFFFFFFFF}, "4,294,967,295 blocks"),
    "shorter than nothing": ({16: 0}, "length 0 blocks"),
    "first 0": ({20: 0}, "first log block 0"),
    "first behind the end": ({20: 0x7FFFFFFF}, "first log block 2,147,483,647"),
    "start behind the end": ({28: 0x7FFFFFFF}, "start at log block 2,147,483,647"),
    "unknown feature": ({40: 0x1000}, "unknown incompatible features 0x1000"),
    "unknown read-only feature": ({44: 4}, "unknown features 0x4"),
    "v2 and v3": ({40: 0x18}, "v2 and v3"),
    "v1 and v3": ({36: 1, 40: 0x10}, "v1 together"),
    "unknown checksum": ({40: 0x10, 0x50: 0x09000000}, "checksum type 9"),
}

KERNELS_RULE = ("shorter than nothing", "first 0", "first behind the end", "start behind the end")


@pytest.mark.parametrize("name", UNUSABLE)
def test_e2fsck_refuses_the_same_journal_superblocks(
    plain: Crash, tmp_path: Path, name: str
) -> None:
    if name in KERNELS_RULE:
        pytest.skip("e2fsck does not look at it before it reads the log; the kernel does")
    image = copied(plain.image, tmp_path / "bad.img")
    change_superblock(image, UNUSABLE[name][0])
    done = subprocess.run(["e2fsck", "-n", image], capture_output=True, text=True, check=False)
    assert "ournal superblock" in done.stdout + done.stderr
    assert done.returncode == 12


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_journal_superblock_is_told_and_the_rest_is_read(
    plain: Crash, tmp_path: Path, name: str
) -> None:
    words, said = UNUSABLE[name]
    image, copy = copied(plain.image, tmp_path / "bad.img"), tmp_path / "copy.img"
    change_superblock(image, words)
    listed = called("ls", image, "/")
    assert listed.exit_code == 1
    assert "lost+found" in listed.stdout
    assert said in listed.stderr
    done = replayed(image, copy, "--json")
    assert done.exit_code == 1
    assert any(said in record["what"] for record in done.records("problem"))
    assert not copy.exists()
    assert called("info", image).exit_code in (0, 1)


def test_a_bad_checksum_of_the_journal_superblock_is_told(tmp_path: Path) -> None:
    made = crash(SETUPS[0], tmp_path)
    log = log_of(made.image)
    write(made.image, log.superblock_block * 4096 + 24, b"\x77")  # s_sequence
    listed = called("ls", made.image, "/")
    assert listed.exit_code == 1
    assert "bad checksum of the journal superblock" in listed.stderr
    assert "lost+found" in listed.stdout


MAPS: dict[str, Callable[[bytearray], None]] = {}


def a_map(name: str) -> Callable[[Callable[[bytearray], None]], Callable[[bytearray], None]]:
    def keep(change: Callable[[bytearray], None]) -> Callable[[bytearray], None]:
        MAPS[name] = change
        return change

    return keep


@a_map("all zeros")
def _(inode: bytearray) -> None:
    inode[:] = bytes(len(inode))


@a_map("an extent that leads outside")
def _(inode: bytearray) -> None:
    struct.pack_into("<HI", inode, 0x28 + 12 + 6, 0, 0x7FFFFFFF)


@a_map("an extent of nothing")
def _(inode: bytearray) -> None:
    struct.pack_into("<H", inode, 0x28 + 12 + 4, 0)


@a_map("an extent that starts later: a hole at the beginning")
def _(inode: bytearray) -> None:
    struct.pack_into("<I", inode, 0x28 + 12, 5)


@a_map("a tree that leads to itself")
def _(inode: bytearray) -> None:
    table = struct.unpack_from("<I", inode, 0x28 + 12 + 8)[0]
    struct.pack_into("<HHHHI", inode, 0x28, 0xF30A, 1, 4, 5, 0)
    struct.pack_into("<IIHH", inode, 0x28 + 12, 0, table, 0, 0)


@a_map("the same blocks twice")
def _(inode: bytearray) -> None:
    first, _, high, low = struct.unpack_from("<IHHI", inode, 0x28 + 12)
    struct.pack_into("<HHHHI", inode, 0x28, 0xF30A, 2, 4, 0, 0)
    struct.pack_into("<IHHI", inode, 0x28 + 12, first, 512, high, low)
    struct.pack_into("<IHHI", inode, 0x28 + 24, 512, 512, high, low)


@a_map("no size")
def _(inode: bytearray) -> None:
    struct.pack_into("<I", inode, 4, 0)


@a_map("an endless size")
def _(inode: bytearray) -> None:
    struct.pack_into("<I", inode, 4, 0xFFFFF000)
    struct.pack_into("<I", inode, 0x6C, 0x7FFFFFFF)


@pytest.mark.parametrize("backup", [True, False], ids=["with the copy", "without"])
@pytest.mark.parametrize("name", MAPS)
def test_a_damaged_journal_inode_costs_no_more_than_the_log(
    plain: Crash, tmp_path: Path, name: str, backup: bool
) -> None:
    image, copy = copied(plain.image, tmp_path / "bad.img"), tmp_path / "copy.img"
    place = inode_place(image, 8, 2048)
    body = bytearray(image.read_bytes()[place : place + 128])
    MAPS[name](body)
    write(image, place, body)
    if not backup:
        write(image, 1024 + 0xFD, b"\0")  # s_jnl_backup_type
    listed = called("ls", image, "/")
    assert "lost+found" in listed.stdout
    assert "journal" in listed.stderr
    done = replayed(image, copy)
    if backup:
        whole = tmp_path / "whole.img"
        replayed(plain.image, whole)
        ours = {offset for offset, _ in differences(copy, whole)}
        table = range(place // 2048 * 2048, place // 2048 * 2048 + 2048)
        assert ours <= {*table, 1024 + 0xFD}
    else:
        assert done.exit_code == 1
        assert listed.exit_code == 1


def inode_place(image: Path, number: int, block_size: int) -> int:
    said = machine.run("debugfs", "-R", f"imap <{number}>", image).decode()
    block = int(said.split("located at block ")[1].split(",")[0])
    offset = int(said.split("offset ")[1].split()[0], 16)
    return block * block_size + offset


def test_random_damage_never_ends_in_an_unexpected_error(cut: Crash, tmp_path: Path) -> None:
    numbers = np.random.default_rng(7)
    log = log_of(cut.image)
    size, place = log.home.block_size, log.superblock_block
    starts = [place * size] * 3 + [1024 + 0xD0, inode_place(cut.image, 8, size)]
    starts += [int(log.reader.log_blocks[p]) * size for p in log.headers.position[:20].tolist()]
    for trial in range(15):
        image, copy = copied(cut.image, tmp_path / "bad.img"), tmp_path / f"{trial}.img"
        for _ in range(3):
            start = starts[int(numbers.integers(len(starts)))]
            write(image, start + int(numbers.integers(100)), numbers.bytes(2))
        assert called("ls", image, "/").exit_code in (0, 1, 3)
        assert replayed(image, copy).exit_code in (0, 1, 2, 3)
        copy.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_damage_to_the_log_is_recovered_as_e2fsck_does(
    cut: Crash, tmp_path: Path, seed: int
) -> None:
    """Two or three changed bytes in what a recovery reads; e2fsck says what comes of it."""
    numbers = np.random.default_rng(seed)
    log = log_of(cut.image)
    headers = log.headers.position[log.walk.headers]
    copies = log.tags.position[np.isin(log.tags.descriptor, headers)]
    for trial in range(60):
        folder = tmp_path / str(trial)
        folder.mkdir()
        image = copied(cut.image, folder / "bad.img")
        for _ in range(int(numbers.integers(1, 4))):
            places, end = (headers, 64) if numbers.integers(3) else (copies, log.home.block_size)
            block = int(log.reader.log_blocks[int(numbers.choice(places))])
            at = block * log.home.block_size + int(numbers.integers(end))
            write(image, at, numbers.bytes(1))
        said = called("ls", image, "/").stderr
        if "outside the file system" not in said:  # there e2fsck writes behind the image's end
            same_as_e2fsck(image, folder)
        for path in folder.iterdir():
            path.unlink()
