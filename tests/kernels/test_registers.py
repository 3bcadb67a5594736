"""The library for processors with AMX: a short state of the registers is read and set."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sample_images.kernels import KernelError, registers
from tests.environment import needs

# Reads 600 bytes of a child's state, changes the 16 of xmm0 and sets them, reads both again.
TRACER = """
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    static unsigned char first[600], again[600];
    struct iovec state = { first, 600 };
    pid_t child = fork();
    if (!child) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(0); }
    waitpid(child, 0, 0);
    long got = ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &state);
    printf("read %ld %zu\\n", got, state.iov_len);
    memset(first + 160, 0x5a, 16);
    first[512] |= 2;
    printf("set %ld\\n", ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &state));
    state.iov_base = again;
    ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &state);
    printf("xmm0 %d\\n", memcmp(first + 160, again + 160, 16));
    static long word = 0x123456789abcdef0;
    printf("word %lx\\n", ptrace(PTRACE_PEEKDATA, child, &word, 0));
    kill(child, SIGKILL);
}
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@needs("cc")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86_64 alone has these registers")
@pytest.mark.parametrize("compiler", ["cc", pytest.param("tcc", marks=needs("tcc"))])
def test_a_short_state_is_set_with_the_library_and_refused_without(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registers, "COMPILERS", [compiler])
    program = tmp_path / "tracer"
    (tmp_path / "tracer.c").write_text(TRACER)
    subprocess.run(["cc", "-o", str(program), str(tmp_path / "tracer.c")], check=True)
    plain = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert plain.splitlines()[1] == "set -1"
    loaded = {**os.environ, "LD_PRELOAD": str(registers.library())}
    done = subprocess.run([program], capture_output=True, text=True, check=True, env=loaded)
    assert done.stdout.splitlines() == ["read 0 600", "set 0", "xmm0 0", "word 123456789abcdef0"]


@needs("cc")
def test_the_library_is_built_once() -> None:
    first = registers.library()
    before = first.stat().st_mtime_ns
    assert (registers.library(), first.stat().st_mtime_ns) == (first, before)


def test_a_missing_compiler_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KernelError, match=r"^user-mode kernels need a C compiler"):
        registers.library()
