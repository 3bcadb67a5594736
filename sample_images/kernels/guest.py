"""Boot a user-mode kernel and run a command in it.

Its root is the host's file system: who runs in it is root there, and on the host the caller. Its
/dev, /proc and /sys are its own, and TMPDIR is a disk of its own, for the time it runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from sample_images.kernels import Kernel, KernelError, registers
from sample_images.recipes import machine

MEMORY = "2G"  # a sparse file of the host; of it is taken what is used
_DISK = 24 << 30  # bytes of the sparse file that is TMPDIR inside
_LOOP = "loop max_loop=16"
_SHARED = Path("/dev/shm")
_OWN = ("/dev", "/proc", "/sys")  # folders of the guest's own, in which it sees none of the host's
_ROOT = Path(__file__).resolve().parents[2]
_PAUSE = 0.05  # seconds between two looks at what was said
_PR_SET_PDEATHSIG = 1
_INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
cd {root}
{python} -m sample_images.kernels.inside {folder}
echo o > /proc/sysrq-trigger
sleep 60
"""


def run(
    kernel: Kernel,
    command: Sequence[str],
    out: BinaryIO,
    err: BinaryIO,
    modules: Sequence[str] = (),
    memory: str = MEMORY,
) -> int:
    """Run a command in a kernel, from the current folder, and hand on what it says.

    Args:
        kernel: which one.
        command: program and arguments, as root; its stdin is empty.
        out: takes its stdout as it comes.
        err: takes its stderr.
        modules: to insert beside that of loop devices, with what they depend on; a module's
            parameters stand behind its name, as in "loop max_loop=16".
        memory: of the kernel, as "2G".

    Returns:
        Its exit code; 128 and the signal's number when a signal ended it.

    Raises:
        KernelError: the kernel did not start, or died.
    """
    with tempfile.TemporaryDirectory(prefix="ext4kit-kernel-", dir=visible_folder()) as name:
        folder = Path(name)
        (folder / "disk").mkdir()
        order = {
            "command": list(command),
            "cwd": str(Path.cwd()),
            "environment": dict(os.environ),
            "modules": [_LOOP, *modules],
            "modules_folder": str(kernel.modules),
        }
        (folder / "order.json").write_text(json.dumps(order))
        for stream in ("stdout", "stderr"):
            (folder / stream).touch()
        process = _boot(kernel, folder, memory)
        try:
            _hand_on(process, folder, out, err)
        finally:
            end(process)
        code = folder / "code"
        if not code.exists():
            raise KernelError(f"kernel {kernel.name} died: {_last_words(folder)}")
        return int(code.read_text())


def visible_folder() -> str:
    """A folder for temporary files that the guest sees as well."""
    usual = tempfile.gettempdir()
    return "/var/tmp" if usual.startswith(_OWN) else usual


def _boot(kernel: Kernel, folder: Path, memory: str) -> subprocess.Popen[bytes]:
    disk = folder / "disk.img"
    with disk.open("wb") as file:
        file.truncate(_DISK)
    machine.run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", disk)
    init = folder / "init"
    python, root, place = (shlex.quote(str(part)) for part in (sys.executable, _ROOT, folder))
    init.write_text(_INIT.format(python=python, root=root, folder=place))
    init.chmod(0o755)
    words = (f"mem={memory}", f"ubd0={disk}", f"init={init}", "rw", f"uml_dir={folder}")
    with (folder / "console").open("wb") as console:
        return boot(kernel, words, console)


def boot(kernel: Kernel, words: Sequence[str], console: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a kernel whose root is the host's file system.

    Args:
        kernel: which one.
        words: of its command line; "init=PROGRAM" and "uml_dir=FOLDER" for its sockets at least.
        console: takes what it and its programs say there.

    Raises:
        KernelError: the processor needs a library that cannot be built.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LD_LIBRARY_PATH": "lib",
        "TMPDIR": str(_SHARED if os.access(_SHARED, os.W_OK) else tempfile.gettempdir()),
    }
    if registers.are_too_large():
        environment["LD_PRELOAD"] = str(registers.library())
    root = ("rootfstype=hostfs", "rootflags=/", "con=null", "con0=null,fd:1")
    return subprocess.Popen(
        [f"{kernel.folder}/linux", *root, *words],
        cwd=kernel.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # an interrupt is for the caller, who ends it
        preexec_fn=_end_with_caller,
    )


def _end_with_caller() -> None:
    """A caller that is killed takes the kernel along, which on this signal ends its helpers too."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _hand_on(process: subprocess.Popen[bytes], folder: Path, out: BinaryIO, err: BinaryIO) -> None:
    """Copy what is said until the kernel ends; it stands in files on the host."""
    with (folder / "stdout").open("rb") as said, (folder / "stderr").open("rb") as told:
        ended = False
        while not ended:
            ended = process.poll() is not None
            for source, target in ((said, out), (told, err)):
                if chunk := source.read():
                    target.write(chunk)
                    target.flush()
            if not ended:
                time.sleep(_PAUSE)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the kernel with its processes, which are processes of the host in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(folder: Path) -> str:
    lines = (folder / "console").read_text(errors="replace").split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    panics = [line for line in lines if "panic" in line.lower()]
    return ([*panics, *lines[-1:]] or ["it said nothing"])[0]
