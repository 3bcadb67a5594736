"""What a failed run leaves: its images with their truth, and what is needed to run it again."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.environment import ROOT

FOLDER = ROOT / "build" / "failed"


def keep(basetemp: Path, seed: int, arguments: Sequence[str], failed: Sequence[str]) -> Path:
    """Move a run's temporary folder to where it stays, with a `run.json` in it.

    Args:
        basetemp: pytest's; it has the images, and the folders of the tests that failed.
        seed: that chose the slow tests.
        arguments: of pytest.
        failed: node ids.
    """
    kept = FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        basetemp.rename(kept)
    except OSError:  # another file system; images stay sparse
        copy = ("cp", "-R", "--sparse=always", "--preserve=timestamps", str(basetemp), str(kept))
        subprocess.run(copy, check=False, capture_output=True)
        shutil.rmtree(basetemp, ignore_errors=True)
    about = {
        "failed": list(failed),
        "seed": seed,
        "arguments": list(arguments),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    (kept / "run.json").write_text(json.dumps(about, indent=1) + "\n")
    return kept
