"""A full leaf of a hashed directory split in two, with hashes that are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ext4kit.errors import CorruptError
from ext4kit.journal.fast_commits.directories import DirectoryEditor
from tests.journal.test_written_fast_commits_directories import big_name, directory_of, scene

LENGTH = 200  # of a name: 208 bytes of a record, four to a block


@pytest.fixture
def folder(tmp_path: Path) -> DirectoryEditor:
    """A directory of four blocks, of which the second one is split."""
    made = scene(tmp_path, "-b 1024 -O ^metadata_csum", count=14, length=LENGTH)
    return directory_of(made, made.number("/big"))


def names(folder: DirectoryEditor, number: int) -> list[bytes]:
    return [slot.name for slot in folder._leaf(number).entries()]


def split(
    folder: DirectoryEditor, hashes: list[int], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[bytes], list[bytes], int]:
    """(names that stay, names that move, hash of the new leaf), the first having these hashes."""
    order = names(folder, 1)
    by_name = dict(zip(order, hashes, strict=True))
    monkeypatch.setattr(DirectoryEditor, "_hash", lambda _, __, name: by_name[name])
    index: Any = None
    count = len(folder.blocks)
    number, value = folder._split_leaf(index, 1)
    assert number == count
    return names(folder, 1), names(folder, number), value


def test_a_leaf_holds_four_of_these_names(folder: DirectoryEditor) -> None:
    assert len(names(folder, 1)) == 4
    assert {len(name) for name in names(folder, 1)} == {len(big_name(1, LENGTH))}


@pytest.mark.parametrize(
    ("hashes", "stay", "value"),
    [
        ([2, 4, 6, 8], [0, 1], 6),
        ([8, 6, 4, 2], [3, 2], 6),
        ([6, 2, 8, 4], [1, 3], 6),
        ([2, 4, 4, 8], [0, 1], 4 | 1),
        ([4, 4, 4, 4], [0, 1], 4 | 1),
        ([2, 2, 6, 6], [0, 1], 6),
    ],
)
def test_the_upper_half_of_the_hashes_moves(
    hashes: list[int],
    stay: list[int],
    value: int,
    folder: DirectoryEditor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lowest bit says that names with the same hash stayed in the leaf before."""
    before = names(folder, 1)
    kept, moved, got = split(folder, hashes, monkeypatch)
    assert kept == [before[place] for place in stay]
    assert sorted(moved) == sorted(set(before) - set(kept))
    assert got == value


def test_a_leaf_with_one_name_cannot_be_split(
    folder: DirectoryEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf = folder._leaf(1)
    for slot in leaf.entries()[1:]:
        leaf.remove(slot.offset)
    assert len(names(folder, 1)) == 1
    with pytest.raises(CorruptError, match="cannot be split"):
        split(folder, [4], monkeypatch)
