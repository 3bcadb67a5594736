"""Power cuts between any two writes: the recorded disk, the cuts, the judge, and what it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from sample_images.recipes import machine
from sample_images.recipes.history_book import Version
from tests.environment import needs
from tests.evidence.failing_disk import missing
from tests.powercut.__main__ import judge_cuts
from tests.powercut.cut_judge import Tally, ask_kernel, judge
from tests.powercut.recording_disk import FLUSH, RECORD
from tests.powercut.told_writes import CUT_LAYOUTS, Moment, Told, go_on, tell
from tests.powercut.write_log import KINDS, MAGIC, SECTOR, Cut, WriteLog

OPERATIONS, CUTS = 120, 3
JUDGED = ("default", "ext3", "no_metadata_csum", "block_1k", "data_journal", "writeback")
SOME_WHOLE, AGREEING = 80, 0.8  # records; share of the consistent ones that are right
BLOCK = 4096
DESCRIPTOR = 1


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """Give the history of a layout, told once."""
    if reason := missing():
        pytest.skip(reason)

    @cache
    def give(name: str) -> Told:
        folder = tmp_path_factory.mktemp("told")
        return tell(CUT_LAYOUTS[name], 1, OPERATIONS, folder, mild=True)

    return give


# -- the recorded disk ----------------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["default", "ext3"])
def test_writes_and_flushes_come_in_the_order_that_the_kernel_waits_for(
    name: str, told: Callable[[str], Told]
) -> None:
    """A descriptor, a flush, the commit block, a flush, and only then the next descriptor."""
    log = told(name).log
    descriptors = _descriptors(log)
    assert len(log.commits) >= 5
    for commit, following in zip(log.commits, [*log.commits[1:], None], strict=True):
        own = descriptors[commit.tid]
        assert any(max(own) < flush < commit.event for flush in log.flushes)
        if following is not None:
            assert following.tid > commit.tid
            later = min(descriptors[following.tid])
            assert any(commit.event < flush < later for flush in log.flushes)


def _descriptors(log: WriteLog) -> dict[int, list[int]]:
    """The writes with descriptor blocks of each transaction."""
    found: dict[int, list[int]] = {}
    for number, event in enumerate(log.events):
        for at in range(0, len(event.data), log.block_size):
            head = event.data[at : at + 12]
            if head.startswith(MAGIC) and int.from_bytes(head[4:8], "big") == DESCRIPTOR:
                found.setdefault(int.from_bytes(head[8:12], "big"), []).append(number)
    return found


@pytest.mark.kernel
def test_all_writes_together_are_the_unmounted_disk(
    told: Callable[[str], Told], tmp_path: Path
) -> None:
    history, image = told("default"), tmp_path / "image"
    image.write_bytes(history.log.image(history.log.prefix(len(history.log.events))))
    machine.run("e2fsck", "-fn", image)
    with machine.mounted(image, "ro") as root:
        for path, life in history.book.tree.items():
            if life.kind == "file":
                assert (root / path.decode()).read_bytes() == life.data


# -- cuts -----------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> WriteLog:
    """Two writes, a flush, and three writes behind it, the last one of two blocks."""
    image, log = tmp_path / "image", tmp_path / "log"
    machine.make_file_system(image, 1 << 20, ("-t", "ext4", "-O", "^has_journal"))
    writes = [(100, b"a", 1), (101, b"b", 1), FLUSH, (100, b"c", 1), (100, b"d", 1), (102, b"e", 2)]
    with log.open("xb") as file:
        for moment, write in enumerate(writes):
            block, byte, count = write if isinstance(write, tuple) else (0, b"", 0)
            offset = block * BLOCK if count else FLUSH
            file.write(RECORD.pack(moment, offset, count * BLOCK) + byte * count * BLOCK)
    return WriteLog(image, log)


def _blocks(log: WriteLog, cut: Cut) -> bytes:
    """The first byte of each of the blocks 100 to 103."""
    data = log.image(cut)
    return bytes(data[block * BLOCK] for block in range(100, 104))


@needs("mke2fs", "dumpe2fs")
def test_what_was_flushed_is_on_every_image(written: WriteLog) -> None:
    chance = random.Random(1)
    images = {_blocks(written, written.subset(6, chance)) for _ in range(200)}
    assert {image[:1] for image in images} == {b"a", b"c", b"d"}
    assert all(image[1:2] == b"b" for image in images)
    assert {image[2:] for image in images} >= {b"\0\0", b"ee"}


@needs("mke2fs", "dumpe2fs")
def test_a_cut_at_a_flush_has_nothing_behind_it_and_a_prefix_has_all(written: WriteLog) -> None:
    assert _blocks(written, written.at_flush(2)) == b"ab\0\0"
    assert _blocks(written, written.prefix(1)) == b"a\0\0\0"
    assert _blocks(written, written.prefix(4)) == b"cb\0\0"
    assert _blocks(written, written.prefix(6)) == b"dbee"


@needs("mke2fs", "dumpe2fs")
def test_a_long_write_can_be_there_in_part(written: WriteLog) -> None:
    data = written.image(Cut(6, (5,), {5: (0, 9)}))
    assert data[102 * BLOCK :][: 2 * BLOCK].count(b"e") == 2 * SECTOR
    assert data[103 * BLOCK + SECTOR] == ord("e")


# -- the judge ------------------------------------------------------------------------------------


@pytest.mark.kernel
def test_the_kernel_and_the_judge_agree_which_files_live(
    told: Callable[[str], Told], tmp_path: Path
) -> None:
    history, tally, image = told("default"), Tally(), tmp_path / "cut.img"
    for cut in history.log.cuts(random.Random(2), 8):
        image.write_bytes(history.log.image(cut))
        ask_kernel(tally, image, Moment(history, cut))
    assert tally.counts["asked"] >= 50
    assert not tally.counts["untrue"], tally.findings


@pytest.mark.kernel
def test_they_agree_after_the_file_system_was_used_again(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    first = tell(CUT_LAYOUTS["default"], 4, OPERATIONS, tmp_path)
    again = go_on(first, first.log.cuts(random.Random(4), 1, {"subset": 1})[0], 80, tmp_path)
    tally, image = Tally(), tmp_path / "cut.img"
    for cut in again.log.cuts(random.Random(5), 6):
        image.write_bytes(again.log.image(cut))
        ask_kernel(tally, image, Moment(again, cut))
    assert tally.counts["asked"] >= 30
    assert not tally.counts["untrue"], tally.findings


@pytest.mark.kernel
def test_the_judge_of_cuts_notices_a_wrong_word(
    told: Callable[[str], Told], tmp_path: Path
) -> None:
    history, image = told("ext3"), tmp_path / "cut.img"
    cut = history.log.at_flush(history.log.flushes[-1])
    image.write_bytes(history.log.image(cut))
    sound = judge(image, Moment(history, cut))
    assert sound.counts["exact"]
    kept = {key: (life.versions, life.pieces) for key, life in history.book.lives.items()}
    try:
        for life in history.book.lives.values():
            first = life.versions[0].operation if life.versions else 0
            life.versions, life.pieces = [Version(first, 0, 1, "of other bytes")], set()
        wrong = judge(image, Moment(history, cut)).counts
    finally:
        for key, life in history.book.lives.items():
            life.versions, life.pieces = kept[key]
    assert not wrong["exact"] + wrong["previous"]
    assert wrong["foreign"] + wrong["mixed"] + wrong["empty"] >= sound.counts["exact"]


# -- what is said ---------------------------------------------------------------------------------


@pytest.mark.kernel
def test_nothing_that_is_called_intact_after_a_power_cut_is_wrong(
    told: Callable[[str], Told], tmp_path: Path
) -> None:
    """Of files that are written once, when the power goes right behind a commit.

    Nothing is on the disk then that no transaction tells of. All layouts are judged together, so
    that the floor holds whatever the kernel does in one of them.
    """
    total = _judged(told, {"commit": 1}, tmp_path)
    assert not total.wrong, total.findings
    assert total.counts["exact"] + total.counts["agreeing"] >= SOME_WHOLE


@pytest.mark.kernel
def test_hardly_anything_that_is_called_intact_after_any_cut_is_wrong(
    told: Callable[[str], Told], tmp_path: Path
) -> None:
    """What the running transaction had sent is there too; the scenes have what it can spoil."""
    total = _judged(told, KINDS, tmp_path)
    assert not total.wrong, total.findings
    assert total.counts["exact"] + total.counts["agreeing"] >= SOME_WHOLE
    assert total.counts["agreeing"] >= AGREEING * total.counts["consistent"]


def _judged(told: Callable[[str], Told], kinds: Mapping[str, int], folder: Path) -> Tally:
    total = Tally()
    for name in JUDGED:
        history = told(name)
        cuts = history.log.cuts(random.Random(3), CUTS, kinds)
        for tally in judge_cuts(history, cuts, folder, folder / "wrong").values():
            total.add(tally)
    return total
