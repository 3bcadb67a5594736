"""Logs on a device of their own, and logs that somebody copied to a file."""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from pathlib import Path

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.journal import Log, replay
from ext4kit.parsers.recovery import emptied_journal_superblock
from sample_images.recipes import machine
from tests.journal.crashes import (
    TIMES,
    Crash,
    Setup,
    crash,
    differences,
    kernel_tree,
    our_tree,
    recovered,
)
from tests.journal.kernel_log import opened
from tests.journal.replaying import called, replayed
from tests.journal.test_replayed_copies import EXT4, JOURNALED, NO_CHECKSUMS

pytestmark = pytest.mark.kernel

SLOW = pytest.mark.slow
DEVICES = (
    Setup("4k-v3", f"{EXT4} -b 4096", journal="-b 4096"),
    pytest.param(Setup("1k-v3-journaled", f"{EXT4} -b 1024", JOURNALED, "-b 1024"), marks=SLOW),
    pytest.param(
        Setup("1k-v1-async", f"{NO_CHECKSUMS} -b 1024", "data=writeback,journal_async_commit",
              "-b 1024"),
        marks=SLOW),
    pytest.param(Setup("2k-none", f"{NO_CHECKSUMS},^64bit -b 2048", journal="-b 2048"), marks=SLOW),
    pytest.param(Setup("4k-v1", f"{NO_CHECKSUMS} -b 4096", f"{JOURNALED},journal_checksum",
                       "-b 4096"), marks=SLOW),
    pytest.param(Setup("ext3-1k", "-t ext3 -b 1024", journal="-b 1024"), marks=SLOW),
    pytest.param(Setup("ext3-4k-journaled", "-t ext3 -b 4096", JOURNALED, "-b 4096"), marks=SLOW),
)  # fmt: skip
UUID_PLACE = 1024 + 0x68
USERS_PLACE = 4096 + 0x40  # s_nr_users of a journal device with 4 KiB blocks


