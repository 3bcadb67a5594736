"""Drops the rights of a process that is about to read hostile bytes with a library in C.

Afterwards, the process cannot write, run or send anything, and can open only files in given
folders. Linux offers this to every user, with Landlock and seccomp. The C library has no functions
for their system calls, and the packages for them are unmaintained. Therefore they are called by
number here.

Sources: Linux `Documentation/userspace-api/landlock.rst` and `seccomp_filter.rst`,
`include/uapi/linux/{landlock,seccomp,filter,audit,prctl}.h`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ext4kit.evidence.forked import can_fork

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_ASK_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_READ = 1 << 2 | 1 << 3  # LANDLOCK_ACCESS_FS_READ_FILE, READ_DIR
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # number of rights by version; 16 in later ones
_TCP = 0b11  # rights to bind and to connect; from version 4 on
_SCOPES = 0b11  # abstract sockets, and signals to other processes
_SCOPED = 6  # first version with scopes
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # PR_SET_NO_NEW_PRIVS ...
_MOST_FILE = 0  # bytes that may be written to a file
_MOST_MORE_MEMORY = 4 << 30  # bytes in addition to what the process uses
_LOAD, _JUMP_EQUAL, _JUMP_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF_LD|W|ABS ...
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000  # SECCOMP_RET_*
_EPERM = 1
_X32 = 0x40000000  # __X32_SYSCALL_BIT: the same calls under other numbers
# Numbers from asm/unistd_64.h and asm-generic/unistd.h: kill (harmless where Landlock limits
# signals), socket, socketpair, execve, execveat, ptrace, process_vm_writev, rt_sigqueueinfo, mount,
# bpf, io_uring_setup, pidfd_open, keyctl, unshare, setns
_REFUSED = {
    "x86_64": (0xC000003E, (62, 41, 53, 59, 322, 101, 311, 129, 165, 321, 425, 434, 250, 272, 308)),
    "aarch64": (0xC00000B7, (129, 198, 199, 221, 281, 117, 271, 138, 40, 280, 425, 434, 219, 97,
                             268)),
}  # fmt: skip


def confine(folders: Sequence[Path]) -> None:
    """Drop, permanently, all rights of this process that reading does not need.

    Protections that this system lacks are skipped; `confinement_text` says which are in force.

    Args:
        folders: only files in or below these may be opened, for reading.
    """
    with suppress(ImportError, ValueError, OSError):
        _limit()
    if sys.platform == "linux":
        system = ctypes.CDLL(None, use_errno=True)
        if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
            version = _landlock_version(system)
            if version:
                _restrict_files(system, version, folders)
            _filter_calls(system, may_signal=version >= _SCOPED)


def python_folders() -> list[Path]:
    """Folders of Python and its libraries, from which some modules are imported late."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [path for path in {Path(sysconfig.get_path(name)) for name in names} if path.is_dir()]


def confinement_text() -> str:
    """The protections that confine libraries in C on this system, as text for people."""
    if not can_fork():
        return "none: this system has no forked processes"
    if sys.platform != "linux":
        return "a process of its own; Linux has Landlock and seccomp as well"
    version = _landlock_version(ctypes.CDLL(None, use_errno=True))
    landlock = f"Landlock {version}" if version else "no Landlock"
    return f"{landlock}, {'seccomp' if platform.machine() in _REFUSED else 'no seccomp filter'}"


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE, _MOST_FILE))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MOST_MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


# --------------------------------------------------------------------------------- Landlock


def _landlock_version(system: ctypes.CDLL) -> int:
    """Version of the kernel's Landlock, 0 without it."""
    return max(int(system.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)), 0)


def _restrict_files(system: ctypes.CDLL, version: int, folders: Sequence[Path]) -> None:
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack(
        "=QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= _SCOPED else 0
    )  # fmt: skip
    size = 24 if version >= _SCOPED else 16 if version >= 4 else 8
    ruleset = int(system.syscall(_CREATE_RULESET, attributes, size, 0))
    if ruleset < 0:
        return
    for folder in folders:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", _READ, place)
        system.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
        os.close(place)
    system.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


# ---------------------------------------------------------------------------------- seccomp


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _filter_calls(system: ctypes.CDLL, may_signal: bool) -> None:
    """Refuse system calls that send data, run programs or access other processes."""
    found = _REFUSED.get(platform.machine())
    if found is None or sys.maxsize < 1 << 32:
        return
    code = _program(found[0], found[1][may_signal:])
    program = _Program(len(code) // 8, code)
    system.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)


def _program(architecture: int, refused: Sequence[int]) -> bytes:
    """The filter: it refuses the calls in `refused`, and all calls of other architectures."""
    count = len(refused)
    steps = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_JUMP_LEAST, count + 1, 0, _X32),
    ]
    steps += [(_JUMP_EQUAL, count - at, 0, number) for at, number in enumerate(refused)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
