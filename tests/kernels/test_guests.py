"""Each kernel that is in the cache boots, runs a command, and hands on what it said."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_images.kernels import Kernel, KernelError, kernels_here
from sample_images.kernels.guest import run, visible_folder
from tests.environment import ROOT, needs

HERE = kernels_here()
PATIENCE = 120  # seconds for a start, or for the end of what was started
pytestmark = [
    needs("mke2fs", "mount"),
    pytest.mark.slow,
    pytest.mark.skipif(not HERE, reason="needs a kernel of sample_images.kernels"),
]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that the guest sees as well: its /dev is its own."""
    with tempfile.TemporaryDirectory(dir=visible_folder()) as name:
        yield Path(name)


@pytest.fixture(params=list(HERE))
def guest(request: pytest.FixtureRequest) -> Kernel:
    return HERE[str(request.param)]


def _run(guest: Kernel, *command: str, modules: tuple[str, ...] = ()) -> tuple[int, bytes, bytes]:
    out, err = io.BytesIO(), io.BytesIO()
    code = run(guest, command, out, err, modules)
    return code, out.getvalue(), err.getvalue()


def test_a_command_runs_in_it(guest: Kernel) -> None:
    assert _run(guest, "uname", "-r") == (0, f"{guest.release}\n".encode(), b"")


def test_the_command_has_folder_environment_loop_devices_and_a_disk(
    guest: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXT4KIT_SAID", "two words")
    script = 'pwd; id -u; echo "$EXT4KIT_SAID"; ls /dev/loop0; stat -fc %T "$TMPDIR"; exit 7'
    code, out, err = _run(guest, "sh", "-c", script + "; echo told >&2")
    assert (code, err) == (7, b"")
    assert out.decode().splitlines() == [
        str(tmp_path), "0", "two words", "/dev/loop0", "ext2/ext3",
    ]  # fmt: skip


def test_what_is_said_arrives_byte_for_byte(guest: Kernel, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "data").write_bytes(data)
    code, out, err = _run(guest, "sh", "-c", f"cat {tmp_path}/data; cat {tmp_path}/data >&2")
    assert (code, out == data, err == data) == (0, True, True)


def test_a_module_comes_with_those_that_it_needs(guest: Kernel) -> None:
    code, out, _ = _run(guest, "cat", "/proc/modules", modules=("dm-log-writes",))
    assert code == 0
    assert {"loop", "dm_mod", "dm_log_writes"} <= {
        line.split()[0] for line in out.decode().splitlines()
    }


def test_a_signal_is_told_as_shells_do(guest: Kernel) -> None:
    assert _run(guest, "sh", "-c", "kill -9 $$")[0] == 128 + signal.SIGKILL


def test_what_cannot_run_is_told(guest: Kernel) -> None:
    code, out, err = _run(guest, "no-such-program")
    assert (code, out) == (126, b"")
    assert err.startswith(b"error: ")
    assert err.count(b"\n") == 1


def test_a_kernel_that_dies_is_told_in_one_line(guest: Kernel) -> None:
    with pytest.raises(KernelError, match="died: Kernel panic") as caught:
        _run(guest, "sh", "-c", "echo c > /proc/sysrq-trigger")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_ends_the_kernel_and_all_its_processes(
    guest: Kernel, how: signal.Signals, tmp_path: Path
) -> None:
    """It is known by its folder, which is in the command line of its processes."""
    started = tmp_path / "started"
    process = subprocess.Popen(
        [sys.executable, "-m", "sample_images.kernels", guest.name, "--",
         "sh", "-c", f"echo > {started}; sleep 600"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE,
        preexec_fn=_hear_interrupts,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    while not started.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    assert _processes(tmp_path)
    process.send_signal(how)
    _, err = process.communicate(timeout=PATIENCE)
    if how != signal.SIGKILL:
        assert (process.returncode, err) == (130, b"error: interrupted\n")
    deadline = time.monotonic() + PATIENCE
    while _processes(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for what is in the background


def _processes(folder: Path) -> list[str]:
    """The processes of the kernel whose files are in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if words[0].endswith(b"/linux") and any(os.fsencode(folder) in word for word in words):
            found.append(path.parent.name)
    return found
