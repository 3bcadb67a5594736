"""What a library in C may do once it reads hostile bytes: read the folder of the evidence."""

from __future__ import annotations

import json
import mmap
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import confinement, open_evidence
from ext4kit.evidence.containers.confined import ConfinedDisk
from ext4kit.evidence.containers.libraries import Files, LibraryDisk
from ext4kit.evidence.containers.libyal import LibrarySource
from ext4kit.evidence.containers.pieces import ChunkCache
from ext4kit.evidence.forked import Forked, Pipe, can_fork
from tests.evidence.containers.test_ex01 import DISK, SAMPLE, SIZE

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="needs forked processes"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux confines them"),
]
HAS_SECCOMP = platform.machine() in ("x86_64", "aarch64")
WHOLE = "Landlock" in confinement.confinement_text() and "no Landlock" not in (
    confinement.confinement_text()
)


def _attempt(pipe: Pipe, folder: Path, actions: list[Callable[[], object]]) -> None:
    confinement.confine([folder])
    ended = []
    for action in actions:
        try:
            action()
            ended.append("done")
        except OSError as error:
            ended.append(type(error).__name__)
    pipe.send(json.dumps(ended).encode())


def _tried(folder: Path, *actions: Callable[[], object]) -> list[str]:
    process = Forked(_attempt, folder, list(actions))
    try:
        assert process.pipe.waits(30)
        found: list[str] = json.loads(process.pipe.receive(1 << 20))
        return found
    finally:
        process.end()


def test_files_of_the_folder_can_be_read_and_none_written(tmp_path: Path) -> None:
    (inside := tmp_path / "evidence").mkdir()
    (image, secret) = inside / "image", tmp_path / "secret"
    image.write_bytes(b"evidence")
    secret.write_bytes(b"secret")
    writable = image.open("r+b", buffering=0)  # open before, as a careless caller may have it
    ended = _tried(
        inside,
        image.read_bytes,
        lambda: list(inside.iterdir()),
        lambda: writable.write(b"x"),
        lambda: image.open("r+b").write(b"x"),
        lambda: (inside / "new").touch(),
        image.unlink,
    )
    writable.close()
    assert ended[:2] == ["done", "done"]
    assert "done" not in ended[2:3]
    assert image.read_bytes() == b"evidence"
    if WHOLE:
        assert set(ended[2:]) <= {"OSError", "PermissionError"}
        assert sorted(path.name for path in inside.iterdir()) == ["image"]
        outside = (secret.read_bytes, Path("/etc/passwd").read_bytes,
                   lambda: list(tmp_path.iterdir()), (tmp_path / "new").touch)  # fmt: skip
        assert _tried(inside, *outside) == ["PermissionError"] * 4


@pytest.mark.skipif(not HAS_SECCOMP, reason="no filter for this processor")
def test_nothing_is_sent_run_or_signalled(tmp_path: Path) -> None:
    parent = os.getpid()
    ended = _tried(
        tmp_path,
        lambda: socket.socket(socket.AF_INET),
        lambda: socket.socket(socket.AF_UNIX),
        socket.socketpair,
        lambda: os.execv("/bin/true", ["true"]),
        lambda: subprocess.run(["/bin/true"], check=True),
        lambda: os.kill(parent, signal.SIGTERM),
    )
    assert ended == ["PermissionError"] * 6


@pytest.fixture
def disk() -> ConfinedDisk:
    """An Ex01, read by libewf in a process of its own."""
    return ConfinedDisk((SAMPLE,), "ewf2")


def _process_of(disk: ConfinedDisk) -> int:
    assert disk._process is not None
    return disk._process._pid


def test_reads_in_any_order_are_those_of_the_disk(disk: ConfinedDisk) -> None:
    step = 20_000
    orders = [range(0, SIZE - step, step), range(SIZE - step, 0, -step), [0, 5, 0, step, 2 * step]]
    for order in orders:
        for offset in order:
            assert disk.fetch(offset, step) == DISK[offset : offset + step]
    disk.close()


