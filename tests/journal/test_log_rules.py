"""What the log says of laps, wraps, damage and ownership, on logs written by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.journal import BlockHistory, CopiesAsOf, Log, inode_versions, replay
from ext4kit.journal.epochs import Epoch, Epochs
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, LogWriter, MemoryBlocks

MAGIC_BYTES = bytes.fromhex("c03b3998")
BOTH = pytest.mark.parametrize("checksums", [True, False])


def valid_copies(log: Log) -> list[tuple[int, int]]:
    tags = log.tags
    return sorted(
        zip(tags.block[tags.valid].tolist(), tags.order[tags.valid].tolist(), strict=True)
    )


def first_bytes(rows: Any, count: int = 3) -> list[bytes]:
    return [row[:count].tobytes() for row in rows]


@BOTH
def test_a_transaction_goes_round_the_end_of_the_ring(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.head = 29
    writer.transaction(7, *((block, b"%03d" % block) for block in range(20, 26)))
    log = writer.log(8)
    (transaction,) = log.transactions
    assert (transaction.start, transaction.commit_index) == (29, 5)
    assert transaction.blocks == 6
    assert log.tags.position.tolist() == [30, 31, 1, 2, 3, 4]
    assert first_bytes(log.read_copies(np.arange(6))) == [b"%03d" % n for n in range(20, 26)]
    assert log.tags.valid.all()


@BOTH
def test_ids_that_wrap_at_32_bits_stay_in_order(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    ids = [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    for number in ids:
        writer.transaction(number, (50, b"%08x" % number))
    log = writer.log(2)
    assert [transaction.id for transaction in log.transactions] == ids
    orders = [transaction.order for transaction in log.transactions]
    assert np.diff(orders).tolist() == [1, 1, 1]
    versions = BlockHistory(log).copies_of_block(50)
    assert first_bytes(log.read_copies(versions), 8) == [b"%08x" % number for number in ids]


@BOTH
def test_ids_that_wrap_are_replayed_through(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    writer.transaction(0xFFFFFFFF, (50, b"old"))
    writer.transaction(0, (50, b"new"), (51, b"two"))
    blocks = replay(writer.log(0xFFFFFFFF, start=1))
    assert first_bytes(blocks.read_many(np.array([50, 51]))) == [b"new", b"two"]


@BOTH
def test_a_copy_overwritten_by_a_later_lap_is_not_valid(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.head = 28
    writer.transaction(5, (40, b"a"), (41, b"b"), (42, b"c"), (43, b"d"), (44, b"e"))
    writer.head = 1
    writer.transaction(9, (60, b"x"))  # log blocks 1 to 3; 5's commit at 2 is gone too
    log = writer.log(10)
    kept: dict[int, list[int]] = {5: [], 9: []}
    for block, order in valid_copies(log):
        kept[order].append(block)
    assert kept == {5: [40, 41, 42], 9: [60]}
    assert [transaction.committed for transaction in log.transactions] == [False, True]


def test_without_checksums_nothing_behind_a_lost_copy_is_believed() -> None:
    writer = LogWriter(32, checksums=False)
    writer.head = 28
    writer.transaction(5, *((40 + number, b"old") for number in range(9)))  # 28 to 31, 1 to 7
    writer.head = 1
    writer.transaction(9, *((60 + number, b"mid") for number in range(5)))  # 1 to 7
    writer.head = 1
    writer.transaction(12, (70, b"new"))  # 1 to 3: 4 to 6 hold copies of 9 that 5 claims too
    assert valid_copies(writer.log(13)) == [(40, 5), (41, 5), (42, 5), (70, 12)]


def test_unclaimed_blocks_are_those_that_no_surviving_copy_explains() -> None:
    writer = LogWriter(16)
    writer.transaction(3, (40, b"a"), (41, b"b"), (42, b"c"))  # 1 to 5
    writer.head = 1
    writer.transaction(4, (50, b"d"))  # 1 to 3: the descriptor of 3 is gone, its copy at 4 is not
    assert writer.log(5).unclaimed.tolist() == [4, *range(6, 16)]


@BOTH
def test_an_escaped_copy_gets_its_magic_back(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    writer.transaction(3, (40, MAGIC_BYTES + b"data"))
    log = writer.log(3, start=1)
    assert log.tags.escaped.tolist() == [True]
    assert replay(log).read(40)[:8].tobytes() == MAGIC_BYTES + b"data"


@BOTH
def test_a_transaction_without_commit_is_neither_committed_nor_replayed(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    writer.transaction(3, (40, b"old"))
    writer.descriptor(4, [(40, b"new")])
    log = writer.log(3, start=1)
    assert [t.committed for t in log.transactions] == [True, False]
    assert [t.to_replay for t in log.transactions] == [True, False]
    assert log.tags.committed.tolist() == [True, False]
    assert replay(log).read(40)[:3].tobytes() == b"old"


@BOTH
@pytest.mark.parametrize(("revoked_in", "expected"), [(3, b"new"), (4, b"\0\0\0"), (5, b"\0\0\0")])
def test_a_revoke_forbids_copies_up_to_its_own_transaction(
    checksums: bool, revoked_in: int, expected: bytes
) -> None:
    writer = LogWriter(checksums=checksums)
    for number, data in ((3, b"old"), (4, b"new"), (5, b"")):
        if number == revoked_in:
            writer.revoke(number, [40])
        writer.transaction(number, (40 if data else 41, data))
    log = writer.log(3, start=1)
    assert (log.revokes.block.tolist(), log.revokes.order.tolist()) == ([40], [revoked_in])
    assert replay(log).read(40)[:3].tobytes() == expected


def test_replay_stops_before_a_bad_commit() -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"one"))
    writer.transaction(4, (40, b"two"))
    writer.rows[LOG_START + 6, 55] ^= 1  # the commit block of 4
    log = writer.log(3, start=1)
    assert replay(log).read(40)[:3].tobytes() == b"one"
    assert [t.checksum_ok for t in log.transactions] == [True, False]
    assert [t.committed for t in log.transactions] == [True, False]


@pytest.mark.parametrize("with_revoke", [False, True])
def test_a_bad_descriptor_or_revoke_of_a_committed_transaction_stops_everything(
    with_revoke: bool,
) -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"one"))
    place = writer.head
    if with_revoke:
        writer.revoke(4, [99])
    writer.transaction(4, (41, b"two"))
    writer.rows[LOG_START + place, 700] ^= 1
    log = writer.log(3, start=1)
    assert not len(replay(log).plan)
    assert any("nothing is replayed" in problem.what for problem in log.problems)
    assert not any(transaction.to_replay for transaction in log.transactions)
    assert valid_copies(log) == ([(40, 3), (41, 4)] if with_revoke else [(40, 3)])


def test_a_bad_descriptor_without_a_commit_is_just_the_end_of_the_log() -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"one"))
    place = writer.descriptor(4, [(41, b"two")])
    writer.rows[LOG_START + place, 700] ^= 1
    assert replay(writer.log(3, start=1)).plan.blocks.tolist() == [40]


@pytest.mark.parametrize(("seconds", "replayed"), [(99, [40]), (101, [])])
def test_a_bad_descriptor_under_an_older_commit_is_an_earlier_laps(
    seconds: int, replayed: list[int]
) -> None:
    writer = LogWriter()
    writer.descriptor(3, [(40, b"one")])
    writer.commit(3, seconds=100)
    place = writer.descriptor(4, [(41, b"two")])
    writer.commit(4, seconds=seconds)
    writer.rows[LOG_START + place, 700] ^= 1
    assert replay(writer.log(3, start=1)).plan.blocks.tolist() == replayed


@BOTH
def test_history_knows_copies_that_were_written_for_certain(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    writer.transaction(3, (40, b"old"))
    writer.descriptor(4, [(40, b"new")])  # without its commit only a checksum tells
    history = BlockHistory(writer.log(3, start=1))
    assert history.tids.tolist() == ([3, 4] if checksums else [3])


def test_a_history_of_committed_copies_alone_answers_with_those_alone() -> None:
    writer = LogWriter(checksums=True)
    writer.transaction(3, (40, b"old"), (41, b"one"))
    writer.descriptor(4, [(39, b"new"), (40, b"new")])  # never committed
    log = writer.log(3, start=1)
    history = BlockHistory(log, committed_only=True)
    assert (history.blocks.tolist(), history.tids.tolist()) == ([40, 41], [3, 3])
    found = history.newest_copies(np.array([39, 40, 41]), 9)
    assert found[0] == -1
    assert first_bytes(log.read_copies(found[1:]), 3) == [b"old", b"one"]
    with pytest.raises(FrozenInstanceError):
        history.committed_only = False  # type: ignore[misc]


def test_a_bad_copy_is_left_out_alone() -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"one"), (41, b"six"))
    writer.transaction(4, (40, b"two"), (42, b"ten"))
    writer.rows[LOG_START + 6, 900] ^= 1  # transaction 4's copy of block 40
    log = writer.log(3, start=1)
    got = replay(log).read_many(np.array([40, 41, 42]))
    assert first_bytes(got) == [b"one", b"six", b"ten"]
    assert log.tags.valid.tolist() == [True, True, False, True]
    assert any("bad checksum" in problem.what for problem in log.problems)


@BOTH
def test_a_clean_log_replays_nothing_and_still_has_its_history(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    writer.transaction(3, (40, b"one"))
    log = writer.log(4, start=0)
    assert not len(replay(log).plan)
    assert valid_copies(log) == [(40, 3)]


def test_a_log_that_no_kernel_would_load_is_not_replayed_but_read() -> None:
    for incompat, reason in ((0x100, "0x100"), (0x8, "v2 and v3")):
        writer = LogWriter()
        writer.transaction(3, (40, b"one"))
        log = writer.log(3, start=1, incompat=incompat)
        assert not len(replay(log).plan)
        assert any(reason in problem.what for problem in log.problems)
        assert valid_copies(log) == [(40, 3)]


@pytest.mark.parametrize("start", [64, 0xFFFFFFFF])
def test_a_start_outside_the_ring_is_told_and_not_followed(start: int) -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"one"))
    log = writer.log(3, start=start)
    assert not len(replay(log).plan)
    assert any(f"{start:,}" in problem.what for problem in log.problems)


def test_unreadable_log_blocks_cost_only_themselves() -> None:
    writer = LogWriter()
    for number in (3, 4, 5):
        writer.transaction(number, (40 + number, b"%d" % number))
    rows = writer.log(6).home.read_many(np.arange(len(writer.rows)))
    blocks = MemoryBlocks(rows)
    blocks.broken = {LOG_START + 5}  # transaction 4's copy
    log = Log(blocks, writer.log_blocks)
    assert valid_copies(log) == [(43, 3), (45, 5)]
    assert any("could not be read" in problem.what for problem in log.problems)


def test_latest_and_versions_follow_the_transactions() -> None:
    writer = LogWriter()
    writer.transaction(3, (40, b"a3"), (41, b"b3"))
    writer.transaction(5, (40, b"a5"))
    writer.transaction(8, (41, b"b8"), (40, b"a8"))
    log = writer.log(9)
    history = BlockHistory(log)
    asked = np.array([40, 40, 40, 40, 41, 41, 39, 42, 40])
    at = np.array([2, 3, 4, 7, 7, 8, 9, 9, 99])
    found = history.newest_copies(asked, at)
    got = [b"" if t < 0 else bytes(log.read_copies(np.array([t]))[0, :2]) for t in found.tolist()]
    assert got == [b"", b"a3", b"a3", b"a5", b"b3", b"b8", b"", b"", b"a8"]
    assert first_bytes(log.read_copies(history.copies_of_block(40)), 2) == [b"a3", b"a5", b"a8"]


def test_blocks_as_of_a_transaction_fall_back_to_the_disk() -> None:
    writer = LogWriter()
    writer.rows[41, :2] = list(b"dd")
    writer.transaction(3, (40, b"a3"))
    writer.transaction(5, (40, b"a5"))
    log = writer.log(9)
    view = CopiesAsOf(log.home, BlockHistory(log), 4)
    rows, logged = view.read_at(np.array([40, 41]))
    assert first_bytes(rows, 2) == [b"a3", b"dd"]
    assert logged.tolist() == [True, False]
    assert view.read(40, 2)[BLOCK_SIZE : BLOCK_SIZE + 2].tobytes() == b"dd"


def test_an_empty_log_has_nothing_and_says_so_without_failing() -> None:
    log = LogWriter().log(1)
    history = BlockHistory(log)
    assert (len(log.transactions), len(log.tags), len(log.revokes)) == (0, 0, 0)
    assert history.newest_copies(np.array([1, 2]), 9).tolist() == [-1, -1]
    assert log.unclaimed.tolist() == list(range(1, 64))


@pytest.mark.parametrize(("place", "value"), [(0, 0), (4, 9), (12, 1)])
def test_a_wrong_journal_superblock_is_corrupt(place: int, value: int) -> None:
    writer = LogWriter()
    writer.log(1)
    writer.rows[LOG_START, place : place + 4] = value
    with pytest.raises(CorruptError, match="journal superblock"):
        Log(MemoryBlocks(writer.rows), writer.log_blocks)


@pytest.mark.heavy
def test_damage_anywhere_in_the_log_never_ends_in_an_exception() -> None:
    numbers, read, replayed = np.random.default_rng(4), 0, 0
    for checksums in (True, False):
        for _ in range(150):
            writer = LogWriter(24, checksums=checksums)
            for sequence in range(3, 9):
                writer.revoke(sequence, [sequence])
                writer.transaction(sequence, (40, b"a"), (41, b"b"))
            writer.log(5, start=1 + int(numbers.integers(23)))
            hurt = writer.rows[LOG_START:]
            places = numbers.integers(0, 80, 12)  # headers and tags
            hurt[numbers.integers(0, 24, 12), places] = numbers.integers(0, 256, 12)
            try:
                log = Log(MemoryBlocks(writer.rows), writer.log_blocks, needs_recovery=True)
            except CorruptError:
                continue
            read += 1
            replayed += len(replay(log).plan) > 0
            assert replay(log).read_many(np.array([40])).shape == (1, BLOCK_SIZE)
            assert all(0 <= tag < len(log.tags) for tag in BlockHistory(log).tag_rows.tolist())
            assert all(transaction.start in log.ring for transaction in log.transactions)
    assert read > 200
    assert replayed > 5


FIRST_FAST_COMMIT = 1145


def fast_commit_log(head_tid: int, start: int) -> Log:
    """A log of 1,400 blocks with 256 fast-commit blocks, one commit in ring and area each."""
    writer = LogWriter(1400)
    writer.end = 1144
    writer.transaction(3, (40, b"one"))
    writer.put(struct.pack("<HHII", 9, 8, 0, head_tid), at=FIRST_FAST_COMMIT)
    return writer.log(3, start=start, incompat=0x20)


@pytest.mark.parametrize(("head_tid", "start", "told"), [(4, 1, 1), (3, 1, 0), (4, 0, 0)])
def test_fast_commits_that_follow_the_log_are_told(head_tid: int, start: int, told: int) -> None:
    log = fast_commit_log(head_tid, start)
    assert (log.ring.first, log.ring.end) == (1, 1144)
    assert len(replay(log).plan) == (1 if start else 0)
    assert sum("fast commits" in problem.where for problem in log.problems) == told


def inode_slot(number: int, state: int) -> bytes:
    return bytes([number, state]).ljust(256, b"\0") if state else bytes(256)


def table_block(first: int, states: Sequence[int]) -> bytes:
    return b"".join(inode_slot(first + slot, state) for slot, state in enumerate(states))


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_inode_versions_are_the_distinct_states_of_each_slot(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter()
    writer.transaction(3, (50, table_block(1, [1, 1, 0, 1])), (51, table_block(5, [7, 0, 9, 9])))
    writer.transaction(4, (50, table_block(1, [1, 2, 0, 0])), (30, table_block(7, [3, 0, 0, 0])))
    writer.transaction(5, (50, table_block(1, [1, 1, 5, 0])), (49, b"in no table"))
    writer.transaction(6, (52, b"behind the table"))
    log = writer.log(7)
    log.reader.chunk = chunk
    geometry = SimpleNamespace(inode_size=256, block_size=1024, inodes_per_group=6)
    groups = SimpleNamespace(inode_table=np.array([50, 30]))  # 6 inodes: a block and a half
    none = np.zeros(0, np.int64)
    epochs = Epochs(cast(Any, geometry), (Epoch(256, None),), none, none)
    history = BlockHistory(log)
    monkeypatch.setattr("ext4kit.journal.logged_inodes.epochs_of", lambda *_: epochs)
    versions = inode_versions(
        cast(Any, SimpleNamespace(superblock=geometry, groups=groups)), history
    )
    rows = zip(versions.number.tolist(), versions.order.tolist(), versions.rows[:, 1], strict=True)
    assert sorted((number, order, int(state)) for number, order, state in rows) == [
        (1, 3, 1),
        (2, 3, 1), (2, 4, 2), (2, 5, 1),
        (3, 5, 5),
        (4, 3, 1), (4, 4, 0),
        (5, 3, 7),
        (7, 4, 3),
    ]  # fmt: skip


@BOTH
@pytest.mark.parametrize("overwritten", [True, False])
def test_a_transaction_that_a_restarted_log_overwrote_in_part_is_damaged(
    checksums: bool, overwritten: bool
) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.head = 20
    for sequence in (5, 6):
        writer.transaction(sequence, (50, b"%d" % sequence))
    writer.transaction(7, *((block, b"%03d" % block) for block in range(20, 26)))
    writer.transaction(8, (50, b"8"))
    assert writer.log(9).damaged_orders.tolist() == []
    if overwritten:  # as kernels before 6.4 do at each mount
        writer.head = 1
        writer.transaction(10, (51, b"10"))
    assert writer.log(11).damaged_orders.tolist() == [7] * overwritten


@BOTH
def test_a_transaction_that_a_power_cut_ended_is_not_damaged(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.transaction(5, (50, b"5"))
    writer.descriptor(6, [(51, b"6")])
    writer.head += 1  # it has no commit block
    writer.transaction(7, (52, b"7"))
    assert writer.log(8).damaged_orders.tolist() == []
