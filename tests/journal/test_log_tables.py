"""The tables of a log: headers, tags, revokes, transactions, the ring; on logs written by hand."""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.journal import BlockHistory, Log, replay
from ext4kit.journal.recovery_pass import empty_pass
from ext4kit.journal.ring import LogReader, Ring, order_of, ring_of
from ext4kit.journal.scan import _Collected
from ext4kit.journal.tables import Revokes, Tags
from ext4kit.journal.transactions import TransactionState
from ext4kit.journal.versions import _ranges, byte_changes
from ext4kit.problems import Problems, Severity
from tests.journal.log_writer import BLOCK_SIZE, LOG_START, MAGIC, LogWriter, MemoryBlocks

BOTH = pytest.mark.parametrize("checksums", [True, False])
NS = 10**9


def three(*, checksums: bool = True, length: int = 32) -> LogWriter:
    """Transactions 3 (log blocks 1 to 4), 4 (5 to 8) and 5 (9 to 11)."""
    writer = LogWriter(length, checksums=checksums)
    writer.transaction(3, (40, b"a"), (41, b"b"))
    writer.revoke(4, [50, 51, 50])
    writer.transaction(4, (42, b"c"))
    writer.transaction(5, (43, b"d"))
    return writer


# --- the ring -------------------------------------------------------------------------------


def test_positions_go_round() -> None:
    ring = Ring(3, 10)
    asked = np.array([3, 9, 10, 11, 16, 17, 2, 0])
    assert ring.wrap(asked).tolist() == [3, 9, 3, 4, 9, 3, 9, 7]
    assert [position in ring for position in (2, 3, 9, 10)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("stored", "reference", "order"),
    [
        (5, 5, 5), (4, 5, 4), (6, 5, 6), (0xFFFFFFFF, 5, -1), (0, 0xFFFFFFFF, 1 << 32),
        (0x80000004, 5, 0x80000004), (0x80000005, 5, 0x80000005 - (1 << 32)),
        (7, (1 << 32) + 5, (1 << 32) + 7),
    ],
)  # fmt: skip
def test_ids_are_ordered_around_the_reference(stored: int, reference: int, order: int) -> None:
    """As `tid_gt`: the difference is a signed number of 32 bits."""
    assert int(order_of(np.array([stored]), reference)[0]) == order


@pytest.mark.parametrize(
    ("length", "there", "first", "ring", "told"),
    [
        (64, 64, 1, (1, 64), 0),
        (64, 70, 1, (1, 64), 0),
        (64, 40, 1, (1, 40), 1),
        (64, 64, 5, (5, 64), 0),
        (64, 64, 63, (63, 64), 0),
        (64, 64, 64, (1, 64), 1),
        (64, 64, 0, (1, 64), 1),
        (1, 64, 1, (1, 2), 0),
        (1400, 1400, 1, (1, 1400), 0),
    ],
)
def test_the_ring_is_cut_to_what_is_there(
    length: int, there: int, first: int, ring: tuple[int, int], told: int
) -> None:
    writer = LogWriter(64)
    superblock = writer.log(3).superblock
    values = {part.name: getattr(superblock, part.name) for part in fields(superblock)}
    changed = type(superblock)(**(values | {"length": length, "first": first}))
    problems = Problems()
    assert ring_of(changed, there, False, problems) == Ring(*ring)
    assert len(list(problems)) == told


@pytest.mark.parametrize(("length", "end"), [(1400, 1144), (1280, 1024), (1279, 1279)])
def test_the_area_of_fast_commits_is_no_part_of_the_ring(length: int, end: int) -> None:
    """256 blocks without a number; a ring of fewer than 1,024 leaves none."""
    writer = LogWriter(length)
    assert writer.log(3, incompat=0x20).ring == Ring(1, end)
    assert writer.log(3).ring == Ring(1, length)


# --- reading --------------------------------------------------------------------------------


def reader(count: int = 12, *, broken: tuple[int, ...] = ()) -> LogReader:
    rows = np.zeros((100, BLOCK_SIZE), np.uint8)
    rows[:, 0] = np.arange(100)
    blocks = MemoryBlocks(rows)
    blocks.broken = set(broken)
    return LogReader(blocks, np.arange(20, 20 + count), Problems())


