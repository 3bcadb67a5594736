"""Run pytest inside the user-mode kernel, where one may mount although not root outside.

The kernel is an ordinary program of the user. Its root is the host's file system, its /tmp a file
system of its own on a sparse file; whoever runs inside is root there, and on the host the user.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sample_images.recipes import machine
from tests.environment import ROOT, provide

FOLDER = ROOT / "build" / "user-mode"  # outside /tmp, which is another one inside
MEMORY = "3G"  # a sparse file of the host; of it is taken what is used
TMP = 24 << 30  # bytes of the sparse file that is /tmp inside
_SYS_FINIT_MODULE = {"x86_64": 313, "i686": 350}
_KEPT = (
    "HOME", "LANG", "PATH", "XDG_CACHE_HOME", "EXT4KIT_SLOW", "EXT4KIT_E2FSPROGS_CASES",
)  # fmt: skip
_INIT = """#!/bin/sh
{exports}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t ext4 -o noatime,discard /dev/ubda /tmp
cd {root}
{python} -m tests.environment.user_mode {arguments} >{folder}/output 2>&1 </dev/null
echo $? >{folder}/code
echo o > /proc/sysrq-trigger
sleep 60
"""
_TRIAL = """#!/bin/sh
mount -t proc proc /proc
uname -r >{folder}/release
echo o > /proc/sysrq-trigger
sleep 60
"""
_TO_START = 60  # seconds; it takes 2
GOES_ON = (6, 4)  # the first kernel whose journal goes on at the next mount


def missing() -> str:
    """Why the kernel tests cannot run this way; empty when they can.

    It is tried: on processors with AMX, whose registers take more room, Debian's 6.1 and 6.12 panic
    before their first program runs. What the tests expect of the journal is that of kernels that
    go on with it at the next mount (kernel fs/ext4/super.c, JBD2_CYCLE_RECORD, since 6.4).
    """
    if not provide.linux():
        return "needs root and loop devices, or the package user-mode-linux"
    if not _loop_module():
        return f"needs loop.ko in {provide.modules()}"
    release = _release()
    if not release:
        return "needs root, as the user-mode kernel does not start here"
    if tuple(map(int, re.findall(r"\d+", release)[:2])) < GOES_ON:
        return f"needs root, as the user-mode kernel {release} restarts its journal at each mount"
    return ""


def _release() -> str:
    """What `uname -r` says in the user-mode kernel; empty when it does not start."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ext4kit-uml-", dir=FOLDER) as folder:
        init = _script(Path(folder), _TRIAL.format(folder=shlex.quote(folder)))
        process = _boot(init, Path(folder))
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TO_START)
        process.kill()
        process.wait()
        told = Path(folder) / "release"
        return told.read_text().strip() if told.exists() else ""


def _script(folder: Path, text: str) -> Path:
    init = folder / "init"
    init.write_text(text)
    init.chmod(0o755)
    return init


def _boot(init: Path, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the kernel; `folder` takes its console and its sockets."""
    command = [
        provide.linux(), "rootfstype=hostfs", "rootflags=/", "rw", f"init={init}",
        "con=null", "con0=fd:0,fd:1", f"uml_dir={folder}", f"mem={MEMORY}", *options,
    ]  # fmt: skip
    with (folder / "console").open("wb") as console:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(_roomy_folder())},
        )


class UserMode:
    """A kernel that runs pytest, from its boot to its end."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        """Boot it.

        Args:
            arguments: of pytest.
            folder: takes its files; not below /tmp, which is another one inside.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._output, self._code = folder / "output", folder / "code"
        disk = folder / "tmp.img"
        with disk.open("wb") as file:
            file.truncate(TMP)
        machine.run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", disk)
        exports = [f"export {name}={shlex.quote(os.environ[name])}"
                   for name in _KEPT if name in os.environ]  # fmt: skip
        init = _script(
            folder,
            _INIT.format(
                exports="\n".join(exports),
                root=shlex.quote(str(ROOT)),
                python=shlex.quote(sys.executable),
                arguments=shlex.join(arguments),
                folder=shlex.quote(str(folder)),
            ),
        )
        self._process = _boot(init, folder, f"ubd0={disk}")

    def wait(self) -> tuple[int, str]:
        """(exit code of pytest, what it said), when it is done; of a kernel that failed, its own.

        Interrupted, the kernel ends too.
        """
        try:
            self._process.wait()
        finally:
            self._process.kill()
            (self._output.parent / "tmp.img").unlink()
        if not self._code.exists():
            return 1, (self._output.parent / "console").read_text(errors="replace")
        return int(self._code.read_text()), self._output.read_text(errors="replace")


def _roomy_folder() -> Path:
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def _loop_module() -> Path | None:
    return next(provide.modules().rglob("loop.ko"), None)


def _load_loop() -> None:
    """Insert the loop driver; there may be no insmod here, so the kernel is asked itself."""
    module = _loop_module()
    if module is None or Path("/dev/loop-control").exists():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with module.open("rb") as file:
        call = _SYS_FINIT_MODULE[os.uname().machine]
        if libc.syscall(call, file.fileno(), b"max_loop=16", 0) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(module))


def _inside(arguments: Sequence[str]) -> int:
    _load_loop()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(_inside(sys.argv[1:]))
