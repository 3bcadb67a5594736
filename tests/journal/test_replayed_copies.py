"""Copies that `journal replay -o` writes hold what e2fsck and the kernel make of the same image."""

from __future__ import annotations

import random
import stat
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

import ext4kit
from ext4kit.journal import Log, replay
from sample_images.recipes import machine
from tests.journal.crashes import (
    TIMES,
    Crash,
    Node,
    Setup,
    changed_blocks,
    crash,
    differences,
    kernel_tree,
    our_tree,
    recovered,
)
from tests.journal.kernel_log import opened
from tests.journal.replaying import called, replayed

pytestmark = pytest.mark.kernel

EXT4 = "-t ext4 -O ^metadata_csum_seed,^orphan_file"
NO_CHECKSUMS = f"{EXT4},^metadata_csum"
JOURNALED = "data=journal"

SETUPS = (
    Setup("ordered-4k-v3-64bit", f"{EXT4} -b 4096 -J size=4"),
    Setup("journaled-1k-v3-32bit", f"{EXT4},^64bit -b 1024 -J size=2", JOURNALED),
    Setup("writeback-2k-v1-async", f"{NO_CHECKSUMS} -b 2048 -J size=4",
          "data=writeback,journal_async_commit"),
    Setup("ext3-4k", "-t ext3 -b 4096 -J size=4"),
    Setup("wrapped-1k", f"{EXT4} -b 1024 -J size=1", JOURNALED, rounds=40),
)  # fmt: skip
MORE_SETUPS = (
    Setup("wrapped-4k", f"{EXT4} -b 4096 -J size=4", rounds=150, mebibytes=64),
    Setup("wrapped-ext3-1k", "-t ext3 -b 1024 -J size=1", rounds=80),
    Setup("wrapped-v1-async", f"{NO_CHECKSUMS} -b 1024 -J size=1",
          "data=writeback,journal_async_commit", rounds=80),
    Setup("ordered-1k-none-64bit", f"{NO_CHECKSUMS},64bit -b 1024 -J size=2"),
    Setup("ordered-2k-none-32bit", f"{NO_CHECKSUMS},^64bit -b 2048 -J size=4"),
    Setup("ordered-4k-none-64bit", f"{NO_CHECKSUMS},64bit -b 4096 -J size=4"),
    Setup("ordered-1k-v1-32bit", f"{NO_CHECKSUMS},^64bit -b 1024 -J size=2",
          "data=ordered,journal_checksum"),
    Setup("journaled-4k-v1-64bit", f"{NO_CHECKSUMS},64bit -b 4096 -J size=4",
          f"{JOURNALED},journal_checksum"),
    Setup("journaled-2k-v1-async", f"{NO_CHECKSUMS},64bit -b 2048 -J size=4",
          f"{JOURNALED},journal_async_commit"),
    Setup("ordered-1k-v3-64bit", f"{EXT4},64bit -b 1024 -J size=2"),
    Setup("ordered-2k-v3-32bit", f"{EXT4},^64bit -b 2048 -J size=4"),
    Setup("writeback-4k-v3-async", f"{EXT4} -b 4096 -J size=4",
          "data=writeback,journal_async_commit"),
    Setup("journaled-1k-v3-async", f"{EXT4} -b 1024 -J size=2",
          f"{JOURNALED},journal_async_commit"),
    Setup("journaled-4k-v3-64bit", f"{EXT4} -b 4096 -J size=4", JOURNALED),
    Setup("ext3-1k-journaled", "-t ext3 -b 1024 -J size=2", JOURNALED),
    Setup("ext3-2k-writeback", "-t ext3 -b 2048 -J size=4", "data=writeback"),
    Setup("bigalloc-4k", f"{EXT4},bigalloc -C 16384 -b 4096 -J size=4", mebibytes=64),
    Setup("bigalloc-1k-journaled", f"{EXT4},bigalloc -C 8192 -b 1024 -J size=2", JOURNALED),
    Setup("seed-in-superblock", "-t ext4 -O metadata_csum_seed,^orphan_file -b 4096 -J size=4"),
    Setup("inline-data", f"{EXT4},inline_data -I 256 -b 4096 -J size=4"),
)  # fmt: skip
FAST_COMMITS = (
    Setup("fast-commits-4k", f"{EXT4},fast_commit -b 4096 -J size=8", fast_commits=True),
    Setup("fast-commits-1k", f"{EXT4},fast_commit -b 1024 -J size=4", fast_commits=True),
)
ORPHANS = (
    Setup("orphan-list", f"{EXT4} -b 4096 -J size=4", orphans=True),
    Setup("orphan-file", "-t ext4 -O orphan_file,^metadata_csum_seed -b 4096 -J size=4",
          orphans=True),
    Setup("orphan-file-1k-journaled", "-t ext4 -O orphan_file -b 1024 -J size=2", JOURNALED,
          orphans=True),
)  # fmt: skip