def test_log_blocks_are_read_by_position() -> None:
    one = reader()
    assert one.read(np.array([3, 0, 11]))[:, 0].tolist() == [23, 20, 31]
    assert one.view(np.array([3, 4, 5]))[:, 0].tolist() == [23, 24, 25]
    assert one.view(np.array([5, 4]))[:, 0].tolist() == [25, 24]
    assert len(one.view(np.zeros(0, np.int64))) == 0
    one.chunk = 5
    pieces = [(places.tolist(), rows[:, 0].tolist()) for places, rows in one.stream(np.arange(12))]
    assert [places for places, _ in pieces] == [
        [0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]
    ]  # fmt: skip
    assert [rows[0] for _, rows in pieces] == [20, 25, 30]
    assert list(one.problems) == []


def test_a_chunk_is_eight_mebibytes() -> None:
    assert reader().chunk == 8192


@pytest.mark.parametrize("broken", [(20,), (31,), (23, 24, 30)])
def test_only_what_cannot_be_read_is_zeros(broken: tuple[int, ...]) -> None:
    one = reader(broken=broken)
    rows = one.view(np.arange(12))[:, 0].tolist()
    assert rows == [0 if block in broken else block for block in range(20, 32)]
    assert np.flatnonzero(one.unreadable).tolist() == [block - 20 for block in broken]
    assert any("could not be read" in problem.what for problem in one.problems)
    again = one.read(np.arange(12))[:, 0].tolist()
    assert again == rows


def test_log_blocks_without_a_place_are_unreadable() -> None:
    blocks = MemoryBlocks(np.ones((100, BLOCK_SIZE), np.uint8))
    one = LogReader(blocks, np.array([5, 0, -1, 99, 100]), Problems())
    assert one.unreadable.tolist() == [False, True, True, False, True]
    assert one.read(np.arange(5))[:, 0].tolist() == [1, 0, 0, 1, 0]
    assert one.view(np.arange(5))[:, 0].tolist() == [1, 0, 0, 1, 0]


# --- headers, tags, revokes -----------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_every_block_of_metadata_is_a_header(checksums: bool, chunk: int) -> None:
    log = three(checksums=checksums).log(6)
    log.reader.chunk = chunk
    headers = log.headers
    assert headers.position.tolist() == [1, 4, 5, 6, 8, 9, 11]
    assert headers.kind.tolist() == [1, 2, 5, 1, 2, 1, 2]
    assert headers.order.tolist() == [3, 3, 4, 4, 4, 5, 5]
    assert headers.tags.tolist() == [2, 0, 0, 1, 0, 1, 0]
    assert headers.commit_seconds[[1, 4, 6]].tolist() == [3, 4, 5]
    assert headers.commit_nanoseconds[[1, 4, 6]].tolist() == [5, 5, 5]
    assert headers.checksum_ok.all()
    assert not headers.is_partial.any()
    assert not headers.overflow.any()
    tags = log.tags
    assert tags.block.tolist() == [40, 41, 42, 43]
    assert tags.position.tolist() == [2, 3, 7, 10]
    assert tags.descriptor.tolist() == [1, 1, 6, 9]
    assert tags.ordinal.tolist() == [0, 1, 0, 0]
    assert tags.order.tolist() == [3, 3, 4, 5]
    assert (tags.valid & tags.matches & tags.committed).all()
    assert not tags.escaped.any()
    revokes = log.revokes
    assert sorted(revokes.block.tolist()) == [50, 50, 51]
    assert (revokes.order.tolist(), revokes.position.tolist()) == ([4] * 3, [5] * 3)
    assert log.unmarked.tolist() == []
    assert log.unclaimed.tolist() == list(range(12, 32))


def test_blocks_that_have_lost_their_magic_are_unmarked() -> None:
    writer = three()
    for place in (4, 5):
        writer.rows[LOG_START + place, 1] ^= 1
    writer.put(struct.pack(">III", 7, 3, 4), at=20)  # no type of a header
    log = writer.log(6)
    assert log.unmarked.tolist() == [4, 5]
    assert log.headers.position.tolist() == [1, 6, 8, 9, 11]


@pytest.mark.parametrize(
    ("byte", "good", "partial"), [(20, False, False), (63, False, False), (64, True, True),
                                  (1023, True, True)]
)  # fmt: skip
def test_a_commit_block_counts_by_its_first_sector(byte: int, good: bool, partial: bool) -> None:
    """As the kernel's `jbd2_commit_block_csum_verify_partial`: 64 bytes, then zeros."""
    writer = three()
    writer.rows[LOG_START + 8, byte] ^= 4
    headers = writer.log(6).headers
    assert (headers.checksum_ok[4], headers.is_partial[4]) == (good, partial)
    assert headers.checksum_ok.sum() == 7 - (not good)
    log = writer.log(3, start=1)
    assert [each.to_replay for each in log.transactions] == [True, good, good]


