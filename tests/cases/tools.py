"""Programs that are asked, each with a limit of time, and what goes wrong with them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
LIMIT = 10.0  # seconds: e2fsck does not end on some images, and takes less than one on others


class CasesError(Exception):
    """The cases cannot be had; the text is one line that says what to do."""


def ask(*command: str | Path, limit: float | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end.

    Raises:
        CasesError: it is not installed.
        subprocess.TimeoutExpired: it did not end within `limit` seconds, `LIMIT` by default.
    """
    try:
        return subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LIMIT if limit is None else limit,
            env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise CasesError(f"{command[0]} is not installed") from None


def copy_sparse(source: Path, target: Path) -> Path:
    """A copy with holes where the source has zeros."""
    done = ask("cp", "--sparse=always", source, target, limit=600)
    if done.returncode:
        raise CasesError(done.stderr.decode(errors="replace").strip())
    return target
