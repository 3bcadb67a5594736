"""The writer of replayed copies: exact, sparse, never over anything, honest when it fails."""

from __future__ import annotations

import errno
import hashlib
import os
import random
from pathlib import Path
from typing import Any

import pytest

from ext4kit.errors import AccessError, OutputError, RequestError
from ext4kit.evidence.raw import open_raw
from ext4kit.evidence.source import Window
from ext4kit.journal.post_recovery import Patch
from ext4kit.output.replayed_copy import PIECE_BYTES, write_copy
from sample_images.recipes import machine
from tests.journal.crashes import Crash, Setup, crash, mounted
from tests.journal.replaying import called, replayed
from tests.partition_tables import write_table

MIB = 1 << 20


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """64 MiB with data at the start, in the middle and in the last, odd bytes."""
    path = tmp_path / "sparse"
    chance = random.Random("sparse")
    with path.open("xb") as file:
        file.truncate(64 * MIB + 777)
        for offset, length in ((0, 5000), (20 * MIB + 123, 3 * MIB), (64 * MIB + 700, 77)):
            file.seek(offset)
            file.write(chance.randbytes(length))
    return path


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def no_copying(*_: Any) -> int:
    raise OSError(errno.EXDEV, "not between these two")


@pytest.mark.heavy
@pytest.mark.parametrize("in_kernel", [True, False])
@pytest.mark.parametrize("in_pieces", [True, False])
def test_a_copy_is_exact_and_sparse(
    sparse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_kernel: bool, in_pieces: bool
) -> None:
    if not in_kernel:
        monkeypatch.setattr(os, "copy_file_range", no_copying)
    first = sparse
    if in_pieces:
        data, first = sparse.read_bytes(), tmp_path / "piece.001"
        first.write_bytes(data[: 20 * MIB + 99])
        (tmp_path / "piece.002").write_bytes(data[20 * MIB + 99 :])
    copy = tmp_path / "copy"
    told: list[tuple[int, int]] = []
    written = write_copy(copy, open_raw(first), (), (), lambda *at: told.append(at))
    assert digest(copy) == digest(sparse)
    assert copy.stat().st_blocks * 512 < 5 * MIB
    assert (written.size, written.lost) == (64 * MIB + 777, ())
    assert told[-1] == (written.size, written.size)


def test_changes_lie_over_the_copy_and_nowhere_else(sparse: Path, tmp_path: Path) -> None:
    expected = bytearray(sparse.read_bytes())
    changes = [Patch(0, b"first"), Patch(40 * MIB, b"in a hole"), Patch(2, b"later wins")]
    for patch in changes:
        expected[patch.offset : patch.offset + len(patch.data)] = patch.data
    before = digest(sparse)
    copy = tmp_path / "copy"
    write_copy(copy, open_raw(sparse), changes)
    assert copy.read_bytes() == expected
    assert digest(sparse) == before


