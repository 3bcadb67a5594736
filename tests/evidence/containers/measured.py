"""What a command costs, as its own process tells it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path


def measured_command(name: str, path: Path) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """A command on an image: how it ended, its seconds, and its largest memory in bytes."""
    code = "import sys; from ext4kit.cli.main import run; code = run(sys.argv[1:]); " \
           "print(open('/proc/self/status').read()); sys.exit(code)"  # fmt: skip
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    took = time.monotonic() - started
    peak = re.search(r"VmHWM:\s*(\d+) kB", done.stdout)  # what the process itself used
    assert peak is not None
    return done, took, int(peak[1]) * 1024