def _choice(usual: tuple[Setup, ...], more: tuple[Setup, ...]) -> list[Any]:
    slow = [pytest.param(setup, id=setup.name, marks=pytest.mark.slow) for setup in more]
    return [pytest.param(setup, id=setup.name) for setup in usual] + slow


@pytest.fixture(scope="module", params=_choice(SETUPS, MORE_SETUPS))
def cut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crash:
    return crash(request.param, tmp_path_factory.mktemp("cut"))


@pytest.fixture(scope="module", params=_choice(ORPHANS[:1], ORPHANS[1:]))
def with_orphans(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crash:
    return crash(request.param, tmp_path_factory.mktemp("orphans"))


def test_a_copy_is_what_e2fsck_makes_of_it_byte_for_byte(cut: Crash, tmp_path: Path) -> None:
    ours = tmp_path / "ours.img"
    done = replayed(cut.image, ours)
    assert done.exit_code == 0, done.stderr
    theirs, _ = recovered(cut.image, None, tmp_path)
    assert differences(cut.image, theirs, TIMES)  # there was something to recover
    assert differences(ours, theirs, TIMES) == []


def test_the_tree_is_the_kernels_after_its_own_recovery(cut: Crash, tmp_path: Path) -> None:
    ours, kernels = tmp_path / "ours.img", tmp_path / "kernels.img"
    replayed(cut.image, ours)
    machine.copy_sparse(cut.image, kernels)
    expected = kernel_tree(kernels, f"{cut.setup.mount},noatime")
    assert len(expected) > 90
    assert our_tree(opened(ours)) == expected
    fs = opened(cut.image)
    log = Log.open(fs)
    assert log is not None
    assert our_tree(fs.with_blocks(replay(log, fs))) == expected
    assert kernel_tree(ours, "ro,noload") == expected
    assert not len(fs.problems)


def test_orphans_stay_what_the_log_says_of_them(with_orphans: Crash, tmp_path: Path) -> None:
    ours = tmp_path / "ours.img"
    assert replayed(with_orphans.image, ours).exit_code == 0
    theirs, _ = recovered(with_orphans.image, None, tmp_path, "debugfs")
    checked = (1024 + 0x40, 4)  # debugfs also takes back the time of the last check
    assert differences(ours, theirs, (*TIMES, checked)) == []
    assert len(opened(ours).orphans) == 6


@pytest.mark.parametrize("setup", _choice(FAST_COMMITS[:1], FAST_COMMITS[1:]))
def test_with_fast_commits_the_tree_is_the_kernels_and_the_copy_sound(
    setup: Setup, tmp_path: Path
) -> None:
    made = crash(setup, tmp_path)
    ours, kernels = tmp_path / "ours.img", tmp_path / "kernels.img"
    done = replayed(made.image, ours, "--json")
    assert done.exit_code == 0, done.stderr
    assert done.records("replay")[0]["fast_commit_blocks"] > 0
    machine.copy_sparse(made.image, kernels)
    expected = kernel_tree(kernels, "noatime")
    assert kernel_tree(ours, "ro,noload") == our_tree(opened(ours))
    assert without_folder_times(our_tree(opened(ours))) == without_folder_times(expected)
    machine.run("e2fsck", "-fn", ours)


def without_folder_times(tree: dict[bytes, Node]) -> dict[bytes, Node]:
    """The tree without the times of directories: the kernel's replay sets them to its own now."""
    return {
        path: node[:6] + node[8:] if stat.S_ISDIR(cast(int, node[1])) else node
        for path, node in tree.items()
    }


DEBUGFS_FORMATS = (
    ("-O ^64bit", "-c -v 2", True),
    ("-O 64bit", "-c -v 2", True),
    ("-O ^64bit", "-c -v 3", True),
    ("-O 64bit", "-c -v 3", True),
    ("-O 64bit,^metadata_csum", "", True),
    ("-O ^64bit,^metadata_csum", "", True),
    ("-O ^64bit,^metadata_csum", "-c -v 1", False),  # debugfs miscounts revokes in checksum v1
)


@pytest.mark.parametrize(("mkfs", "journal", "revokes"), DEBUGFS_FORMATS)
@pytest.mark.parametrize("size", [1024, pytest.param(4096, marks=pytest.mark.slow)])
def test_every_tag_format_is_replayed_as_e2fsck_does(
    mkfs: str, journal: str, revokes: bool, size: int, tmp_path: Path
) -> None:
    """Checksum v2 is written by no kernel of today: debugfs writes these logs."""
    image = tmp_path / "a.img"
    with image.open("xb") as file:
        file.truncate(48 << 20)
    machine.run("mke2fs", "-q", "-F", "-t", "ext4", "-b", str(size), *mkfs.split(), image)
    write_log(image, journal, size, revokes)
    ours = tmp_path / "ours.img"
    done = replayed(image, ours)
    assert done.exit_code == 0, done.stderr
    theirs, _ = recovered(image, None, tmp_path)
    changed = changed_blocks(image, ours, size)
    assert changed >= {7000, *range(7100, 7400)}
    assert (7001 in changed) != revokes
    assert differences(ours, theirs, TIMES) == []


def write_log(image: Path, journal: str, size: int, revokes: bool) -> None:
    """Let debugfs write transactions: escaped copies, a later copy, revokes, many tags."""
    content, other = image.with_name("content"), image.with_name("other")
    chance = random.Random(size)
    content.write_bytes((bytes.fromhex("c03b3998") + chance.randbytes(size))[:size])
    other.write_bytes(chance.randbytes(size * 300))
    transactions = (
        [f"jw -b 7000 {content}", f"jw -b 7001 {other}"],
        [f"jw -b 7100-7399 {other}"],
        [f"jw -b 7000 {other}", *(["jw -r 7001"] * revokes)],
    )
    requests = [line for each in transactions for line in (f"jo {journal}", *each, "jc")]
    script = image.with_name("script")
    script.write_text("\n".join([*requests, ""]))
    subprocess.run(["debugfs", "-w", "-f", script, image], capture_output=True, check=True)


def test_a_journal_superblock_of_version_1_is_replayed_as_e2fsck_does(tmp_path: Path) -> None:
    made = crash(Setup("v1-superblock", "-t ext3 -b 1024 -J size=2"), tmp_path)
    place = opened_log(made).superblock_block * 1024
    with made.image.open("r+b") as file:
        file.seek(place + 4)
        file.write(b"\0\0\0\3")
        file.seek(place + 36)
        file.write(bytes(1024 - 36))
    ours = tmp_path / "ours.img"
    assert replayed(made.image, ours).exit_code == 0
    theirs, _ = recovered(made.image, None, tmp_path)
    assert differences(made.image, theirs, TIMES)
    assert differences(ours, theirs, TIMES) == []


def opened_log(made: Crash) -> Log:
    log = Log.open(opened(made.image))
    assert log is not None
    return log


def test_a_lost_primary_superblock_does_not_hide_that_a_recovery_is_due(tmp_path: Path) -> None:
    made = crash(Setup("1k", f"{EXT4} -b 1024 -J size=2"), tmp_path)
    kernels = tmp_path / "kernels.img"
    machine.copy_sparse(made.image, kernels)
    expected = kernel_tree(kernels, "noatime")
    with made.image.open("r+b") as file:
        file.seek(1024)
        file.write(bytes(1024))
    with ext4kit.open(made.image) as image:
        assert our_tree(image.volume().filesystem()) == expected
    ours = tmp_path / "ours.img"
    assert replayed(made.image, ours).exit_code == 0
    assert our_tree(opened(ours)) == expected


def test_what_the_superblock_says_of_errors_is_newer_than_the_logs_copy(tmp_path: Path) -> None:
    made = crash(Setup("1k", f"{NO_CHECKSUMS} -b 1024 -J size=2"), tmp_path)
    assert 1 in replay(opened_log(made)).plan.blocks  # the superblock is in the log
    with made.image.open("r+b") as file:
        for offset, data in ((0x3A, b"\3"), (0x194, b"\5"), (0x198, b"\1\2\3\4"), (0x1A8, b"why")):
            file.seek(1024 + offset)
            file.write(data)
    ours, kernels = tmp_path / "ours.img", tmp_path / "kernels.img"
    assert replayed(made.image, ours).exit_code == 0
    machine.copy_sparse(made.image, kernels)
    kernel_tree(kernels, "noatime")
    told = [error_lines(image) for image in (ours, kernels)]
    assert told[0] == told[1]
    assert "FS Error count:           5" in told[0]
    assert any("why" in line for line in told[0])


def error_lines(image: Path) -> list[str]:
    lines = machine.run("dumpe2fs", "-h", image).decode().splitlines()
    return [line for line in lines if "rror" in line]


@pytest.mark.parametrize("asks", [True, False])
def test_where_nothing_is_due_a_copy_has_no_other_blocks(asks: bool, tmp_path: Path) -> None:
    """An empty log under a file system that asks for recovery; a full one under one that does not.

    The kernel and e2fsck (unless told to run it anyway) leave a log alone that nobody asks for.
    """
    made = crash(Setup("1k", f"{NO_CHECKSUMS} -b 1024 -J size=2"), tmp_path)
    empty, image, ours = (tmp_path / name for name in ("empty.img", "image.img", "ours.img"))
    replayed(made.image, empty)
    machine.copy_sparse(empty if asks else made.image, image)
    change = "needs_recovery" if asks else "-needs_recovery"
    machine.run("debugfs", "-w", "-R", f"feature {change}", image)
    done = replayed(image, ours)
    assert done.exit_code == 0, done.stderr
    if asks:
        theirs, _ = recovered(image, None, tmp_path)
        assert differences(image, theirs, TIMES)
        assert differences(ours, theirs, TIMES) == []
    else:
        assert differences(ours, image) == []
        assert "is not marked for recovery" in done.stderr


def test_the_command_tells_what_a_recovery_would_do(cut: Crash, tmp_path: Path) -> None:
    done = called("journal", "replay", cut.image, "--json")
    (facts,) = done.records("replay")
    theirs, _ = recovered(cut.image, None, tmp_path)
    size = opened(cut.image).blocks.block_size
    changed = changed_blocks(cut.image, theirs, size)
    assert facts["is_due"] is True
    assert facts["blocks"] >= len(changed) - 2  # both superblocks may not be among them
    if cut.setup.name.startswith("wrapped"):
        assert facts["first"] > 30
    told = [record["transaction"] for record in done.records("transaction")]
    assert told == list(range(facts["first"], facts["last"] + 1))
    said = machine.run("dumpe2fs", "-h", theirs).decode()
    sequence = next(line.split()[-1] for line in said.splitlines() if "Journal sequence" in line)
    assert int(sequence, 16) == facts["last"] + 2
    shown = called("journal", "replay", cut.image).stdout
    assert f"{facts['transactions']} transactions" in shown
    assert len(shown.splitlines()) > facts["transactions"]
    again = called("journal", "replay", theirs)
    assert "none: the journal is empty" in again.stdout
    assert again.exit_code == 0