@pytest.mark.parametrize(
    ("count", "over"), [(16, False), (20, False), (1020, False), (1021, True), (5000, True)]
)
def test_a_revoke_block_that_counts_past_its_end_stops_a_recovery(count: int, over: bool) -> None:
    """A header of 16 bytes, a tail of 4: the count is in bytes."""
    writer = LogWriter(32)
    body = struct.pack(">IIII", MAGIC, 5, 3, count)
    writer.put(writer._with_checksum(body, BLOCK_SIZE - 4))
    writer.transaction(3, (40, b"a"))
    log = writer.log(3, start=1)
    assert log.headers.overflow.tolist() == [over, False, False]
    plan = replay(log).plan
    assert len(plan) == (not over)
    assert ("exceeds the block" in plan.walk.refusal) is over


def some_tags(count: int) -> Tags:
    numbers, never = np.arange(count), np.zeros(count, bool)
    columns = (numbers,) * 7
    return Tags(*columns, never, never, never, never)


def test_tags_and_revokes_beyond_the_limit_are_left_out() -> None:
    problems = Problems()
    found = _Collected(5, 4, problems)
    found.add_tags(some_tags(3))
    found.add_tags(some_tags(2))
    assert list(problems) == []
    assert found.tags_left == 0
    found.add_tags(some_tags(0))
    assert list(problems) == []
    found.add_tags(some_tags(3))
    found.add_tags(some_tags(1))
    assert [len(one) for one in found.tags] == [3, 2, 0, 0, 0]
    rows = np.arange(6)
    found.add_revokes(Revokes(rows, rows, rows))
    found.add_revokes(Revokes(rows, rows, rows))
    assert [one.block.tolist() for one in found.revokes] == [[0, 1, 2, 3], []]
    told = [problem.what for problem in problems]
    assert [("copies" in what, "revoke records" in what) for what in told] == [
        (True, False), (False, True)
    ]  # fmt: skip


def test_a_position_belongs_to_the_newest_copy_that_fits() -> None:
    writer = LogWriter(16)
    writer.transaction(3, (40, b"old"), (41, b"two"), (42, b"six"))  # 1 to 5
    writer.head = 1
    writer.transaction(9, (50, b"new"))  # 1 to 3
    writer.head = 6
    writer.transaction(10, (60, b"x"))
    tags = writer.log(11).tags
    assert tags.block[tags.valid].tolist() == [50, 60]
    assert tags.position[tags.valid].tolist() == [2, 7]


def test_a_tag_of_a_block_with_the_magic_is_not_valid() -> None:
    """Copies never begin with the magic: such a block is metadata."""
    writer = LogWriter(16, checksums=False)
    writer.transaction(3, (40, b"a"), (41, b"b"))
    writer.rows[LOG_START + 3] = writer.rows[LOG_START + 4]
    log = writer.log(4)
    assert log.tags.valid.tolist() == [True, False]


# --- transactions ---------------------------------------------------------------------------


@BOTH
def test_a_transaction_is_a_row_of_plain_values(checksums: bool) -> None:
    log = three(checksums=checksums).log(6)
    one, two, last = log.transactions
    fits = True if checksums else None
    assert (one.id, one.order, one.start, one.commit_index, one.commit_time_ns) == (
        3, 3, 1, 4, 3 * NS + 5
    )  # fmt: skip
    assert (one.blocks, one.descriptors, one.revoke_blocks, one.revokes) == (2, 1, 0, 0)
    assert (one.committed, one.checksum_ok, one.to_replay) == (True, fits, False)
    assert (two.start, two.commit_index, two.blocks, two.descriptors) == (5, 8, 1, 1)
    assert (two.revoke_blocks, two.revokes) == (1, 3)
    assert last.start == 9
    assert {each.state for each in log.transactions} == {TransactionState.CHECKPOINTED}
    assert log.transactions[-1] == last
    assert log.transactions[1:] == (two, last)
    assert log.transactions[::-2] == (last, one)


