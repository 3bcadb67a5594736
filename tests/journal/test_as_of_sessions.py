"""The file system as of each step of a session of debugfs, beside what debugfs had made by then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ext4kit.as_of import AsOfFileSystem, UnknownStateError, as_of_range, file_system_as_of
from ext4kit.as_of.allocation import AllocationHistory
from ext4kit.as_of.blocks import (
    AsOfContentBlocks,
    AsOfMetadataBlocks,
    PointInTime,
    layout_blocks,
)
from ext4kit.errors import RequestError
from ext4kit.journal import BlockHistory, Log, replay
from tests.journal.debugfs_session import FIRST, NOW, SECONDS, SIZE, Session, content, tree
from tests.journal.kernel_log import opened
from tests.journal.log_writer import LOG_START

pytestmark = pytest.mark.heavy

CHANGED, MOVED, RECENT = "as-of-inode-changed", "as-of-map-changed", "as-of-recent-change"
ONE, TWO, THREE = (content(name, 3) for name in ("one", "two", "three"))


def as_of(session: Session, transaction: int) -> AsOfFileSystem:
    return file_system_as_of(opened(session.image), transaction)


def read(fs: AsOfFileSystem, path: str) -> tuple[bytes, str]:
    """The bytes of a file, and the code of why they are uncertain."""
    (found,) = [one for one in fs.walk(b"/") if one.path.decode() == path]
    assert found.inode is not None
    doubt = fs.content_uncertainty(found.inode)
    data = bytes(fs.content(found.inode).read(0, found.inode.size))
    return data, doubt.code if doubt else ""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Three files and directories that come, move and go, in transactions 11 to 15."""
    made = Session(tmp_path)
    one, two, three = (
        made.file(name, data) for name, data in (("1", ONE), ("2", TWO), ("3", THREE))
    )
    made.step(f"write {one} first", "mkdir dir")
    made.step(f"write {two} dir/second")
    made.step("rm first", "mkdir dir/other")
    made.step("ln dir/second linked", "unlink dir/second", f"write {three} dir/third")
    made.step("symlink dir/other/link /somewhere/else", "rmdir dir/other")
    return made


TREES = [
    {"/first", "/dir"},
    {"/first", "/dir", "/dir/second"},
    {"/dir", "/dir/second", "/dir/other"},
    {"/dir", "/dir/other", "/linked", "/dir/third"},
]


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("replayed", [None, 2, 4])
def test_the_tree_is_that_of_the_time(session: Session, step: int, replayed: int | None) -> None:
    fs = session.finish(replayed=replayed)
    if replayed is not None:
        log = Log.open(fs)
        assert log is not None
        fs = fs.with_blocks(replay(log, fs))
    then = file_system_as_of(fs, FIRST + step)
    found = tree(then)
    assert found.keys() == TREES[step]
    assert {path: session.number(path, step + 1) for path in found} == found
    assert [str(problem) for problem in then.problems] == []
    assert (then.as_of, then.unreadable) == (
        FIRST + step,
        f"is not known as of transaction {FIRST + step}",
    )


@pytest.mark.parametrize(
    ("step", "path", "data", "doubt"),
    [
        (0, "/first", None, CHANGED),
        (1, "/first", None, CHANGED),
        (1, "/dir/second", TWO, RECENT),
        (2, "/dir/second", TWO, ""),
        (3, "/linked", TWO, ""),  # debugfs leaves the inode of a new name as it is
        (4, "/linked", TWO, ""),
        (3, "/dir/third", THREE, RECENT),
        (4, "/dir/third", THREE, ""),
    ],
)
def test_contents_are_vouched_for_or_not(
    session: Session, step: int, path: str, data: bytes | None, doubt: str
) -> None:
    session.step("mkdir later")
    session.finish()
    found = read(as_of(session, FIRST + step), path)
    assert found[1] == doubt
    assert len(found[0]) == 3 * SIZE
    if data is not None:
        assert found[0] == data


def test_what_is_in_the_inode_is_as_certain_as_the_inode(tmp_path: Path) -> None:
    made = Session(tmp_path)
    made.step("symlink link /somewhere/else", "mkdir dir")
    made.step("rm link", "mkdir link")
    made.finish()
    assert read(as_of(made, FIRST), "/link") == (b"/somewhere/else", "")


def test_a_path_that_is_not_there_is_no_unknown_state(session: Session) -> None:
    session.finish()
    with pytest.raises(RequestError) as error:
        as_of(session, FIRST).lookup(b"/dir/second")
    assert not isinstance(error.value, UnknownStateError)
    assert as_of(session, FIRST + 1).lookup(b"/dir/second") == session.number("/dir/second", 2)


