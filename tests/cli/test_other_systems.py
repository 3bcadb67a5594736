"""The program gives the same answers without what only Linux has."""

from __future__ import annotations

import hashlib
import lzma
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from sample_images import acquired, unpack
from sample_images.recipes.score import TIMED
from tests.cli.conftest import ROOT

# Taken away before the program is loaded: what the module documentation calls "Availability: Unix"
# (or less), as far as Python itself gets along without it on this system.
LESS = '''
import mmap, os, shutil, signal, sys, types, warnings
import asyncio, ctypes, subprocess, tempfile  # of Python's own, made for the system that it runs on

sys.platform = "other"
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in """
    chown chroot confstr copy_file_range ctermid eventfd fchdir fchmod fchown fdatasync fork
    forkpty fpathconf fstatvfs getegid getgid getgroups getloadavg getpgid getpgrp getuid geteuid
    getxattr killpg lchown listxattr lockf major makedev memfd_create minor mkfifo mknod nice
    pathconf pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev
    readv removexattr sched_getaffinity sched_setaffinity sched_yield sendfile set_blocking setsid
    setxattr splice statvfs sync sysconf uname writev
    O_CLOEXEC O_DIRECT O_DIRECTORY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC
    POSIX_FADV_DONTNEED POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_WILLNEED SEEK_DATA SEEK_HOLE
""".split():
    if hasattr(os, name):
        delattr(os, name)
for one in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
    one.clear()
for name in dir(signal):
    if name.startswith("SIG") and name not in ("SIGINT", "SIGTERM", "SIG_DFL", "SIG_IGN"):
        delattr(signal, name)
for name in ("pthread_sigmask", "pthread_kill", "setitimer", "alarm", "pause", "sigpending"):
    delattr(signal, name)
for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MAP_ANON", "MADV_NOHUGEPAGE"):
    delattr(mmap, name)

shutil.disk_usage = lambda _: types.SimpleNamespace(free=1 << 40)  # Windows asks otherwise
fstat, fields = os.fstat, ("mode", "ino", "dev", "nlink", "size", "mtime", "mtime_ns")
os.fstat = lambda fd: types.SimpleNamespace(
    **{f"st_{name}": getattr(fstat(fd), f"st_{name}") for name in fields}
)
warnings.filterwarnings("error", category=EncodingWarning, module="ext4kit")  # not UTF-8 elsewhere
'''
WHOLE = "import os\nos.geteuid = lambda: 1000\n"  # root restores exact modes
GO = "from ext4kit.__main__ import main\nmain()\n"
COMMANDS = (
    ("volumes",),
    ("volumes", "--scan"),
    ("info",),
    ("ls", "-r", "-l"),
    ("cat", "/keep/odd names/two words.txt"),
    ("deleted",),
    ("recover", "-o", "OUT"),
    ("extract", "/", "-o", "OUT"),
    ("verify",),
    ("timeline",),
    ("journal", "audit"),
    ("journal", "replay", "-o", "OUT"),
    ("hash", "--verify"),
    ("report", "--html", "OUT"),
    ("export", "--csv", "OUT"),
)
NOW = re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?")
NAMES_OF_IDS = re.compile(rb"\((user|group) \w+\)")


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One sample as a raw image, in a container, and compressed."""
    raw = unpack("rm_rf_tree", tmp_path_factory.mktemp("systems")).image
    compressed = raw.with_name("compressed.xz")
    compressed.write_bytes(lzma.compress(raw.read_bytes(), preset=0))
    return {"raw": raw, "E01": acquired(), "xz": compressed}


def _run(before: str, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-X", "warn_default_encoding", "-c", before + GO, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)


def _written(out: Path) -> dict[str, str]:
    """Digests of what a command wrote; without the time at which it did, and the system's name."""
    files = [out] if out.is_file() else [each for each in out.rglob("*") if each.is_file()]
    return {
        each.relative_to(out).as_posix(): hashlib.sha256(_timeless(each)).hexdigest()
        for each in files
        if each.name not in TIMED
    }


def _timeless(file: Path) -> bytes:
    data = file.read_bytes()
    return NOW.sub(b"now", data) if file.suffix == ".html" else data


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "command"),
    [*product(("raw", "E01"), COMMANDS), ("xz", ("volumes",)), ("xz", ("recover", "-o", "OUT"))],
    ids=str,
)
def test_answers_are_the_same_on_less_of_a_system(
    command: tuple[str, ...], kind: str, evidence: dict[str, Path], tmp_path: Path
) -> None:
    out, outcomes = tmp_path / "out.html", []
    for before in (WHOLE, LESS):
        name, *rest = [{"OUT": str(out)}.get(word, word) for word in command]
        first = [name, rest.pop(0)] if name == "journal" else [name]
        done = _run(before, [*first, str(evidence[kind]), *rest])
        assert b"internal error" not in done.stderr
        said = NOW.sub(b"now", done.stdout)
        outcomes.append((done.returncode, NAMES_OF_IDS.sub(b"", said), _written(out)))
        if out.exists():
            out.rename(tmp_path / f"{len(outcomes)}")
    assert outcomes[0] == outcomes[1]


def test_a_second_opinion_is_refused_where_it_cannot_be_had(evidence: dict[str, Path]) -> None:
    done = _run(LESS, ["crosscheck", str(evidence["raw"])])
    assert done.returncode == 2
    assert b"run crosscheck on Linux or macOS" in done.stderr


def test_what_is_taken_away_is_away() -> None:
    code = "import os, signal\nassert not hasattr(os, 'pread') and not hasattr(signal, 'SIGPIPE')\n"
    tried = "try:\n    import fcntl\nexcept ImportError:\n    sys.exit(9)\n"
    done = subprocess.run([sys.executable, "-c", LESS + code + tried], cwd=ROOT, check=False)
    assert done.returncode == 9
