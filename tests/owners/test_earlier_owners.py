"""Who had a block before is what the truth of the image says, with the path of that time."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import ext4kit as library
from ext4kit.journal.block_types import BlockRole
from ext4kit.owners.answers import BlockAnswer, who
from ext4kit.owners.earlier import EarlierOwners, Knowledge
from ext4kit.recovery import Grade, find_deleted
from ext4kit.recovery.records import FoundFiles
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.workspace import Workspace
from sample_images import Built
from sample_images.recipes.truth import load
from tests.conftest import Images

PACKED = ("rm_rf_tree", "ext3", "power_cut", "orphan_file", "large_extent_leaves")
MADE = (
    "reuse", "truncate_rewrite", "editor_save", "renamed_moved", "reuse_by_metadata",
    "cut_short_first", "preallocated",
)  # fmt: skip


def answers_of(image: Path) -> list[BlockAnswer]:
    with library.open(image) as opened:
        fs = opened.filesystem()
        every = np.arange(fs.superblock.blocks_count)
        return who(Workspace(fs), every, frozenset({SearchSource.JOURNAL, SearchSource.BLOCKS}))


def check_truth(sample: Built) -> None:
    """Each block of each deleted file or earlier version is told, and nothing that is not so."""
    answers, truth = answers_of(sample.image), load(sample.truth)
    said = {
        (answer.block, use.inode, use.generation, use.file_block): use.paths
        for answer in answers
        for use in answer.earlier
        if use.role in (BlockRole.FILE_DATA, BlockRole.SYMLINK)
    }
    now = {
        (answer.block, use.inode, use.file_block) for answer in answers for use in answer.present
    }
    true: set[tuple[int, int, int, int]] = set()
    for file in truth.files:
        for logical, first, count, _ in file.blocks:
            for at in range(count):
                key = first + at, file.inode, file.generation, logical + at
                true.add(key)
                is_told = key in said or (first + at, file.inode, logical + at) in now
                assert is_told or not file.inode_known, (file.path, key)
                if key in said:
                    assert b"/" + file.path in said[key], key
    known = {(file.inode, file.generation) for file in truth.files}
    assert {key for key in said if key[1:3] in known} <= true


@pytest.mark.parametrize("name", PACKED)
def test_earlier_owners_in_a_sample_are_true(unpacked: Images, name: str) -> None:
    check_truth(unpacked(name))


@pytest.mark.usefixtures("needs_kernel")
@pytest.mark.heavy
@pytest.mark.parametrize("name", MADE)
def test_earlier_owners_of_reused_blocks_are_true(built: Images, name: str) -> None:
    check_truth(built(name))


def test_a_deleted_file_that_is_whole_is_told_with_its_blocks(unpacked: Images) -> None:
    whole = defaultdict[int, set[int]](set)
    for answer in answers_of(unpacked("rm_rf_tree").image):
        for use in answer.earlier:
            if use.file is not None and use.file.grade is Grade.INTACT and use.file_block >= 0:
                assert not use.is_reused
                assert answer.is_allocated is False
                whole[use.inode].add(use.file_block)
    with library.open(unpacked("rm_rf_tree").image) as opened:
        files = [file for file in find_deleted(opened.filesystem()) if file.grade is Grade.INTACT]
    for file in files:
        blocks = {logical + at for logical, _, count in file.extents for at in range(count)}
        assert blocks <= whole[file.number or 0]
    assert len(whole) > 100


def test_transactions_and_the_end_are_told(unpacked: Images) -> None:
    uses = [use for answer in answers_of(unpacked("rm_rf_tree").image) for use in answer.earlier]
    journal = [use for use in uses if use.knowledge is Knowledge.JOURNAL]
    assert len(journal) > 300
    for use in journal:
        assert use.first is not None and use.last is not None and use.ended is not None
        assert use.first.transaction <= use.last.transaction < use.ended.transaction


def test_blocks_of_the_journal_are_what_the_log_says(unpacked: Images) -> None:
    answers = answers_of(unpacked("rm_rf_tree").image)
    for answer in answers:
        for copy in answer.copies:
            assert copy.offset is not None
            (held,) = [one for one in answers if one.block == copy.offset // 4096]
            assert held.role is BlockRole.JOURNAL and held.present[0].number == copy.log_block
            assert held.log is not None and held.log.home == answer.block
            assert held.log.transaction == copy.transaction
    kinds = {answer.log.kind for answer in answers if answer.log is not None}
    assert {"superblock of the journal", "descriptor block", "commit block", "empty"} <= kinds


def test_many_blocks_cost_no_walk_for_each(unpacked: Images) -> None:
    with library.open(unpacked("rm_rf_tree").image) as opened:
        found = find_deleted(opened.filesystem(), True).files
        assert isinstance(found, FoundFiles)
        owners = EarlierOwners(found)
        asked = np.random.default_rng(1).integers(0, 8192, 1_000_000)
        start = time.process_time()
        uses = owners.of(asked)
        assert time.process_time() - start < 20  # half a second here
    few = owners.of(np.unique(asked))
    times = np.bincount(np.searchsorted(np.unique(asked), asked))
    assert len(uses) == times[few.place].sum()