@pytest.mark.parametrize("asked", [FIRST - 1, FIRST + 5, 0])
def test_only_transactions_in_the_log_can_be_asked_for(session: Session, asked: int) -> None:
    session.finish()
    with pytest.raises(RequestError, match="the state after transactions 11 to 15$"):
        as_of(session, asked)


def test_reach_tells_times_and_floor(session: Session) -> None:
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    reach = as_of_range(log)
    assert reach.orders.tolist() == list(range(FIRST, FIRST + 5))
    assert (reach.complete_since, reach.time_before) == (FIRST, -1)
    times = [(NOW + SECONDS * step + 5) * 10**9 + 5 for step in range(5)]
    assert reach.commit_times.tolist() == times
    assert [reach.commit_time(FIRST + step) for step in range(5)] == times
    assert [reach.commit_time_before(FIRST + step) for step in range(5)] == [-1, *times[:4]]


def test_a_first_transaction_that_is_damaged_leaves_those_behind_it(session: Session) -> None:
    """Its commit time is known, and blocks that only it wrote are not."""
    copies = np.flatnonzero(session.writer.rows[LOG_START + 2])
    session.writer.rows[LOG_START + 2, copies[0]] ^= 1
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    reach = as_of_range(log)
    assert reach.orders.tolist() == list(range(FIRST + 1, FIRST + 5))
    assert reach.time_before == (NOW + 5) * 10**9 + 5
    assert reach.complete_since == FIRST
    with pytest.raises(RequestError, match="transactions 12 to 15"):
        as_of(session, FIRST)
    assert tree(as_of(session, FIRST + 1)).keys() == TREES[1]


def test_ids_that_are_missing_are_told_in_the_range(tmp_path: Path) -> None:
    made = Session(tmp_path)
    made.step("mkdir a")
    made.newest += 1  # an unmount passes over an id
    made.step("mkdir b")
    made.finish()
    assert tree(as_of(made, FIRST)).keys() == {"/a"}
    with pytest.raises(RequestError, match=r"11 to 13 \(some ids in between have no transaction\)"):
        as_of(made, FIRST + 1)


def test_a_check_and_fast_commits_are_told(tmp_path: Path) -> None:
    for options, what in (("", "checked later"), ("-O fast_commit", "fast commits")):
        folder = tmp_path / (options or "plain")
        folder.mkdir()
        made = Session(folder, options)
        made.step("mkdir a")
        if not options:
            made.step("mkdir b", f"ssv lastcheck @{NOW + 6}")
        made.finish()
        told = [str(one) for one in as_of(made, FIRST).problems]
        assert len(told) == 1
        assert what in told[0]


def test_a_file_that_is_written_in_place_is_doubtful_until_its_last_write(tmp_path: Path) -> None:
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "mkdir dir")
    number = made.number("/file")
    made.step(f"sif <{number}> ctime @{NOW + 100}", f"sif <{number}> mtime @{NOW + 100}")
    made.step("mkdir a")
    made.step("mkdir b")
    made.finish()
    doubts = [read(as_of(made, FIRST + step), "/file")[1] for step in range(4)]
    assert doubts[0] == CHANGED
    assert doubts[2:] == ["", ""]


def test_a_map_that_changed_is_told(tmp_path: Path) -> None:
    """A hole punched without a time: the inode's root stays where a tree lies below it."""
    made = Session(tmp_path)
    one = made.file("1", content("big", 20))
    made.step(f"write {one} file", *(f"punch file {n} {n}" for n in range(1, 14, 2)))
    made.step("mkdir a")
    node = [int(each) for each in made.ask("ex -n file").split() if each.isdigit()]
    assert node
    made.step("punch file 19 19")
    made.step("mkdir b")
    made.finish()
    assert read(as_of(made, FIRST + 1), "/file")[1] in (CHANGED, MOVED)
    assert read(as_of(made, FIRST + 3), "/file")[1] == ""


def test_contents_in_the_log_are_read_from_it(tmp_path: Path) -> None:
    """With data=journal: what was overwritten since is there, as long as the inode is the same."""
    made = Session(tmp_path, journaled=True)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "mkdir dir")
    made.step("mkdir a")
    (first, *_) = made.blocks("/file")
    number = made.number("/file")
    other = made.file("2", TWO)
    made.step(f"sif <{number}> ctime @{NOW + 200}", f"zap_block -p 65 {first}")
    made.step("rm file", f"write {other} new")
    assert made.blocks("/new")[0] == first
    made.finish()
    for step in (0, 1):
        assert read(as_of(made, FIRST + step), "/file") == (ONE, "")
    assert read(as_of(made, FIRST + 2), "/file")[0] == b"A" * SIZE + ONE[SIZE:]
    assert read(as_of(made, FIRST + 3), "/new") == (TWO, "")


