"""Which instance of an inode number an entry names, and which removed entries name none."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ext4kit.arrays.types import NO_ROW
from ext4kit.history.directory_blocks import TID_BEFORE_LOG
from ext4kit.history.entry_intervals import SLACK_ENTRY, EntryIntervals
from ext4kit.history.names import (
    _are_names_of_others,
    _continues_logged_instance,
    _were_gone_before,
)
from ext4kit.history.removed import Removed
from tests.recovery.made_history import past_of, state


def _entry(inode: int, first_seen: int, last_seen: int) -> EntryIntervals:
    """An entry `name` of one directory."""
    one = np.ones(1, np.int64)
    columns: Any = {each.name: one for each in fields(EntryIntervals)} | {"name": [b"name"]}
    entry = EntryIntervals(**columns)
    return replace(entry, inode=one * inode, first_seen=one * first_seen, last_seen=one * last_seen)


@pytest.mark.parametrize(
    ("first", "last", "contradicts"),
    [
        (42, 44, True),
        (42, 60, True),
        (49, 60, False),  # the instance was gone
        (30, 38, False),  # the removed entry came later
    ],
)
def test_a_removed_entry_names_no_inode_that_was_linked_while_another_had_the_name(
    first: int, last: int, contradicts: bool
) -> None:
    one = np.ones(1, np.int64)
    removed = Removed(_entry(53, 43, SLACK_ENTRY), one * 40, one * 0, one * 0)
    history: Any = SimpleNamespace(linked_tids=(one * 35, one * 45))
    for inode in (53, 68):
        found = _are_names_of_others(history, removed, one * 0, _entry(inode, first, last))
        assert found.tolist() == [contradicts and inode == 68]


@pytest.mark.parametrize(
    ("first", "is_gone"), [(40, True), (45, True), (46, False), (TID_BEFORE_LOG, False)]
)
def test_a_removed_entry_is_no_last_name_of_an_inode_that_had_a_link_afterwards(
    first: int, is_gone: bool
) -> None:
    one = np.ones(1, np.int64)
    removed = Removed(_entry(53, first, SLACK_ENTRY), one * first, one * 0, one * 0)
    history: Any = SimpleNamespace(linked_tids=(one * 35, one * 45))
    assert _were_gone_before(history, removed, one * 0).tolist() == [is_gone]
    assert _were_gone_before(history, removed, one * NO_ROW).tolist() == [False]


def test_an_untagged_copy_is_of_the_instance_that_the_journal_had_before_it() -> None:
    history = past_of(
        state(life=0, order=2),
        state(life=0, order=4, undescribed=True),
        state(life=1, order=6, undescribed=True),
        state(life=1, order=8),
    )
    assert _continues_logged_instance(history).tolist() == [True, True, False, True]