def test_rows_of_transactions_are_found_by_their_order() -> None:
    log = three().log(6)
    asked = np.array([5, 4, 3, 2, 6, 1 << 40, -7])
    assert log.transactions.row_of(asked).tolist() == [2, 1, 0, -1, -1, -1, -1]
    empty = LogWriter(32).log(3)
    assert len(empty.transactions) == 0
    assert empty.transactions.row_of(asked).tolist() == [-1] * 7
    assert list(empty.transactions) == []


@BOTH
def test_states_of_a_log_that_asks_for_recovery(checksums: bool) -> None:
    writer = three(checksums=checksums)
    writer.descriptor(6, [(44, b"e")])  # cut off before its commit block
    states = [each.state for each in writer.log(4, start=5).transactions]
    assert states == [
        TransactionState.CHECKPOINTED,
        TransactionState.TO_REPLAY,
        TransactionState.TO_REPLAY,
        TransactionState.UNCOMMITTED,
    ]


@BOTH
def test_states_of_earlier_laps(checksums: bool) -> None:
    writer = LogWriter(32, checksums=checksums)
    writer.head = 12
    for number in (3, 4):
        writer.transaction(number, (40, b"a"))  # 12 to 14, 15 to 17
    writer.head = 1
    for number in (5, 6):
        writer.transaction(number, (41, b"b"))  # 1 to 3, 4 to 6
    states = {each.id: each.state for each in writer.log(7).transactions}
    assert states == {
        3: TransactionState.STALE, 4: TransactionState.STALE, 5: TransactionState.CHECKPOINTED, 6:
            TransactionState.CHECKPOINTED
    }  # fmt: skip


@BOTH
def test_a_transaction_without_its_commit_block_is_torn(checksums: bool) -> None:
    writer = three(checksums=checksums)
    writer.rows[LOG_START + 8] = 0
    log = writer.log(6)
    assert [each.state for each in log.transactions] == [
        TransactionState.CHECKPOINTED, TransactionState.TORN, TransactionState.CHECKPOINTED
    ]  # fmt: skip
    two = log.transactions[1]
    assert (two.commit_index, two.commit_time_ns, two.committed) == (None, None, False)
    assert two.checksum_ok is (True if checksums else None)


def test_a_transaction_with_a_bad_block_is_torn_also_when_it_is_the_newest() -> None:
    writer = three()
    writer.rows[LOG_START + 9, 900] ^= 1  # the descriptor of 5
    log = writer.log(6)
    assert [each.state for each in log.transactions][-1] is TransactionState.TORN
    assert [each.checksum_ok for each in log.transactions] == [True, True, False]
    assert [each.committed for each in log.transactions] == [True, True, True]


def test_a_transaction_starts_behind_the_widest_gap() -> None:
    writer = LogWriter(16)
    writer.head = 13
    writer.transaction(7, (40, b"a"), (41, b"b"), (42, b"c"))  # 13 to 15, then 1 and 2
    (one,) = writer.log(8).transactions
    assert (one.start, one.commit_index) == (13, 2)


@pytest.mark.parametrize(
    ("seconds", "known"),
    [(1, True), (9_223_372_031, True), (9_223_372_032, False), ((1 << 64) - 1, False)],
)
def test_a_commit_time_beyond_63_bits_is_none(seconds: int, known: bool) -> None:
    writer = LogWriter(32)
    writer.descriptor(3, [(40, b"a")])
    writer.commit(3, seconds)
    (one,) = writer.log(4).transactions
    assert one.commit_time_ns == (seconds * NS + 5 if known else None)


def test_a_commit_without_a_checksum_in_a_log_that_has_them_is_not_judged() -> None:
    writer = LogWriter(32, checksums=False)
    writer.transaction(3, (40, b"a"))
    writer.checksums = True
    writer.transaction(4, (41, b"b"))
    one, two = writer.log(5).transactions
    assert (one.checksum_ok, two.checksum_ok) == (None, True)
    assert (one.state, two.state) == (TransactionState.CHECKPOINTED, TransactionState.CHECKPOINTED)


# --- how far a recovery goes ----------------------------------------------------------------


def test_a_walk_says_what_it_contains_and_why_it_ended() -> None:
    log = three().log(3, start=1)
    walk = log.walk
    assert (walk.first_order, walk.end_order) == (3, 6)
    assert walk.headers.tolist() == list(range(7))
    assert walk.end_reason == "log block 12 is not a journal block"
    assert [order in walk for order in (2, 3, 5, 6)] == [False, True, True, False]
    assert (walk.refusal, walk.bad_commit, walk.is_corrupt) == ("", None, False)
    nothing = empty_pass(7, "because")
    assert (nothing.first_order, nothing.end_order, nothing.end_reason) == (7, 7, "because")
    assert (len(nothing.headers), nothing.refusal) == (0, "")
    assert 7 not in nothing