def test_a_window_of_a_disk_is_copied_alone(sparse: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    write_copy(copy, Window(open_raw(sparse), 20 * MIB, 4 * MIB + 5), [Patch(1, b"x")])
    expected = bytearray(sparse.read_bytes()[20 * MIB : 24 * MIB + 5])
    expected[1:2] = b"x"
    assert copy.read_bytes() == expected


class BadSectors:
    """A source of 1 MiB that cannot be read at some bytes."""

    name = "bad"
    size = MIB
    bad = (300_000, 300_001, 700_000)

    def __init__(self) -> None:
        self.data = random.Random("bad").randbytes(MIB)

    def read(self, offset: int, length: int) -> memoryview:
        if any(offset <= place < offset + length for place in self.bad):
            raise AccessError("a bad sector")
        return memoryview(self.data)[offset : offset + length]

    def close(self) -> None:
        """Nothing to close."""


def test_what_cannot_be_read_is_zeros_and_told(tmp_path: Path) -> None:
    source, copy = BadSectors(), tmp_path / "copy"
    written = write_copy(copy, source, ())
    expected = bytearray(source.data)
    for place in source.bad:
        start = place // PIECE_BYTES * PIECE_BYTES
        expected[start : start + PIECE_BYTES] = bytes(PIECE_BYTES)
    assert copy.read_bytes() == expected
    assert [(offset, length) for offset, length, _ in written.lost] == [
        (place // PIECE_BYTES * PIECE_BYTES, PIECE_BYTES) for place in source.bad[1:]
    ]


def test_nothing_is_ever_written_over(sparse: Path, tmp_path: Path) -> None:
    taken, link, dangling = (tmp_path / name for name in ("taken", "link", "dangling"))
    taken.write_bytes(b"keep me")
    link.symlink_to(sparse)
    dangling.symlink_to(tmp_path / "nowhere")
    before = digest(sparse)
    for path in (taken, link, dangling, sparse, tmp_path):
        with pytest.raises(RequestError):
            write_copy(path, open_raw(sparse), (), (sparse,))
    assert taken.read_bytes() == b"keep me"
    assert not (tmp_path / "nowhere").exists()
    assert digest(sparse) == before


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_copy_that_was_not_finished_says_so_by_its_name(
    sparse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr(os, "write", fail)
    copy = tmp_path / "copy"
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_copy(copy, open_raw(sparse), [Patch(0, b"x")])
    assert not copy.exists()
    assert (tmp_path / "copy.incomplete").exists()


def test_a_folder_that_cannot_be_written_is_told(sparse: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        write_copy(tmp_path / "none" / "copy", open_raw(sparse), ())


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Crash:
    setup = Setup("4k", "-t ext4 -b 4096 -J size=4")
    return crash(setup, tmp_path_factory.mktemp("cut"))


@pytest.mark.kernel
def test_the_command_keeps_its_hands_off_the_evidence(cut: Crash, tmp_path: Path) -> None:
    before = digest(cut.image)
    link = tmp_path / "link"
    link.symlink_to(cut.image)
    for target in (cut.image, link):
        done = replayed(cut.image, target)
        assert done.exit_code == 2
        assert "already exists" in done.stderr
    assert replayed(cut.image, tmp_path / "none" / "copy").exit_code == 1
    assert called("journal", "replay", cut.image, "--journal-copy", tmp_path / "log").exit_code == 2
    assert digest(cut.image) == before


@pytest.mark.kernel
def test_a_folder_on_the_evidence_itself_is_refused(cut: Crash, tmp_path: Path) -> None:
    image = tmp_path / "mounted.img"
    machine.copy_sparse(cut.image, image)
    with mounted(image, "noatime") as place:
        done = replayed(image, place / "copy")
        assert done.exit_code == 2
        assert "evidence itself" in done.stderr
        assert not (place / "copy").exists()


@pytest.mark.kernel
def test_of_a_disk_the_volume_is_copied(cut: Crash, tmp_path: Path) -> None:
    disk, alone, inside = (tmp_path / name for name in ("disk.img", "alone.img", "inside.img"))
    disk.write_bytes(bytes(MIB) + cut.image.read_bytes() + bytes(MIB))
    table = f"start=2048, size={cut.image.stat().st_size // 512}, type=83\n"
    write_table(disk, "label: dos\n" + table)
    assert replayed(cut.image, alone).exit_code == 0
    assert replayed(disk, inside).exit_code == 0
    assert digest(inside) == digest(alone)
    assert digest(alone) != digest(cut.image)


@pytest.mark.kernel
def test_a_device_is_copied_as_an_image_is(cut: Crash, tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.img", tmp_path / "other.img"
    assert replayed(cut.image, ours).exit_code == 0
    with machine.loop_device(cut.image) as node:
        assert replayed(node, other).exit_code == 0
    assert digest(other) == digest(ours)
    assert other.stat().st_blocks * 512 < other.stat().st_size


@pytest.mark.kernel
def test_an_image_that_ends_early_is_replayed_as_far_as_it_goes(cut: Crash, tmp_path: Path) -> None:
    whole, cropped, copy = (tmp_path / name for name in ("whole", "cropped.img", "copy"))
    assert replayed(cut.image, whole).exit_code == 0
    cropped.write_bytes(cut.image.read_bytes()[: 20 * MIB + 100])
    assert replayed(cropped, copy).exit_code == 1
    assert copy.read_bytes() == whole.read_bytes()[: 20 * MIB + 100]
