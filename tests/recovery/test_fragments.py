"""What is called a file is one, also where later files wrote over a part of earlier ones."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import DeletedFile, Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from sample_images.recipes import machine
from sample_images.recipes.contents import noise
from sample_images.recipes.documents import SUFFIXES, document
from sample_images.recipes.history_judge import Verdict
from sample_images.recipes.history_layouts import LAYOUTS
from sample_images.recipes.random_history import told_and_judged

FILES = 150
BLOCK = 4096
ENOUGH = 0.9
MOST = 0.7  # of some twenty files on disks that are made anew each time; 9 of 10 in the long run


@pytest.fixture(scope="module")
def texts() -> list[bytes]:
    """Texts, logs and settings of some blocks each."""
    chance = random.Random("fragments")
    names = [f"{number}{chance.choice(SUFFIXES)}" for number in range(FILES)]
    return [document(name, chance.randint(3 * BLOCK, 12 * BLOCK)) for name in names]


@pytest.fixture(scope="module")
def removed(
    needs_kernel: None, texts: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An image without a journal from which they were removed."""
    image = tmp_path_factory.mktemp("fragments") / "removed.img"
    machine.make_file_system(image, 16 << 20, ("-t", "ext4", "-O", "^has_journal", "-N", "512"))
    with machine.mounted(image, "rw") as root:
        for number, content in enumerate(texts):
            (root / f"{number}").write_bytes(content)
    with machine.mounted(image, "rw") as root:
        for number in range(FILES):
            (root / f"{number}").unlink()
    return image


def carved(image: Path) -> list[DeletedFile]:
    """What is found without a map in an inode."""
    fs = ext4kit.open(image).volume().filesystem()
    return [one for one in find_deleted(fs, sources=ALL_SOURCES) if one.grade is Grade.CARVED]


def are_in(files: list[DeletedFile], contents: list[bytes]) -> list[bool]:
    """Whether each is exactly one of the contents."""
    known = {hashlib.sha256(content).digest() for content in contents}
    found = []
    for file in files:
        content = file.content()
        assert content is not None
        found.append(hashlib.sha256(content.read(0, content.size)).digest() in known)
    return found


@pytest.mark.kernel
def test_where_nothing_was_written_since_all_are_files(removed: Path, texts: list[bytes]) -> None:
    found = carved(removed)
    assert len(found) == FILES
    assert not any(file.fragment for file in found)
    assert all(are_in(found, texts))


@pytest.mark.kernel
def test_what_later_files_left_of_earlier_ones_is_called_a_piece(
    removed: Path, texts: list[bytes], tmp_path: Path
) -> None:
    image, chance = tmp_path / "used-again.img", random.Random("again")
    machine.copy_sparse(removed, image)
    later = [noise(f"{at}", chance.randint(1, 9 * BLOCK)) for at in range(FILES // 2)]
    with machine.mounted(image, "rw") as root:
        for number, content in enumerate(later):
            (root / f"later-{number}").write_bytes(content)
    with machine.mounted(image, "rw") as root:
        for number in range(0, len(later), 3):
            (root / f"later-{number}").unlink()
    found = carved(image)
    sure = [file for file in found if not file.problems]
    exact = are_in(sure, texts + later)
    assert len(sure) > FILES // 8
    assert sum(exact) >= ENOUGH * len(sure)
    pieces = [file for file in found if file.fragment]
    assert pieces
    assert sum(are_in(pieces, texts)) <= len(pieces) // 2


@pytest.mark.kernel
@pytest.mark.slow
def test_what_is_called_a_file_on_churned_disks_is_one_as_a_rule(tmp_path: Path) -> None:
    total = Verdict()
    for seed, name in enumerate(LAYOUTS, 300):
        total.add(told_and_judged(LAYOUTS[name], seed, 400, tmp_path)[1])
    sure = {
        result: sum(
            count
            for (source, came), count in total.sources.carved.items()
            if came == result and "," not in source
        )
        for result in ("exact", "inexact")
    }
    assert sure["exact"] >= MOST * sum(sure.values())
    assert sum(sure.values()) > 0