@BOTH
def test_a_walk_ends_where_an_earlier_lap_begins(checksums: bool) -> None:
    writer = three(checksums=checksums)
    writer.transaction(2, (40, b"old"))
    walk = writer.log(3, start=1).walk
    assert (walk.end_order, walk.end_reason) == (6, "log block 12 belongs to another lap")
    writer = three(checksums=False)
    writer.put(struct.pack(">III", MAGIC, 7, 6))
    walk = writer.log(3, start=1).walk
    assert walk.end_reason == "log block 12 is of an unknown type"


@BOTH
def test_a_walk_goes_once_round(checksums: bool) -> None:
    writer = LogWriter(13, checksums=checksums)
    for number in range(3, 7):
        writer.transaction(number, (40, b"a"))  # all of 1 to 12
    walk = writer.log(3, start=1).walk
    assert (walk.end_order, walk.end_reason) == (7, "the whole log was read")
    writer = LogWriter(13, checksums=checksums)
    writer.head = 10
    for number in range(3, 7):
        writer.transaction(number, (40, b"a"))
    walk = writer.log(3, start=10).walk
    assert (walk.end_order, len(walk.headers)) == (7, 8)


def test_a_bad_commit_block_ends_the_walk_before_its_transaction() -> None:
    writer = three()
    writer.rows[LOG_START + 8, 20] ^= 1
    log = writer.log(3, start=1)
    walk = log.walk
    assert (walk.end_order, walk.bad_commit, walk.is_corrupt) == (4, 4, True)
    assert walk.end_reason == "bad checksum in a commit block"
    (problem,) = log.problems
    assert (problem.where, problem.severity) == ("transaction 4", Severity.ERROR)
    assert replay(log).plan.blocks.tolist() == [40, 41]


@pytest.mark.parametrize(("later", "corrupt"), [(True, True), (False, False)])
def test_with_async_commit_the_next_one_tells_whether_it_was_cut_short(
    later: bool, corrupt: bool
) -> None:
    writer = LogWriter(32)
    writer.transaction(3, (40, b"a"))
    writer.transaction(4, (41, b"b"))
    if later:
        writer.transaction(5, (42, b"c"))
    writer.rows[LOG_START + 6, 20] ^= 1
    log = writer.log(3, start=1, incompat=0x4)
    walk = log.walk
    assert (walk.end_order, walk.bad_commit, walk.is_corrupt) == (4, 4, corrupt)
    (problem,) = log.problems
    assert problem.severity == (Severity.ERROR if corrupt else Severity.WARNING)
    assert replay(log).plan.blocks.tolist() == [40]


def test_a_commit_block_older_than_the_one_before_is_an_earlier_laps() -> None:
    writer = LogWriter(32)
    writer.transaction(3, (40, b"a"))
    writer.descriptor(4, [(41, b"b")])
    writer.commit(4, 2)
    writer.rows[LOG_START + 6, 20] ^= 1
    log = writer.log(3, start=1)
    assert (log.walk.end_reason, log.walk.bad_commit) == ("a block of an earlier lap", None)
    assert list(log.problems) == []
    writer.rows[LOG_START + 6, 20] ^= 1  # sound: an older time alone ends nothing
    assert writer.log(3, start=1).walk.end_order == 5


@pytest.mark.parametrize(("place", "kind"), [(5, "revoke block"), (6, "descriptor")])
def test_a_bad_block_of_a_committed_transaction_is_named_in_the_refusal(
    place: int, kind: str
) -> None:
    writer = three()
    writer.rows[LOG_START + place, 500] ^= 1
    walk = writer.log(3, start=1).walk
    reason = f"bad checksum of the {kind} at log block {place}"
    assert (walk.refusal, walk.end_reason) == (reason, reason)
    assert 3 not in walk


def test_no_walk_without_a_need() -> None:
    writer = three()
    log = Log(MemoryBlocks(writer.log(3, start=1).home.read_many(np.arange(len(writer.rows)))),
              writer.log_blocks)  # fmt: skip
    assert log.walk.end_reason == "the file system is not marked for recovery"
    (problem,) = log.problems
    assert problem.severity is Severity.WARNING
    clean = three().log(6)
    assert clean.walk.end_reason == "the journal is empty: the file system was unmounted cleanly"
    assert list(clean.problems) == []