def test_a_reader_that_goes_on_gets_the_bytes_of_its_place(
    disk: ConfinedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read ahead is given only to who asks for it."""
    monkeypatch.setattr("ext4kit.evidence.containers.confined._LONG", 1)
    for offset, length in [(0, 100), (100, 100), (200, 100), (50, 10), (60, 10), (70, 10), (80, 9),
                           (89, 10), (SIZE - 20, 10), (SIZE - 10, 10), (0, 10)]:  # fmt: skip
        assert disk.fetch(offset, length) == DISK[offset : offset + length]
    disk.close()


def _dies_over(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """Let the library crash when it reads one place, and nowhere else."""
    fetch = LibraryDisk.fetch

    def crash(self: LibraryDisk, at: int, length: int) -> bytes:
        return os._exit(9) if at == offset else fetch(self, at, length)

    monkeypatch.setattr(LibraryDisk, "fetch", crash)


def test_a_crash_costs_the_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    _dies_over(monkeypatch, 100_000)
    disk = ConfinedDisk((SAMPLE,), "ewf2")
    for _ in range(8):
        assert disk.fetch(0, 100) == DISK[:100]
        with pytest.raises(AccessError, match=r"numbered.Ex01: its library crashed"):
            disk.fetch(100_000, 100)
    with pytest.raises(AccessError, match="its library was given up after 8 processes"):
        disk.fetch(0, 100)
    disk.close()


def _end(process: int) -> None:
    """Kill a process of the program and wait for its end."""
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)


def test_a_process_that_is_gone_is_replaced(disk: ConfinedDisk) -> None:
    for _ in range(3):
        _end(_process_of(disk))
        assert disk.fetch(0, 100) == DISK[:100]
    disk.close()


def test_a_crash_is_a_lost_range_of_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_evidence(SAMPLE) as evidence:
        source = evidence.source
        assert isinstance(source, LibrarySource) and isinstance(source._disk, ConfinedDisk)
        source._kept = ChunkCache()  # opening has read all of it
        _dies_over(monkeypatch, 2 << 16)
        _end(_process_of(source._disk))  # the next one is as the test has it
        with pytest.raises(AccessError, match="its library crashed"):
            source.read(150_000, 100)
        assert len(source.unreadable()) == 1
        assert source.read(280_000, 50) == DISK[280_000:280_050]


def test_a_library_that_hangs_is_ended(disk: ConfinedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ext4kit.evidence.containers.confined._PATIENCE", 0.5)
    process = _process_of(disk)
    os.kill(process, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(AccessError, match="its library took longer than"):
        disk.fetch(0, 100)
    assert time.monotonic() - start < 5
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    disk.close()


def test_a_library_that_crashes_at_opening_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_paths: Files) -> LibraryDisk:
        os._exit(9)

    monkeypatch.setitem(sys.modules["ext4kit.evidence.containers.libraries"].OPENERS, "ewf2", crash)
    with pytest.raises(AccessError, match=r"numbered.Ex01: its library crashed$"):
        open_evidence(SAMPLE)


def test_a_forked_copy_reads_with_a_process_of_its_own(disk: ConfinedDisk) -> None:
    assert disk.fetch(0, 10) == DISK[:10]
    ready = mmap.mmap(-1, 1)

    def read(pipe: Pipe) -> None:
        good = all(disk.fetch(at, 99) == DISK[at : at + 99] for at in range(0, 200_000, 999))
        ready[0] = 1
        pipe.send(b"good" if good else b"bad")

    other = Forked(read)
    while not ready[0]:
        for at in range(0, 200_000, 1_777):
            assert disk.fetch(at, 50) == DISK[at : at + 50]
    assert other.pipe.receive(1 << 20) == b"good"
    other.end()
    disk.close()


def test_a_crash_ahead_costs_nothing(disk: ConfinedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ext4kit.evidence.containers.confined._LONG", 1)
    assert disk.fetch(0, 100) + disk.fetch(100, 100) == DISK[:200]
    assert disk._ahead is not None
    os.kill(_process_of(disk), signal.SIGKILL)
    time.sleep(0.1)
    assert disk.fetch(150_000, 100) == DISK[150_000:150_100]
    disk.close()


@pytest.mark.parametrize(
    "said",
    [b"", b"no JSON", b"[]", b"{}", b'{"size": -1, "sector_size": 0, "files": [], "facts": {}, '
     b'"hashes": {}}', b'{"size": "x"}'],
)  # fmt: skip
def test_a_process_that_was_taken_over_is_one_line(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    def serve(pipe: Pipe, *_: object) -> None:
        pipe.receive(100)
        pipe.send(said)
        pipe.receive(100)

    monkeypatch.setattr("ext4kit.evidence.containers.confined._serve", serve)
    with pytest.raises(AccessError, match="numbered.Ex01"):
        ConfinedDisk((SAMPLE,), "ewf2")


def test_no_process_is_left(disk: ConfinedDisk) -> None:
    process = _process_of(disk)
    disk.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
