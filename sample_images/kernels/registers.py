"""The library that lets user-mode kernels run on processors with AMX (see registers.c)."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from sample_images.kernels import KernelError, kernels_folder

SOURCE = Path(__file__).with_name("registers.c")
COMPILERS = ("cc", "gcc", "clang", "tcc")
_CPUINFO = Path("/proc/cpuinfo")


def are_too_large() -> bool:
    """Whether this processor's registers take more room than the kernels have for them."""
    return "amx_tile" in _CPUINFO.read_text().split()


def library() -> Path:
    """The library, built into the cache once.

    Raises:
        KernelError: no C compiler, or it does not build it.
    """
    source = SOURCE.read_bytes()
    kernels_folder().mkdir(parents=True, exist_ok=True)
    made = kernels_folder() / f".registers-{hashlib.sha256(source).hexdigest()[:12]}.so"
    if not made.exists():
        _build(made)
    return made


def _build(made: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise KernelError("user-mode kernels need a C compiler (cc or tcc) on a processor with AMX")
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=".build-") as scratch:
        new = Path(scratch) / made.name
        flags = ("-O2", "-shared", "-fPIC", "-nostdlib", "-fno-stack-protector", "-o", str(new))
        done = subprocess.run(
            [compiler, *flags, str(SOURCE)], capture_output=True, check=False, text=True
        )
        if done.returncode != 0:
            said = (done.stderr.strip() or "failed").splitlines()[0]
            raise KernelError(f"{compiler}: {said}")
        new.replace(made)