def test_a_log_of_one_block_is_none() -> None:
    writer = three()
    blocks = writer.log(6).home
    for count in (0, 1):
        with pytest.raises(CorruptError, match=f"{count} blocks are too few"):
            Log(blocks, writer.log_blocks[:count])
    assert Log(blocks, writer.log_blocks[:2]).length == 2


@pytest.mark.parametrize(("users", "shared"), [(0, False), (1, False), (2, True)])
def test_a_device_that_serves_several_file_systems_is_refused(users: int, shared: bool) -> None:
    """On a device the journal superblock lies behind the device's own."""
    writer = LogWriter(32, checksums=False)
    writer.head = 2
    writer.transaction(3, (40, b"a"))
    writer.log(3, start=2)
    superblock = writer.rows[LOG_START]
    superblock[0x14:0x18] = (0, 0, 0, 2)  # s_first
    superblock[0x40:0x44] = (0, 0, 0, users)  # s_nr_users
    superblock[0x100:0x120] = [*range(16), *range(100, 116)]
    places = writer.log_blocks
    places[0], places[1] = 0, LOG_START
    log = Log(MemoryBlocks(writer.rows), places, needs_recovery=True, superblock_at=1)
    assert log.is_shared_device
    assert log.superblock_block == LOG_START
    assert len(replay(log).plan) == (not shared)
    told = "the device serves 2 file systems (00010203-0405-0607-0809-0a0b0c0d0e0f, "
    assert log.refusal.startswith(told) if shared else not log.refusal
    assert not writer.log(3).is_shared_device


def test_distances_in_the_ring_are_counted_from_its_start() -> None:
    log = three().log(3, start=5)
    assert log.ring_distance(np.array([5, 31, 1, 4])).tolist() == [0, 26, 27, 30]
    assert three().log(6).ring_distance(np.array([1, 5, 31])).tolist() == [0, 4, 30]


# --- history --------------------------------------------------------------------------------


def test_the_newest_copy_that_is_not_newer() -> None:
    writer = LogWriter(64)
    writer.transaction(3, (40, b"40 3"), (41, b"41 3"))
    writer.transaction(7, (41, b"41 7"), (41, b"41 again"), (44, b"44 7"))
    writer.transaction(9, (40, b"40 9"))
    log = writer.log(10)
    history = BlockHistory(log)
    assert history.blocks.tolist() == [40, 40, 41, 41, 41, 44]
    assert history.tids.tolist() == [3, 9, 3, 7, 7, 7]

    def at(order: Any, *blocks: int) -> list[bytes]:
        found = history.newest_copies(np.array(blocks), order)
        return [
            bytes(log.read_copies(np.array([row]))[0]).rstrip(b"\0") if row >= 0 else b""
            for row in found.tolist()
        ]  # fmt: skip

    assert at(2, 40, 41, 44) == [b"", b"", b""]
    assert at(3, 40, 41, 44, 39, 42, 45) == [b"40 3", b"41 3", b"", b"", b"", b""]
    assert at(8, 40, 41, 44) == [b"40 3", b"41 again", b"44 7"]
    assert at(9, 40, 44) == [b"40 9", b"44 7"]
    assert at(np.array([9, 8, 6]), 40, 40, 44) == [b"40 9", b"40 3", b""]
    assert len(history.copies_of_block(41)) == 3
    assert history.copies_of_block(42).tolist() == []


# --- bytes that differ ----------------------------------------------------------------------


def test_stretches_of_bytes_that_differ() -> None:
    before, after = bytes(1024), bytearray(1024)
    after[5:8] = b"abc"
    after[1023] = 9
    found = [(one.which, one.before, one.after) for one in byte_changes(before, bytes(after))]
    assert found == [((5, 7), bytes(3), b"abc"), ((1023, 1023), b"\0", b"\t")]
    assert byte_changes(before, before) == []
    for place in range(0, 256, 2):
        after[place] = 1
    spans = [one.which for one in byte_changes(before, bytes(after))]
    assert len(spans) == 64
    last = spans[-1]
    assert isinstance(last, tuple) and last[1] == 1023
    assert _ranges(np.array([3, 4, 5, 8, 10, 11])) == [(3, 5), (8, 8), (10, 11)]
    assert _ranges(np.zeros(0, np.int64)) == []