@pytest.fixture(scope="module", params=DEVICES, ids=lambda setup: setup.name)
def cut(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Crash:
    return crash(request.param, tmp_path_factory.mktemp("device"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Crash:
    setup = Setup("4k", f"{EXT4} -b 4096", journal="-O journal_dev,metadata_csum -b 4096")
    return crash(setup, tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Crash:
    setup = Setup("inside", f"{EXT4} -b 4096 -J size=4")
    return crash(setup, tmp_path_factory.mktemp("inside"))


def test_both_copies_are_what_e2fsck_makes_of_them(cut: Crash, tmp_path: Path) -> None:
    ours, log = tmp_path / "ours.img", tmp_path / "ours.jnl"
    done = replayed(cut.image, ours, *cut.journal_options, "--journal-copy", log)
    assert done.exit_code == 0, done.stderr
    theirs, their_log = recovered(cut.image, cut.journal, tmp_path)
    assert their_log is not None
    assert differences(cut.image, theirs, TIMES)
    assert differences(ours, theirs, TIMES) == []
    assert differences(log, their_log) == []


def test_the_tree_is_the_kernels_after_its_own_recovery(cut: Crash, tmp_path: Path) -> None:
    kernels, log = tmp_path / "kernels.img", tmp_path / "kernels.jnl"
    machine.copy_sparse(cut.image, kernels)
    assert cut.journal is not None
    machine.copy_sparse(cut.journal, log)
    expected = kernel_tree(kernels, f"{cut.setup.mount},noatime", log)
    fs = opened(cut.image)
    fs.journal_device = open_evidence(cut.journal).source
    own = Log.open(fs)
    assert own is not None
    assert our_tree(fs.with_blocks(replay(own, fs))) == expected


def test_without_the_device_the_rest_is_read_and_the_lack_is_told(one: Crash) -> None:
    done = called("ls", one.image, "/")
    assert done.exit_code == 1
    assert "lost+found" in done.stdout
    assert "another device" in done.stderr
    assert _uuid(one.journal) in done.stderr
    assert called("journal", "replay", one.image).exit_code == 1


def _uuid(device: Path | None) -> str:
    assert device is not None
    said = machine.run("dumpe2fs", "-h", device).decode()
    return next(line.split()[-1] for line in said.splitlines() if "Filesystem UUID" in line)


def _changed(journal: Path | None, target: Path, offset: int, data: bytes) -> Path:
    assert journal is not None
    machine.copy_sparse(journal, target)
    with target.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    return target


def test_a_device_of_another_file_system_is_not_read(one: Crash, tmp_path: Path) -> None:
    other, name = tmp_path / "other.jnl", "11111111-2222-3333-4444-555555555555"
    with other.open("xb") as file:
        file.truncate(8 << 20)
    machine.run("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "4096", "-U", name, other)
    done = called("ls", one.image, "--journal", other)
    assert done.exit_code == 1
    assert name in done.stderr
    assert _uuid(one.journal) in done.stderr
    copy = tmp_path / "copy.img"
    assert replayed(one.image, copy, "--journal", other).exit_code == 1
    assert not copy.exists()


@pytest.mark.parametrize(
    ("offset", "data", "said"),
    [
        (UUID_PLACE - 0x68 + 0x38, b"\0\0", "not an external journal"),  # s_magic
        (UUID_PLACE - 0x68 + 0x2C, b"\x77", "bad checksum"),  # s_mtime: the checksum is stale
        (4096, b"\0", "magic"),
        (4096 + 12, b"\0\0\x04\0", "block size 1024"),
    ],
)
def test_a_device_that_cannot_be_used_is_told(
    one: Crash, tmp_path: Path, offset: int, data: bytes, said: str
) -> None:
    device = _changed(one.journal, tmp_path / "bad.jnl", offset, data)
    done = called("ls", one.image, "/", "--journal", device)
    assert "lost+found" in done.stdout
    assert done.exit_code == 1
    assert said in done.stderr


def test_a_device_that_ends_early_is_told(one: Crash, tmp_path: Path) -> None:
    assert one.journal is not None
    for size in (1, 1500, 5000, 1 << 20):
        device = tmp_path / f"{size}.jnl"
        device.write_bytes(one.journal.read_bytes()[:size])
        done = called("ls", one.image, "/", "--journal", device)
        assert done.exit_code == 1, size
        assert "lost+found" in done.stdout


def test_several_users_of_a_device_are_listed_and_nothing_is_replayed(tmp_path: Path) -> None:
    """e2fsck and the kernel refuse such a device: nobody knows whose a copy is."""
    made = crash(Setup("none", f"{NO_CHECKSUMS} -b 4096", journal="-b 4096"), tmp_path)
    assert made.journal is not None
    second = uuid.UUID("0c8f7a52-2f4e-4d0b-9f5e-1b7a7a3c9d10")
    with made.journal.open("r+b") as file:
        for place, data in ((USERS_PLACE, b"\0\0\0\2"), (4096 + 0x110, second.bytes)):
            file.seek(place)
            file.write(data)
    refused = recovered(made.image, made.journal, tmp_path, said="multiple filesystem users")
    assert differences(made.image, refused[0], TIMES) == []
    copy = tmp_path / "copy.img"
    done = replayed(made.image, copy, *made.journal_options)
    assert done.exit_code == 1
    assert str(second) in done.stderr
    assert opened(made.image).superblock.uuid_text in done.stderr
    assert not copy.exists()


def test_a_journal_given_for_a_file_system_without_one_is_a_warning(
    one: Crash, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.img"
    with plain.open("xb") as file:
        file.truncate(8 << 20)
    machine.run("mke2fs", "-q", "-F", "-t", "ext2", plain)
    assert one.journal is not None
    done = called("ls", plain, "/", "--journal", one.journal)
    assert done.exit_code == 0
    done = called("journal", "replay", plain)
    assert done.exit_code == 2
    assert "no journal" in done.stderr


def _exported(image: Path, target: Path) -> Path:
    machine.run("debugfs", "-R", f"dump <8> {target}", image)
    return target


def test_an_exported_journal_is_read_in_place_of_the_inode(inside: Crash, tmp_path: Path) -> None:
    usual, exported = tmp_path / "usual.img", _exported(inside.image, tmp_path / "journal")
    assert replayed(inside.image, usual).exit_code == 0
    emptied = tmp_path / "emptied.img"  # its own log says that there is nothing to replay
    _empty_own_log(inside.image, emptied)
    own, given = tmp_path / "own.img", tmp_path / "given.img"
    assert replayed(emptied, own).exit_code == 0
    assert len(differences(own, usual)) > 10
    log = tmp_path / "log"
    done = replayed(emptied, given, "--journal", exported, "--journal-copy", log)
    assert done.exit_code == 0, done.stderr
    assert differences(given, usual) == []
    assert called("ls", "-lR", emptied, "/", "--journal", exported).stdout == (
        called("ls", "-lR", inside.image, "/").stdout
    )
    again = called("journal", "replay", inside.image, "--journal", log, "--json")
    assert again.records("replay")[0]["transactions"] == 0


def _empty_own_log(image: Path, target: Path) -> None:
    """The image with its own log marked as empty, as if somebody had thrown it away."""
    machine.copy_sparse(image, target)
    block = int(machine.run("debugfs", "-R", "bmap <8> 0", image).split()[-1])
    with target.open("r+b") as file:
        file.seek(block * 4096)
        file.write(emptied_journal_superblock(os.pread(file.fileno(), 1024, block * 4096), None))


def test_an_exported_journal_of_another_file_system_is_not_read(
    inside: Crash, one: Crash, tmp_path: Path
) -> None:
    exported = _changed(_exported(inside.image, tmp_path / "journal"), tmp_path / "other",
                        0x30, b"another uuid....")  # fmt: skip
    done = called("ls", inside.image, "/", "--journal", exported)
    assert done.exit_code == 1
    assert "another file system" in done.stderr
    assert "folder-11" in done.stdout  # its own log was replayed
    done = called("ls", inside.image, "/", "--journal", str(one.journal))
    assert done.exit_code == 1
    assert "has an internal journal" in done.stderr


@pytest.mark.parametrize(
    "size",
    [1024, 4096, 65536, *(pytest.param(1 << n, marks=SLOW) for n in (11, 13, 14, 15))],
)
def test_devices_of_every_block_size_are_replayed_as_e2fsck_does(size: int, tmp_path: Path) -> None:
    """The kernel mounts none above its pages: debugfs writes the log."""
    image, device, content = (tmp_path / name for name in ("a.img", "a.jnl", "content"))
    for path in (image, device):
        with path.open("xb") as file:
            file.truncate((80 << 20) if size > 8192 else (24 << 20))
    machine.run("mke2fs", "-q", "-F", "-O", "journal_dev", "-b", str(size), device)
    with machine.loop_device(device) as node:
        machine.run("mke2fs", "-q", "-F", "-t", "ext4", "-b", str(size), "-J", f"device={node}",
                    image)  # fmt: skip
    content.write_bytes((bytes.fromhex("c03b3998") + random.Random(size).randbytes(65536))[:size])
    requests = [f"jo -c -v 3 -f {device}", *(f"jw -b {900 + n} {content}" for n in range(3))]
    requests += ["jw -r 901", "jc", ""]
    script = tmp_path / "script"
    script.write_text("\n".join(requests))
    subprocess.run(["debugfs", "-w", "-f", script, image], capture_output=True, check=True)
    ours, log = tmp_path / "ours.img", tmp_path / "ours.jnl"
    done = replayed(image, ours, "--journal", device, "--journal-copy", log)
    assert done.exit_code == 0, done.stderr
    theirs, their_log = recovered(image, device, tmp_path)
    assert their_log is not None
    assert differences(image, theirs, TIMES)
    assert {place // size for place, _ in differences(image, ours, TIMES)} >= {900, 902}
    assert differences(ours, theirs, TIMES) == []
    assert differences(log, their_log) == []
