"""The library for processors with AMX: a short state of the registers is read and set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sample_images.kernels import KernelError, registers
from tests.environment import needs

# Reads 600 bytes of a child's state, changes the 16 of xmm0 and sets them, reads both again.
TRACER = """
import ctypes, os, signal

class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

ptrace = ctypes.CDLL(None).ptrace
ptrace.restype = ctypes.c_long
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, PEEKDATA, GETREGSET, SETREGSET, X86_XSTATE = 0, 2, 0x4204, 0x4205, 0x202
first, again = ctypes.create_string_buffer(600), ctypes.create_string_buffer(600)
word = ctypes.c_long(0x123456789abcdef0)
child = os.fork()
if not child:
    ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.waitpid(child, 0)

def call(request, room):
    piece = Piece(ctypes.addressof(room), 600)
    return ptrace(request, child, X86_XSTATE, ctypes.addressof(piece)), piece.length

print("read", *call(GETREGSET, first))
first[160:176] = b"Z" * 16
first[512] = first.raw[512] | 2
print("set", call(SETREGSET, first)[0])
call(GETREGSET, again)
print("xmm0", first[160:176] == again[160:176])
print("word", hex(ptrace(PEEKDATA, child, ctypes.addressof(word), None)))
os.kill(child, signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86_64 alone has these registers")
@pytest.mark.parametrize(
    "compiler", [pytest.param(name, marks=needs(name)) for name in ("cc", "tcc")]
)
def test_a_short_state_is_set_with_the_library_and_refused_without(
    compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "COMPILERS", [compiler])
    command = (sys.executable, "-c", TRACER)
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert plain.splitlines()[1] == "set -1"
    loaded = {**os.environ, "LD_PRELOAD": str(registers.library())}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=loaded)
    assert done.stdout.splitlines() == [
        "read 0 600",
        "set 0",
        "xmm0 True",
        "word 0x123456789abcdef0",
    ]


@needs("cc")
def test_the_library_is_built_once() -> None:
    first = registers.library()
    before = first.stat().st_mtime_ns
    assert (registers.library(), first.stat().st_mtime_ns) == (first, before)


def test_a_missing_compiler_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KernelError, match=r"^user-mode kernels need a C compiler"):
        registers.library()
