"""The file system between two fast commits of which the later one removes something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log, replay
from ext4kit.journal.fast_commits import replay as replay_module
from ext4kit.journal.fast_commits.replay import (
    FastCommitRecord,
    FastCommitReplayer,
    IntermediateState,
    find_intermediate_states,
)
from tests.journal.kernel_log import opened
from tests.journal.written_fast_commits import (
    CREAT,
    LINK,
    UNLINK,
    Written,
    add_range,
    entry,
    inode,
    make,
    raw_inode,
)

ROOT, A, B, START = 2, 30, 31, 14000


@pytest.fixture
def made(tmp_path: Path) -> Written:
    return make(tmp_path, "-b 1024")


def created(number: int, name: str, generation: int = 1) -> list[bytes]:
    return [
        inode(number, raw_inode(size=1000, generation=generation)),
        add_range(number, 0, 1, START + number), entry(CREAT, ROOT, number, name),
    ]  # fmt: skip


def found(made: Written) -> tuple[list[IntermediateState], FileSystem, Log]:
    made.finish()
    fs = opened(made.image)
    log = Log.open(fs)
    assert log is not None
    before = fs.with_blocks(replay(log, fs).before_fast_commits)
    return find_intermediate_states(log, before), before, log


def test_what_one_made_and_the_next_removes_is_seen_between(made: Written) -> None:
    made.commit(*created(A, "a"))
    made.commit(*created(B, "b"))
    made.commit(entry(UNLINK, ROOT, A, "a"))
    (one,), before, _ = found(made)
    assert one.numbers.tolist() == [A]
    inodes = int(before.groups.inode_table[0]) + (A - 1) // 4
    found_row = one.changed.rows_of(np.array([inodes]))[0]
    assert found_row >= 0
    row = one.changed.rows[found_row]
    place = (A - 1) % 4 * 256
    assert row[place : place + 2].tobytes() == (0o100644).to_bytes(2, "little")
    place = (B - 1) % 4 * 256  # in the same block: it had been made as well
    assert row[place : place + 2].tobytes() == (0o100644).to_bytes(2, "little")


def test_there_is_none_within_one_fast_commit_or_without_a_removal(made: Written) -> None:
    made.commit(*created(A, "a"), entry(UNLINK, ROOT, A, "a"))
    made.commit(*created(B, "b"))
    made.commit(entry(LINK, ROOT, B, "again"))
    assert found(made)[0] == []


def test_none_of_what_no_fast_commit_had_told_of(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "old").write_bytes(b"x")
    made = make(tmp_path, "-b 1024", tree)
    made.commit(*created(A, "a"))
    made.commit(entry(UNLINK, ROOT, made.number("/old"), "old"))
    assert found(made)[0] == []


def test_a_name_less_of_an_inode_that_stays_is_no_removal(made: Written) -> None:
    made.commit(*created(A, "a"), entry(LINK, ROOT, A, "b"))
    made.commit(entry(UNLINK, ROOT, A, "b"), inode(A, raw_inode(size=1000)))
    assert found(made)[0] == []


def test_a_number_that_is_used_again_at_once_was_removed(made: Written) -> None:
    made.commit(*created(A, "a"))
    made.commit(entry(UNLINK, ROOT, A, "a"), *created(A, "new", generation=2))
    (one,), _, _ = found(made)
    assert one.numbers.tolist() == [A]


def test_removals_come_in_order_of_time(made: Written) -> None:
    made.commit(*created(A, "a"), *created(B, "b"))
    made.commit(entry(UNLINK, ROOT, B, "b"))
    made.commit(entry(UNLINK, ROOT, A, "a"))
    first, second = found(made)[0]
    assert (first.numbers.tolist(), second.numbers.tolist()) == ([B], [A])


def test_two_in_one_fast_commit_are_together(made: Written) -> None:
    made.commit(*created(A, "a"), *created(B, "b"))
    made.commit(entry(UNLINK, ROOT, B, "b"), entry(UNLINK, ROOT, A, "a"))
    (one,) = found(made)[0]
    assert one.numbers.tolist() == [A, B]


def test_one_that_cannot_be_applied_leaves_the_others(
    made: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.commit(*created(A, "a"), *created(B, "b"))
    made.commit(entry(UNLINK, ROOT, B, "b"))
    made.commit(entry(UNLINK, ROOT, A, "a"))
    real, calls = FastCommitReplayer.run, []

    def run(self: FastCommitReplayer, records: list[FastCommitRecord]) -> object:
        calls.append(len(records))
        if len(calls) == 2:  # the first is that of the replay of all of them
            raise CorruptError("block bitmaps", None, "no free block is left")
        return real(self, records)

    monkeypatch.setattr(FastCommitReplayer, "run", run)
    (one,) = found(made)[0]
    assert one.numbers.tolist() == [A]


def test_only_the_last_ones_are_followed(made: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    assert replay_module.MAX_INTERMEDIATE == 64
    monkeypatch.setattr(replay_module, "MAX_INTERMEDIATE", 1)
    made.commit(*created(A, "a"), *created(B, "b"))
    made.commit(entry(UNLINK, ROOT, B, "b"))
    made.commit(entry(UNLINK, ROOT, A, "a"))
    (one,), _, log = found(made)
    assert one.numbers.tolist() == [A]
    told = [problem.what for problem in log.problems]
    assert told == ["2 of them remove inodes; only the last 1 are used"]
