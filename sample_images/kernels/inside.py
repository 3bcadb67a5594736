"""What runs inside a user-mode kernel: `python -m sample_images.kernels.inside FOLDER`.

It makes the kernel ready, runs the command of `order.json` in that folder, and leaves there what it
said and its exit code. Files of the host are written when they are closed, so each piece of what is
said opens its file anew.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

_SYS_FINIT_MODULE = 313  # x86_64
_EEXIST = 17
_PIECE = 1 << 20  # bytes handed on at a time, at most
_CANNOT_RUN = 126  # the exit code that shells give


def main(folder: Path) -> None:
    """Do what the order says."""
    order = json.loads((folder / "order.json").read_text())
    try:
        _make_ready(folder)
        for module in order["modules"]:
            _insert(Path(order["modules_folder"]), *module.split(" ", 1))
        code = _command(folder, order)
    except (OSError, subprocess.CalledProcessError) as error:
        _append(folder / "stderr", f"error: {error}\n".encode())
        code = _CANNOT_RUN
    os.sync()  # of this kernel, whose disks all are the guest's
    (folder / "code").write_text(str(code))


def _make_ready(folder: Path) -> None:
    for name, kind in (("shm", "tmpfs"), ("pts", "devpts")):
        place = Path("/dev") / name
        place.mkdir(exist_ok=True)
        _mount("-t", kind, kind, str(place))
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"),
                         ("stderr", "fd/2")):  # fmt: skip
        if not (Path("/dev") / name).is_symlink():
            (Path("/dev") / name).symlink_to(target)
    _mount("-t", "ext4", "-o", "noatime,discard", "/dev/ubda", str(folder / "disk"))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _insert(folder: Path, name: str, parameters: str = "") -> None:
    """Insert a module and before it those that it depends on, as modules.dep has them.

    There may be no modprobe here, and none looks there, so the kernel is asked itself.
    """
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, needed = line.partition(":")
        if Path(path).name.split(".")[0].replace("-", "_") == name.replace("-", "_"):
            for other in reversed(needed.split()):
                _load(folder / other, "")
            _load(folder / path, parameters)
            return
    if name not in (folder / "modules.builtin").read_text():
        raise OSError(f"this kernel has no module {name}")


def _load(path: Path, parameters: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        done = libc.syscall(_SYS_FINIT_MODULE, file.fileno(), parameters.encode(), 0)
    if done != 0 and ctypes.get_errno() != _EEXIST:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))


def _command(folder: Path, order: dict[str, object]) -> int:
    """Run the command; its exit code, as a shell gives it."""
    command, environment, cwd = order["command"], order["environment"], order["cwd"]
    assert isinstance(command, list)
    assert isinstance(environment, dict)
    environment["TMPDIR"] = str(folder / "disk")
    process = subprocess.Popen(
        command,
        cwd=str(cwd),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said = (("stdout", process.stdout), ("stderr", process.stderr))
    threads = [
        threading.Thread(target=_hand_on, args=(stream, folder / name), daemon=True)
        for name, stream in said
        if stream is not None
    ]
    for thread in threads:
        thread.start()
    code = process.wait()
    for thread in threads:
        thread.join(5)  # seconds; what the command left running may hold its output open
    return code if code >= 0 else 128 - code


def _hand_on(stream: IO[bytes], path: Path) -> None:
    while chunk := os.read(stream.fileno(), _PIECE):
        _append(path, chunk)


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
