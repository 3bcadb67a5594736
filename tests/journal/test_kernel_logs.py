"""Logs that the kernel wrote are read as debugfs reads them and replayed as the kernel does."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.journal import BlockHistory, Log, inode_versions, replay
from tests.journal.kernel_log import (
    KINDS,
    ROUNDS,
    TIME_BASE,
    Built,
    Kind,
    build,
    kernel_missing,
    logdump,
    mounted,
    opened,
    round_content,
    run,
)

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    reason = kernel_missing()
    if reason:
        pytest.skip(reason)
    kind: Kind = request.param
    return build(kind, tmp_path_factory.mktemp("kernel-log"))


def opened_log(image: Path) -> Log:
    log = Log.open(opened(image))
    assert log is not None
    return log


def copies(log: Log, chosen: Any) -> set[tuple[int, int, int]]:
    tags = log.tags
    columns = (tags.block[chosen], tags.order[chosen], tags.position[chosen])
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_what_is_to_replay_is_what_debugfs_lists(built: Built) -> None:
    log = opened_log(built.dirty)
    dump = logdump(built.dirty, "-a")
    due = [transaction.order for transaction in log.transactions if transaction.to_replay]
    assert due
    assert copies(log, np.isin(log.tags.order, due)) == dump.copies
    revokes = zip(log.revokes.block.tolist(), log.revokes.order.tolist(), strict=True)
    assert {record for record in revokes if record[1] in due} == dump.revokes


def test_a_clean_log_still_holds_all_that_debugfs_finds_in_it(built: Built) -> None:
    dump = logdump(built.clean, "-aO")
    log = opened_log(built.clean)
    if log.headers.position[0] != log.ring.first:
        pytest.skip("debugfs needs a descriptor in the ring's first block")
    found = copies(log, log.tags.valid)
    assert dump.copies
    assert dump.copies <= found
    if log.transactions[0].start == log.ring.first:  # it never came round: debugfs lists everything
        assert found == dump.copies


def test_every_metadata_block_passes_its_own_check(built: Built) -> None:
    log = opened_log(built.clean)
    verdicts = {transaction.checksum_ok for transaction in log.transactions}
    assert all(transaction.committed for transaction in log.transactions)
    assert verdicts <= ({True, None} if log.features.checksum_version == 1 else verdicts)
    assert log.features.checksum_version == 0 or True in verdicts
    assert False not in verdicts
    assert not len(log.problems)


def test_a_changed_copy_breaks_checksum_v1_of_its_transaction_alone(
    built: Built, tmp_path: Path
) -> None:
    before = opened_log(built.clean)
    if before.features.checksum_version != 1:
        pytest.skip("a transaction has a checksum of its own with checksum v1 only")
    good = [transaction for transaction in before.transactions if transaction.checksum_ok]
    hurt = good[len(good) // 2]
    position = before.tags.position[before.tags.order == hurt.order][0]
    image = tmp_path / "changed.img"
    shutil.copyfile(built.clean, image)
    with image.open("r+b") as file:
        file.seek(int(before.reader.log_blocks[position]) * before.home.block_size + 100)
        file.write(b"changed by hand")
    bad = [t.order for t in opened_log(image).transactions if t.checksum_ok is False]
    assert bad == [hurt.order]


def test_transactions_are_in_order_of_time_and_of_id(built: Built) -> None:
    transactions = opened_log(built.clean).transactions
    assert len(transactions) > ROUNDS / 4
    for before, after in pairwise(transactions):
        assert after.id == before.id + 1
        assert before.commit_time_ns is not None
        assert after.commit_time_ns is not None
        assert before.commit_time_ns <= after.commit_time_ns  # the clock of commits is coarse
        assert before.commit_index is not None


def test_replay_writes_what_the_kernel_writes(built: Built, tmp_path: Path) -> None:
    log = opened_log(built.dirty)
    blocks = replay(log)
    size = blocks.block_size
    replayed = tmp_path / "replayed.img"
    shutil.copyfile(built.dirty, replayed)
    with mounted(replayed, "ro"):
        pass
    theirs = np.fromfile(replayed, np.uint8).reshape(-1, size)
    before = np.fromfile(built.dirty, np.uint8).reshape(-1, size)
    ours = blocks.read_many(np.arange(len(theirs)))
    masked = {1024 // size, int(log.reader.log_blocks[0])}  # the superblocks of both
    assert set(np.flatnonzero((ours != theirs).any(axis=1)).tolist()) <= masked
    changed = set(np.flatnonzero((before != theirs).any(axis=1)).tolist()) - masked
    assert changed
    assert changed <= set(blocks.plan.blocks.tolist())


def test_a_replayed_file_system_shows_the_last_round(built: Built) -> None:
    fs = opened(built.dirty)
    log = Log.open(fs)
    assert log is not None
    after = fs.with_blocks(replay(log))
    names = {entry.name for entry in after.entries(2)}
    assert f"folder-{ROUNDS - 1:03}".encode() in names
    assert after.inode(built.inode).mtime == (TIME_BASE + ROUNDS - 1) * 1_000_000_000


def test_inode_versions_tell_the_rounds_that_are_still_in_the_log(built: Built) -> None:
    fs = opened(built.clean)
    log = Log.open(fs)
    assert log is not None
    versions = inode_versions(fs, BlockHistory(log))
    mine = versions.number == built.inode
    assert (np.diff(versions.order[mine]) >= 0).all()
    seconds = np.ascontiguousarray(versions.rows[mine, 0x10:0x14]).view("<u4")[:, 0].tolist()
    rounds = [second - TIME_BASE for second in seconds if TIME_BASE <= second < TIME_BASE + ROUNDS]
    assert len(rounds) > 3
    assert rounds == list(range(ROUNDS))[-len(rounds) :]
    rows = versions.rows[mine]
    assert (rows[1:] != rows[:-1]).any(axis=1).all()


def test_inode_versions_do_not_depend_on_the_size_of_a_chunk(built: Built) -> None:
    fs = opened(built.clean)
    logs = [Log.open(fs), Log.open(fs)]
    assert logs[0] is not None
    assert logs[1] is not None
    logs[1].reader.chunk = 3
    whole, pieces = (inode_versions(fs, BlockHistory(log)) for log in logs if log is not None)
    assert np.array_equal(whole.number, pieces.number)
    assert np.array_equal(whole.tag, pieces.tag)
    assert np.array_equal(whole.rows, pieces.rows)


def test_versions_of_a_journaled_block_are_the_rounds_written_to_it(built: Built) -> None:
    if "data=journal" not in built.kind.mount:
        pytest.skip("content is in the log with data=journal only")
    log = opened_log(built.clean)
    history = BlockHistory(log)
    versions = history.copies_of_block(built.block)
    contents = [row.tobytes() for row in log.read_copies(versions)]
    distinct = [after for before, after in pairwise([b"", *contents]) if before != after]
    expected = [round_content(number) for number in range(ROUNDS)]
    assert len(distinct) > 3
    assert [content[:1024] for content in distinct] == expected[-len(distinct) :]


def test_a_damaged_journal_inode_leaves_the_copy_in_the_superblock(
    built: Built, tmp_path: Path
) -> None:
    image = tmp_path / "damaged.img"
    shutil.copyfile(built.dirty, image)
    whole = opened_log(built.dirty)
    run("debugfs", "-w", "-R", "clri <8>", image)
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    assert np.array_equal(log.reader.log_blocks, whole.reader.log_blocks)
    assert any("copy in the superblock" in problem.what for problem in fs.problems)
    assert len(replay(log).plan) == len(replay(whole).plan)


def test_a_file_system_without_a_journal_has_no_log(tmp_path: Path) -> None:
    image = tmp_path / "plain.img"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext2", image)
    fs = opened(image)
    assert Log.open(fs) is None
    assert not len(fs.problems)
