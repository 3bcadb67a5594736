"""Replay, versions and contents of a log whose transactions are steps of debugfs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import RequestError
from ext4kit.journal import BlockHistory, Log, ReplayedBlocks, inode_versions, replay
from ext4kit.journal.block_types import BlockRole, Touched, classify_copies
from ext4kit.journal.versions import (
    FieldChange,
    block_versions,
    diff_versions,
    inode_reader,
    reader_for_block,
)
from tests.journal.debugfs_session import FIRST, NOW, SECONDS, SIZE, Session, content, tree
from tests.journal.kernel_log import opened

pytestmark = pytest.mark.heavy

ONE, TWO = content("one", 3), content("two", 5)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = Session(tmp_path)
    one, two = made.file("1", ONE), made.file("2", TWO)
    made.step(f"write {one} first", "mkdir dir")
    made.step(f"write {two} dir/second", "mkdir dir/deep")
    made.step("rm first", "mknod pipe p", "ea_set dir/second user.large " + "v" * 300)
    made.step("rm dir/second", "symlink dir/link there")
    return made


def log_of(session: Session, replayed: int | None = None) -> Log:
    log = Log.open(session.finish(replayed=replayed))
    assert log is not None
    return log


# --- replay ---------------------------------------------------------------------------------


@pytest.mark.parametrize("replayed", [0, 1, 2, 3])
def test_a_replay_gives_every_block_its_newest_copy(session: Session, replayed: int) -> None:
    fs = session.finish(replayed=replayed)
    log = Log.open(fs)
    assert log is not None
    blocks = replay(log, fs)
    newest = np.frombuffer(session.states[-1], np.uint8).reshape(-1, SIZE)
    on_disk = np.frombuffer(session.image.read_bytes(), np.uint8).reshape(-1, SIZE)
    logged = set(log.tags.block[log.tags.order >= FIRST + replayed].tolist())
    assert set(blocks.plan.blocks.tolist()) == logged
    rows = blocks.read_many(np.arange(len(newest)))
    for block in range(len(newest)):
        expected = newest if block in logged else on_disk
        assert rows[block].tobytes() == expected[block].tobytes(), block
    assert tree(fs.with_blocks(blocks)) == tree(opened(session.state(4)))
    assert [each.to_replay for each in log.transactions] == [n >= replayed for n in range(4)]
    assert [str(problem) for problem in fs.problems] == []


def test_blocks_in_one_read_come_from_log_and_disk(session: Session) -> None:
    fs = session.finish(replayed=2)
    log = Log.open(fs)
    assert log is not None
    blocks = replay(log, fs)
    first, count = int(blocks.plan.blocks[0]) - 1, 6
    got = blocks.read(first, count)
    assert len(got) == count * SIZE
    assert got.readonly
    for step in range(count):
        one = blocks.read_many(np.array([first + step]))[0]
        assert bytes(got[step * SIZE : (step + 1) * SIZE]) == one.tobytes()
    assert blocks.before_fast_commits.plan is blocks.plan
    assert isinstance(blocks, ReplayedBlocks)
    assert blocks.copies_of(np.array([0, 4095])).tolist() == [-1, -1]


def test_a_revoked_copy_is_not_replayed(tmp_path: Path) -> None:
    made = Session(tmp_path)
    made.step("mkdir dir")
    (block,) = made.blocks("/dir")
    made.step("rmdir dir", revokes=(block, 4000))
    log = log_of(made, replayed=0)
    blocks = replay(log)
    assert block not in blocks.plan.blocks.tolist()
    assert blocks.plan.revoked == 1
    assert log.revokes.block.tolist() == [block, 4000]
    assert log.revokes.order.tolist() == [FIRST + 1] * 2
    assert log.transactions[1].revokes == 2
    assert [each.revoke_blocks for each in log.transactions] == [0, 1]


def test_what_e2fsck_replays_is_the_same(session: Session) -> None:
    fs = session.finish(replayed=1)
    log = Log.open(fs)
    assert log is not None
    blocks = replay(log, fs)
    subprocess.run(
        ["e2fsck", "-E", "journal_only", "-y", session.image], capture_output=True, check=False
    )
    after = np.frombuffer(session.image.read_bytes(), np.uint8).reshape(-1, SIZE)
    rows = blocks.read_many(blocks.plan.blocks)
    assert len(rows) > 5
    assert [row.tobytes() for row in after[blocks.plan.blocks]] == [row.tobytes() for row in rows]


# --- versions -------------------------------------------------------------------------------


def test_versions_of_a_block_are_its_copies_and_the_disk(session: Session) -> None:
    (block,) = session.blocks("/dir")
    log = log_of(session)
    fs = opened(session.image)
    versions = list(block_versions(fs, log, block))
    with_copy = [1, 2, 4]  # transaction 13 leaves the directory as it is
    assert [one.transaction for one in versions] == [*(FIRST - 1 + n for n in with_copy), None]
    rows = [np.frombuffer(session.states[n], np.uint8).reshape(-1, SIZE) for n in with_copy]
    assert [one.data for one in versions[:-1]] == [state[block].tobytes() for state in rows]
    assert versions[-1].data == versions[-2].data
    assert [one.commit_time_ns for one in versions] == [
        *((NOW + SECONDS * (n - 1) + 5) * 10**9 + 5 for n in with_copy), None
    ]  # fmt: skip
    assert [one.is_committed for one in versions] == [True, True, True, None]
    image = session.image.read_bytes()
    for one in versions:
        assert image[one.offset : one.offset + SIZE] == one.data
    assert versions[-1].log_block is None
    assert versions[-1].offset == block * SIZE
    part = versions[0].slice(12, 20)
    assert (part.data, part.offset) == (versions[0].data[12:32], versions[0].offset + 12)
    assert (part.transaction, part.log_block) == (FIRST, versions[0].log_block)
    log.reader.chunk = 1
    assert list(block_versions(fs, log, block)) == versions


@pytest.mark.parametrize("block", [-1, 4096])
def test_there_is_no_version_of_a_block_outside(session: Session, block: int) -> None:
    log = log_of(session)
    with pytest.raises(RequestError, match="blocks 0 to 4,095"):
        list(block_versions(opened(session.image), log, block))


def test_a_replay_in_front_is_passed_by(session: Session) -> None:
    fs = session.finish(replayed=1)
    log = Log.open(fs)
    assert log is not None
    (block,) = session.blocks("/dir")
    versions = list(block_versions(fs.with_blocks(replay(log, fs)), log, block))
    state = np.frombuffer(session.states[1], np.uint8).reshape(-1, SIZE)
    assert versions[-1].data == state[block].tobytes()


def changes_of(session: Session, block: int) -> list[tuple[int | None, str, list[FieldChange]]]:
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    found = diff_versions(block_versions(fs, log, block), reader_for_block(fs, block))
    return [(one.version.transaction, one.kind, one.changes) for one in found]


def test_entries_that_come_and_go_are_changes(session: Session) -> None:
    (block,) = session.blocks("/dir")
    second, deep, link = (session.number(path, state) for path, state in
                          (("/dir/second", 2), ("/dir/deep", 2), ("/dir/link", 4)))  # fmt: skip
    rows = changes_of(session, block)
    assert {kind for _, kind, _ in rows} == {"directory block"}
    changes = {number: {(one.what, one.which, one.before, one.after) for one in found}
               for number, _, found in rows}  # fmt: skip
    own = session.number("/dir")
    assert changes[FIRST] == {
        ("entry", b".", None, (own, "directory")), ("entry", b"..", None, (2, "directory"))
    }  # fmt: skip
    assert changes[FIRST + 1] == {
        ("entry", b"second", None, (second, "file")), ("entry", b"deep", None, (deep, "directory"))
    }  # fmt: skip
    assert changes[FIRST + 3] == {
        ("entry", b"second", (second, "file"), None), ("entry", b"link", None, (link, "symlink"))
    }  # fmt: skip
    assert changes[None] == set()


def test_inodes_of_a_table_block_change_field_by_field(session: Session) -> None:
    number = session.number("/first", 1)
    block, _ = session.table_block(number)
    rows = changes_of(session, block)
    first = (number - 1) // 4 * 4 + 1
    assert {kind for _, kind, _ in rows} == {f"inodes {first} to {first + 3}"}
    changed = next(found for transaction, _, found in rows if transaction == FIRST + 2)
    fields = {one.what: (one.before, one.after) for one in changed if one.inode == number}
    assert fields["mode"] == (0o100644, 0o010000)  # the pipe has the number of the removed file
    assert fields["size"] == (len(ONE), 0)
    assert all(one.inode is not None for _, _, found in rows[1:] for one in found)


def test_one_inode_is_read_by_its_number(session: Session) -> None:
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    number = session.number("/dir/second", 2)
    block, offset = session.table_block(number)
    versions = (one.slice(offset, 256) for one in block_versions(fs, log, block))
    found = list(diff_versions(versions, lambda _: inode_reader(fs, number)))
    made = next(one for one in found if one.version.transaction == FIRST + 1)
    facts = {(one.what, one.which): one.after for one in made.changes}
    assert facts[("size", None)] == len(TWO)
    mode = facts[("mode", None)]
    assert isinstance(mode, int) and mode & 0o170000 == 0o100000
    blocks = session.blocks("/dir/second", 2)
    assert facts[("extent", 0)] == (5, blocks[0], False)


def test_bits_of_bitmaps_are_named_as_blocks_and_inodes(session: Session) -> None:
    fs = session.finish()
    bitmap, inodes = (int(one[0]) for one in (fs.groups.block_bitmap, fs.groups.inode_bitmap))
    gone = session.blocks("/first", 2)
    rows = changes_of(session, bitmap)
    assert {kind for _, kind, _ in rows} == {"block bitmap of group 0"}
    third = next(found for number, _, found in rows if number == FIRST + 2)
    freed = {block for one in third
             if isinstance(one.which, tuple) and (one.before, one.after) == (1, 0)
             for block in range(one.which[0], one.which[1] + 1)}  # fmt: skip
    assert freed <= set(gone)
    assert freed
    number = session.number("/first", 1)
    second = session.number("/dir/second", 2)
    rows = changes_of(session, inodes)
    assert {kind for _, kind, _ in rows} == {"inode bitmap of group 0"}
    spans = [(one.what, one.which, one.before, one.after) for one in rows[1][2]]
    assert spans == [("inode", (second, second + 1), 0, 1)]
    assert number == 12


def test_group_descriptors_and_superblock_are_read_field_by_field(tmp_path: Path) -> None:
    made = Session(tmp_path, logs_superblock=True)
    made.step("mkdir a")
    made.step("mkdir b")
    rows = changes_of(made, 2)
    assert {kind for _, kind, _ in rows} == {"group descriptors from group 0 on"}
    facts = {(one.what, one.which): (one.before, one.after) for one in rows[1][2]}
    before, after = facts[("free_inodes_count", 0)]
    assert isinstance(before, int) and before - 1 == after
    assert facts[("used_dirs_count", 0)] == (3, 4)
    rows = changes_of(made, 1)
    assert {kind for _, kind, _ in rows} == {"superblock"}
    facts = {(one.what, one.which): (one.before, one.after) for one in rows[1][2]}
    before, after = facts[("free_blocks_count", None)]
    assert isinstance(before, int) and before - 1 == after


def test_a_block_that_becomes_another_thing_changes_its_kind(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", content("big", 20))
    made.step("mkdir dir")
    (block,) = made.blocks("/dir")
    made.step("rmdir dir", f"write {one} file")
    made.step("mkdir other")
    fs = made.finish()
    log = Log.open(fs)
    assert log is not None
    rows = list(diff_versions(block_versions(fs, log, block), reader_for_block(fs, block)))
    assert [row.kind for row in rows] == ["directory block", "other content"]
    assert rows[-1].changes == [FieldChange("kind", None, "directory block", "other content")]
    assert [row.is_first for row in rows] == [True, False]
    assert [row.is_changed for row in rows] == [False, True]


def test_extent_blocks_and_attribute_blocks_are_known_by_their_magic(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", content("big", 20))
    holes = [f"punch file {n} {n}" for n in range(1, 11, 2)]
    made.step(f"write {one} file", *holes, "ea_set file user.large " + "v" * 300)
    made.step("punch file 13 13", "ea_set file user.large " + "w" * 300)
    node, attributes = made.tree_block("file"), made.attribute_block("file")
    blocks = made.blocks("/file", 1)
    rows = changes_of(made, node)
    assert {kind for _, kind, _ in rows} == {"extent tree block"}
    extents = {one.which: one.after for one in rows[0][2] if one.what == "extent"}
    assert extents[0] == (1, blocks[0], False)
    assert len(extents) == 6
    lengths = [[value[0] if isinstance(value, tuple) else None for value in (one.before, one.after)]
               for one in rows[1][2]]  # fmt: skip
    changed = {(one.which, *each) for one, each in zip(rows[1][2], lengths, strict=True)}
    assert changed == {(10, 10, 3), (14, None, 6)}
    rows = changes_of(made, attributes)
    assert {kind for _, kind, _ in rows} == {"attribute block"}
    assert [(one.what, one.which, one.before, one.after) for one in rows[1][2]] == [
        ("attribute", b"user.large", b"v" * 300, b"w" * 300)
    ]


# --- inodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_versions_of_inodes_are_their_states(session: Session, chunk: int) -> None:
    log = log_of(session)
    log.reader.chunk = chunk
    found = inode_versions(opened(session.image), BlockHistory(log))
    states: dict[int, list[tuple[int, bytes]]] = {}
    for number, order, row in zip(
        found.number.tolist(), found.order.tolist(), found.rows, strict=True
    ):
        states.setdefault(number, []).append((order, row.tobytes()))
    table = session.table_block(1)[0]
    expected: dict[int, list[tuple[int, bytes]]] = {}
    for step in range(1, 5):
        logged = set(log.tags.block[log.tags.order == FIRST + step - 1].tolist())
        for number in range(1, 65):  # four to a block, one block behind the other
            at = table * SIZE + (number - 1) * 256
            raw = session.states[step][at : at + 256]
            last = expected.get(number, [(0, bytes(256))])[-1][1]
            if at // SIZE in logged and raw != last:
                expected.setdefault(number, []).append((FIRST + step - 1, raw))
    assert states == expected


# --- contents -------------------------------------------------------------------------------


def named(found: Touched) -> dict[tuple[int, int], tuple[BlockRole, int]]:
    """(transaction, block) -> what it is, and its number."""
    columns = (found.order, found.block, found.kind, found.number)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(order, block): (BlockRole(kind), number) for order, block, kind, number in rows}


def test_every_copy_is_named_after_what_it_was(session: Session) -> None:
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    found = classify_copies(fs, log)
    kinds = named(found)
    bitmap, inodes = int(fs.groups.block_bitmap[0]), int(fs.groups.inode_bitmap[0])
    root, table = session.blocks("/")[0], session.table_block(1)[0]
    (directory,) = session.blocks("/dir")
    number = session.number("/dir")
    for step in range(4):
        assert kinds[FIRST + step, 2] == (BlockRole.DESCRIPTORS, -1)
    assert kinds[FIRST, inodes] == (BlockRole.INODE_BITMAP, 0)
    assert kinds[FIRST, bitmap] == (BlockRole.BLOCK_BITMAP, 0)
    assert kinds[FIRST, root] == (BlockRole.DIRECTORY, 2)
    assert kinds[FIRST, directory] == (BlockRole.DIRECTORY, number)
    assert kinds[FIRST, table] == (BlockRole.INODES, 1)
    assert kinds[FIRST, table + 2] == (BlockRole.INODES, 9)
    owner = session.number("/dir/second", 2)
    attributes = session.attribute_block("/dir/second", 3)
    assert kinds[FIRST + 2, attributes] == (BlockRole.XATTR, owner)
    rows = found.of(FIRST + 2)
    assert set(found.order[rows].tolist()) == {FIRST + 2}
    assert len(rows) == np.count_nonzero(found.order == FIRST + 2)
    keys = list(zip(found.kind[rows].tolist(), found.number[rows].tolist(), strict=True))
    assert keys == sorted(keys)


def test_contents_of_files_in_the_log_are_data_of_their_inode(tmp_path: Path) -> None:
    made = Session(tmp_path, journaled=True)
    one, two = made.file("1", ONE), made.file("2", content("big", 20))
    made.step(f"write {one} first", "mkdir dir")
    blocks = made.blocks("/first")
    made.step(
        "rm first", f"write {two} second", *(f"punch second {n} {n}" for n in range(1, 11, 2))
    )
    fs = made.finish()
    log = Log.open(fs)
    assert log is not None
    found = classify_copies(fs, log)
    kinds = named(found)
    first, second = made.number("/first", 1), made.number("/second")
    for block in blocks:
        assert kinds[FIRST, block] == (BlockRole.FILE_DATA, first)
    of_second = [block for block in made.blocks("/second") if (FIRST + 1, block) in kinds]
    assert {kinds[FIRST + 1, block] for block in of_second} == {(BlockRole.FILE_DATA, second)}
    assert kinds[FIRST + 1, made.tree_block("second")] == (BlockRole.MAP_NODE, second)
