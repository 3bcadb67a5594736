"""How far back a log tells everything, on logs written by hand: gaps are never passed over."""

from __future__ import annotations

import numpy as np
import pytest

from ext4kit.as_of import as_of_range
from ext4kit.errors import RequestError
from ext4kit.journal import Log
from tests.journal.log_writer import LOG_START, LogWriter, MemoryBlocks

BOTH = pytest.mark.parametrize("checksums", [True, False])
COPIES = ((40, b"a"), (41, b"b"))  # a transaction of four log blocks


def write(writer: LogWriter, *ids: int) -> None:
    for number in ids:
        writer.transaction(number, *COPIES)


@BOTH
def test_a_log_that_never_came_round_tells_everything(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4, 5)
    assert as_of_range(writer.log(6)).orders.tolist() == [3, 4, 5]
    assert as_of_range(writer.log(7)).orders.tolist() == [3, 4, 5]  # an unmount passes over an id


@BOTH
def test_what_the_newest_lap_reached_is_left_out(checksums: bool) -> None:
    """16 blocks hold four transactions; the fifth and sixth take the place of two."""
    writer = LogWriter(17, checksums=checksums)
    write(writer, 3, 4, 5, 6, 7, 8)
    reach = as_of_range(writer.log(9))
    assert reach.orders.tolist() == [6, 7, 8]  # 5 begins behind 8: what was there is not known
    assert reach.complete_since == 5


@BOTH
def test_mounts_that_begin_at_the_start_of_the_ring_leave_no_gap(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4, 5)
    writer.head = 1
    write(writer, 7)
    assert as_of_range(writer.log(9)).orders.tolist() == [5, 7]


@BOTH
def test_transactions_that_a_third_mount_overwrote_are_a_gap(checksums: bool) -> None:
    """3 to 8 of the first mount, 10 to 12 of the second, 14 and 15 over 10 and 11."""
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4, 5, 6, 7, 8)
    writer.head = 1
    write(writer, 10, 11, 12)
    writer.head = 1
    write(writer, 14)
    writer.transaction(15, (40, b"c"))
    reach = as_of_range(writer.log(17))
    assert reach.orders.tolist() == [12, 14, 15]
    assert 8 in writer.log(17).transactions.order  # whole, and yet not to be joined on


@BOTH
def test_a_transaction_that_vanished_is_a_gap(checksums: bool) -> None:
    """What follows it may have begun in the blocks that are gone."""
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4)
    lost = writer.head
    write(writer, 5, 6, 7)
    writer.rows[LOG_START + lost : LOG_START + lost + 4] = 0
    reach = as_of_range(writer.log(8))
    assert (reach.orders.tolist(), reach.complete_since) == ([7], 6)


@BOTH
def test_nothing_is_told_when_the_newest_transactions_are_missing(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4, 5)
    reach = as_of_range(writer.log(9))
    assert not len(reach.orders)
    with pytest.raises(RequestError, match="newest transactions are not in the log"):
        reach.tid_of(4)


@BOTH
def test_an_unclean_log_is_told_up_to_where_a_recovery_ends(checksums: bool) -> None:
    writer = LogWriter(checksums=checksums)
    write(writer, 3, 4)
    writer.descriptor(5, COPIES)  # never committed
    reach = as_of_range(writer.log(3, start=1))
    assert reach.orders.tolist() == [3, 4]


def test_a_hole_in_an_unclean_log_leaves_nothing_to_tell() -> None:
    """A recovery stops at the damage, so what is on disk fits no transaction behind it."""
    writer = LogWriter()
    write(writer, 3)
    hurt = writer.head
    write(writer, 4, 5)
    writer.rows[LOG_START + hurt + 3] = 0  # the commit block of 4
    reach = as_of_range(writer.log(3, start=1))
    assert not len(reach.orders)


def test_a_damaged_copy_that_a_recovery_leaves_out_leaves_nothing_to_tell() -> None:
    """Its block is on disk as it was before; in an empty log it had been written in place."""
    writer = LogWriter()
    write(writer, 3, 4)
    writer.rows[LOG_START + 2, 0] ^= 0xFF  # a copy of 3
    assert not len(as_of_range(writer.log(3, start=1)).orders)
    assert as_of_range(writer.log(5)).orders.tolist() == [4]


def test_ids_that_wrapped_are_asked_for_as_they_are_stored() -> None:
    writer = LogWriter()
    write(writer, 0xFFFFFFFF, 0, 1)
    reach = as_of_range(writer.log(2))
    assert [reach.tid_of(number) for number in (0xFFFFFFFF, 0, 1)] == reach.orders.tolist()
    assert np.diff(reach.orders).tolist() == [1, 1]


@pytest.mark.parametrize("hurt", [3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_everything_behind_a_damaged_transaction_is_told(hurt: int, offset: int) -> None:
    """Descriptor, two copies, commit block: without the latter it was not committed at all."""
    writer = LogWriter()
    write(writer, *range(3, 10))
    writer.rows[LOG_START + 1 + 4 * (hurt - 3) + offset, 40] ^= 1
    reach = as_of_range(writer.log(10))
    assert reach.orders.tolist() == list(range(hurt + 1, 10))
    joins = offset < 3
    assert reach.complete_since == (hurt if joins else hurt + 1)
    assert reach.time_before == (hurt * 10**9 + 5 if joins else -1)


def test_times_before_the_first_one_are_known_where_it_joins_on() -> None:
    writer = LogWriter()
    write(writer, 3, 4, 6)
    reach = as_of_range(writer.log(7))
    assert reach.commit_times.tolist() == [number * 10**9 + 5 for number in (3, 4, 6)]
    assert (reach.commit_time(4), reach.commit_time_before(6)) == (4 * 10**9 + 5,) * 2
    assert (reach.commit_time_before(3), reach.time_before) == (-1, -1)
    assert [reach.tid_of(number) for number in (3, 4, 6)] == [3, 4, 6]
    with pytest.raises(RequestError, match=r"3 to 6 \(some ids in between have no transaction\)$"):
        reach.tid_of(5)


@pytest.mark.parametrize(("sequence", "told"), [(6, 3), (7, 3), (8, 0)])
def test_more_than_one_id_that_is_missing_at_the_end_is_a_gap(sequence: int, told: int) -> None:
    writer = LogWriter()
    write(writer, 3, 4, 5)
    assert len(as_of_range(writer.log(sequence)).orders) == told


def test_a_log_that_says_where_it_goes_on_needs_no_id() -> None:
    """s_head, byte 0x58 of the journal superblock, of kernels from 6.4 on."""
    for place, told in ((13, 3), (12, 0), (1, 0)):
        writer = LogWriter(checksums=False)
        write(writer, 3, 4, 5)
        writer.log(50)
        writer.rows[LOG_START, 0x58:0x5C] = (0, 0, 0, place)
        log = Log(MemoryBlocks(writer.rows), writer.log_blocks)
        assert len(as_of_range(log).orders) == told


def test_a_log_without_transactions_tells_nothing() -> None:
    reach = as_of_range(LogWriter().log(3))
    assert reach.orders.tolist() == []
    with pytest.raises(RequestError, match="the log holds no committed transaction"):
        reach.tid_of(3)
