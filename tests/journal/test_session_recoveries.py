"""What stands around a log: its superblock, where it lies, what a recovery leaves behind."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.audit import audit
from ext4kit.evidence import open_evidence
from ext4kit.journal import Log, replay
from ext4kit.journal.location import locate_journal
from ext4kit.journal.post_recovery import PostRecovery, post_recovery_patches
from ext4kit.problems import Severity
from tests.journal.debugfs_session import FIRST, SIZE, Session
from tests.journal.kernel_log import opened, run
from tests.journal.log_writer import LOG_START, MemoryBlocks
from tests.journal.written_fast_commits import register

pytestmark = pytest.mark.heavy


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = Session(tmp_path)
    for name in ("a", "b", "c"):
        made.step(f"mkdir {name}")
    return made


def write(image: Path, offset: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def recovered(session: Session) -> Path:
    """A copy of the image with everything that a recovery writes."""
    fs = opened(session.image)
    log = Log.open(fs)
    assert log is not None
    blocks = replay(log, fs)
    after = post_recovery_patches(fs, blocks)
    assert after.journal == ()
    copy = session.copy("recovered")
    for block in blocks.plan.blocks.tolist():
        write(copy, block * SIZE, bytes(blocks.read(block)))
    for patch in after.volume:
        write(copy, patch.offset, patch.data)
    return copy


def by_e2fsck(session: Session) -> Path:
    copy = session.copy("by e2fsck")
    subprocess.run(["e2fsck", "-E", "journal_only", "-p", copy], capture_output=True, check=False)
    return copy


def journal_superblock(session: Session, image: Path) -> bytes:
    place = int(session.log_blocks[0]) * SIZE
    return image.read_bytes()[place : place + SIZE]


def names(image: Path) -> set[str]:
    """The names in the root, as debugfs lists them."""
    listed = run("debugfs", "-R", "ls -p", image).split()
    return {row.split("/")[5] for row in listed} - {".", ".."}


def test_both_superblocks_are_as_e2fsck_leaves_them(session: Session) -> None:
    session.finish(replayed=1)
    mine, theirs = recovered(session), by_e2fsck(session)
    for image in (mine, theirs):
        assert "needs_recovery" not in run("dumpe2fs", "-h", image)
    ours, other = (journal_superblock(session, image) for image in (mine, theirs))
    assert struct.unpack_from(">II", ours, 0x18) == (FIRST + 4, 0)  # one id is passed over
    assert struct.unpack_from(">I", other, 0x1C)[0] == 0
    checksum = register(0xFFFFFFFF, ours[:0xFC] + bytes(4) + ours[0x100:])
    assert struct.unpack_from(">I", ours, 0xFC)[0] == checksum
    assert subprocess.run(["e2fsck", "-fn", mine], capture_output=True, check=False).returncode in (
        0,
        4,
    )


def state(image: Path) -> int:
    """s_state: 1 valid, 2 errors."""
    return int(struct.unpack_from("<H", image.read_bytes(), 1024 + 0x3A)[0])


def test_a_recovery_that_fails_leaves_a_file_system_that_is_not_valid(session: Session) -> None:
    """A bad copy is left out; the id stays as it is."""
    session.finish(replayed=0)
    log = Log.open(opened(session.image))
    assert log is not None
    place = int(session.log_blocks[int(log.tags.position[0])]) * SIZE
    write(session.image, place + 500, b"\xaa")
    image = recovered(session)
    assert state(image) & 1 == 0
    assert struct.unpack_from(">II", journal_superblock(session, image), 0x18) == (FIRST, 0)


def test_a_bad_commit_block_is_an_error(session: Session) -> None:
    session.finish(replayed=0)
    log = Log.open(opened(session.image))
    assert log is not None
    second = log.transactions[1].commit_index
    assert second is not None
    write(session.image, int(session.log_blocks[second]) * SIZE + 20, b"\xaa")
    image = recovered(session)
    assert state(image) == 3
    # 11 was replayed; 12 is bad: the next id is one behind it
    assert struct.unpack_from(">II", journal_superblock(session, image), 0x18) == (FIRST + 2, 0)


def test_an_error_that_the_journal_recorded_goes_into_the_superblock(session: Session) -> None:
    session.finish(replayed=0)
    place = int(session.log_blocks[0]) * SIZE
    body = bytearray(journal_superblock(session, session.image))
    struct.pack_into(">i", body, 0x20, -5)  # s_errno
    struct.pack_into(">I", body, 0xFC, 0)
    struct.pack_into(">I", body, 0xFC, register(0xFFFFFFFF, bytes(body)))
    write(session.image, place, bytes(body))
    image = recovered(session)
    assert state(image) == 3
    assert journal_superblock(session, image)[0x20:0x24] == bytes(4)


def test_without_a_recovery_nothing_is_left_behind(session: Session) -> None:
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    assert post_recovery_patches(fs, replay(log, fs)) == PostRecovery()


# --- the superblock of the journal ----------------------------------------------------------


@pytest.mark.parametrize(
    ("byte", "mask"),
    [(0x0C, 1), (0x10, 0x80), (0x18, 4), (0x1F, 2), (0x28, 1), (0x2B, 0x40), (0x30, 8), (0x3F, 1),
     (0x50, 2), (0xFC, 1), (0xFF, 0x80), (0x100, 1), (0x3FF, 0x10)],
)  # fmt: skip
def test_one_changed_bit_of_the_superblock_is_named_and_the_log_is_read(
    session: Session, byte: int, mask: int
) -> None:
    session.finish()
    place = int(session.log_blocks[0]) * SIZE + byte
    before = session.image.read_bytes()[place]
    write(session.image, place, bytes([before ^ mask]))
    result = audit(opened(session.image))
    (finding,) = result.findings.kept
    assert finding.code == "superblock-checksum"
    assert (finding.byte_offset, finding.log_block) == (place, 0)
    assert (finding.read, finding.expected) == (
        f"byte 0x{before ^ mask:02x}", f"byte 0x{before:02x}"
    )  # fmt: skip
    assert finding.fs_block == int(session.log_blocks[0])
    assert result.log is not None
    assert [each.id for each in result.log.transactions] == [FIRST, FIRST + 1, FIRST + 2]
    assert not result.is_sound


def test_larger_damage_of_the_superblock_is_told_by_its_checksums(session: Session) -> None:
    session.finish()
    place = int(session.log_blocks[0]) * SIZE
    body = bytearray(journal_superblock(session, session.image))
    body[0x200:0x204] = b"\x11\x22\x33\x44"
    write(session.image, place, bytes(body))
    (finding,) = audit(opened(session.image)).findings.kept
    stored = struct.unpack_from(">I", body, 0xFC)[0]
    struct.pack_into(">I", body, 0xFC, 0)
    computed = register(0xFFFFFFFF, bytes(body))
    assert finding.read == f"checksum 0x{stored:08x}"
    assert finding.expected == f"checksum 0x{computed:08x}"
    assert finding.byte_offset == place


def test_a_superblock_that_no_kernel_would_load_is_refused(session: Session) -> None:
    session.writer.checksums = False
    session.finish()
    place = int(session.log_blocks[0]) * SIZE
    write(session.image, place + 0x28, struct.pack(">I", 0x101))
    (finding,) = audit(opened(session.image)).findings.kept
    assert finding.code == "superblock-refused"
    assert finding.read == "unknown incompatible features 0x100"
    assert (finding.byte_offset, finding.fs_block) == (place, int(session.log_blocks[0]))


# --- where the log lies ---------------------------------------------------------------------


def test_the_log_lies_where_debugfs_says(session: Session) -> None:
    place = locate_journal(session.finish())
    assert place is not None
    assert place.log_blocks.tolist() == session.log_blocks.tolist()
    assert place.superblock_at == 0


def test_a_lost_journal_inode_is_read_from_its_copy_in_the_superblock(session: Session) -> None:
    session.finish()
    run("debugfs", "-w", "-R", "clri <8>", session.image)
    fs = opened(session.image)
    place = locate_journal(fs)
    assert place is not None
    assert place.log_blocks.tolist() == session.log_blocks.tolist()
    (problem,) = (each for each in fs.problems if "copy in the superblock" in each.what)
    assert (problem.where, problem.severity) == ("inode 8", Severity.WARNING)


def no_backup(image: Path) -> None:
    body = bytearray(image.read_bytes()[1024:2048])
    body[0xFD] = 0  # s_jnl_backup_type
    struct.pack_into("<I", body, 1020, register(0xFFFFFFFF, bytes(body[:1020])))
    write(image, 1024, bytes(body))


def test_without_a_copy_there_is_no_log(session: Session) -> None:
    session.finish()
    run("debugfs", "-w", "-R", "clri <8>", session.image)
    no_backup(session.image)
    fs = opened(session.image)
    assert locate_journal(fs) is None
    assert any("no journal superblock" in each.what for each in fs.problems)
    assert Log.open(fs) is None


def test_a_log_whose_first_block_cannot_be_read_is_none(session: Session) -> None:
    session.finish()
    rows = np.frombuffer(session.image.read_bytes(), np.uint8).reshape(-1, SIZE)
    blocks = MemoryBlocks(rows)
    blocks.broken = {int(session.log_blocks[0])}
    fs = opened(session.image).with_blocks(blocks)
    assert locate_journal(fs) is None
    assert any("no journal superblock" in each.what for each in fs.problems)
    blocks.broken = {int(session.log_blocks[1])}
    assert locate_journal(fs) is not None


def test_a_log_with_a_hole_is_read_as_far_as_it_goes(session: Session) -> None:
    session.finish()
    run("debugfs", "-w", "-R", "punch <8> 500 501", session.image)
    no_backup(session.image)
    fs = opened(session.image)
    place = locate_journal(fs)
    assert place is not None
    blocks = session.log_blocks.copy()
    blocks[500:502] = -1
    assert place.log_blocks.tolist() == blocks.tolist()
    assert any("holes" in each.what for each in fs.problems)
    log = Log.open(fs)
    assert log is not None
    assert log.reader.unreadable.sum() == 2
    assert len(log.transactions) == 3


def test_a_file_system_without_a_journal_has_no_place_for_one(tmp_path: Path) -> None:
    image = tmp_path / "image"
    run("mke2fs", "-q", "-F", "-t", "ext2", "-b", "1024", image, "4M")
    fs = opened(image)
    assert locate_journal(fs) is None
    assert list(fs.problems) == []
    assert Log.open(fs) is None


def exported(session: Session, *, uuid: bytes | None = None) -> Path:
    """The content of the journal inode as a file."""
    rows = session.writer.rows[LOG_START:].copy()
    path = session.folder / "journal"
    fs_uuid = session.image.read_bytes()[1024 + 0x68 : 1024 + 0x78]
    rows[0, 0x30:0x40] = np.frombuffer(uuid or fs_uuid, np.uint8)
    path.write_bytes(rows.tobytes())
    return path


@pytest.mark.parametrize("stranger", [False, True])
def test_a_journal_in_a_file_has_to_be_that_of_the_file_system(
    session: Session, stranger: bool
) -> None:
    session.writer.checksums = False
    session.finish()
    path = exported(session, uuid=b"s" * 16 if stranger else None)
    fs = opened(session.image)
    found = locate_journal(fs, open_evidence(path).source)
    assert found is not None
    told = [each.what for each in fs.problems]
    if stranger:
        assert [what.startswith("belongs to another file system") for what in told] == [True]
        assert found.log_blocks.tolist() == session.log_blocks.tolist()
    else:
        assert told == []
        assert found.log_blocks.tolist() == list(range(len(session.log_blocks)))