def test_blocks_whose_state_is_not_known_cannot_be_read(session: Session) -> None:
    """A directory's block, freed and given to a file that is not in the log."""
    number = session.number("/dir")
    (block,) = session.blocks("/dir")
    session.step("unlink dir/third", "unlink dir/link", "rm linked")
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    moment = PointInTime(fs, BlockHistory(log), as_of_range(log), FIRST)
    assert moment.transaction == FIRST
    blocks = AsOfMetadataBlocks(moment, layout_blocks(fs))
    logged = set(log.tags.block.tolist())
    assert block in logged
    assert blocks.is_known(np.array([block])).tolist() == [True]
    assert moment.copies_as_of(np.array([block, 1, 0]))[0] >= 0
    assert moment.copies_as_of(np.array([4000])).tolist() == [-1]
    later = set(log.tags.block[log.tags.order > FIRST].tolist())
    for each in (block, 1, 4000, *sorted(later)[:3]):
        assert moment.changed_later(np.array([each])).tolist() == [each in later]
    newer = sorted(later - set(log.tags.block[log.tags.order == FIRST].tolist()) - {1, 2})
    unknown = np.array(newer)
    assert not blocks.is_known(unknown).any()
    with pytest.raises(
        UnknownStateError, match=f"block {newer[0]:,}: its state right after transaction 11"
    ):
        blocks.read_many(unknown)
    with pytest.raises(UnknownStateError):
        blocks.read(newer[0])
    assert len(blocks.read(newer[0], 0)) == 0
    assert number > 0


def test_superblock_and_descriptors_are_always_read(session: Session) -> None:
    fs = session.finish()
    assert layout_blocks(fs).tolist() == [1, 2]


def test_blocks_are_held_while_their_bit_stays_set(session: Session) -> None:
    """Blocks of `first` were freed by transaction 13; those of `second` never."""
    fs = session.finish()
    log = Log.open(fs)
    assert log is not None
    tenure = AllocationHistory(fs, BlockHistory(log))
    gone, stays = session.blocks("/first", 2)[-1], session.blocks("/linked")[0]
    both = np.array([gone, stays])
    assert tenure.stayed_allocated(both, FIRST, FIRST + 1).tolist() == [True, True]
    assert tenure.stayed_allocated(both, FIRST, FIRST + 2).tolist() == [False, True]
    assert tenure.stayed_allocated(both, FIRST + 1, FIRST + 1).tolist() == [True, True]
    assert tenure.stayed_allocated(both, np.array([FIRST + 2, FIRST + 1]), FIRST + 2).tolist() == [
        True,
        True,
    ]
    assert tenure.stayed_allocated(both, np.array([FIRST, FIRST - 1]), FIRST + 3).tolist() == [
        False,
        False,
    ]
    assert tenure.stayed_allocated(np.array([stays, 1, 5000, -1]), FIRST + 1).tolist() == [
        True, True, False, False
    ]  # fmt: skip


def test_a_revoked_copy_is_no_state(tmp_path: Path) -> None:
    made = Session(tmp_path)
    made.step("mkdir dir")
    (block,) = made.blocks("/dir")
    made.step("mkdir other", revokes=(block,))
    made.step("mkdir third")
    made.step("ln lost+found dir/x")
    fs = made.finish()
    log = Log.open(fs)
    assert log is not None
    history, reach = BlockHistory(log), as_of_range(log)
    states = [
        PointInTime(fs, history, reach, FIRST + step).copies_as_of(np.array([block]))
        for step in range(4)
    ]
    assert [int(state[0]) >= 0 for state in states] == [True, False, False, True]
    assert (
        AsOfContentBlocks(PointInTime(fs, history, reach, FIRST)).copies_of(np.array([4000])) == -1
    )


def test_orphans_of_today_are_none_of_then(tmp_path: Path) -> None:
    made = Session(tmp_path, logs_superblock=True)
    one = made.file("1", ONE)
    made.step(f"write {one} file")
    made.step("mkdir a")
    number = made.number("/file")
    made.step(f"ssv last_orphan {number}")
    fs = made.finish()
    assert fs.superblock.last_orphan == number
    assert as_of(made, FIRST).superblock.last_orphan == 0
    assert as_of(made, FIRST + 2).superblock.last_orphan == number


def test_without_a_copy_of_the_superblock_the_present_one_serves(tmp_path: Path) -> None:
    """Its orphans are those of today, unless a later transaction has changed it."""
    made = Session(tmp_path)
    one = made.file("1", ONE)
    made.step(f"write {one} file", "mkdir dir")
    made.step(f"ssv last_orphan {made.number('/file')}", "mkdir a")
    made.finish()
    assert as_of(made, FIRST).superblock.last_orphan == made.number("/file")
    made.logs_superblock = True
    made.step("mkdir b")
    made.finish()
    assert as_of(made, FIRST).superblock.last_orphan == 0
    assert as_of(made, FIRST + 2).superblock.last_orphan == made.number("/file")
