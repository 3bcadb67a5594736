"""Images that e2fsprogs' own test suite is made of, where they are at hand.

EXT4KIT_E2FSPROGS_CASES names their folder: `INDEX.jsonl`, a record an image, and the images in
`cases.tar.zst`. A folder `shared/e2fsprogs-cases` beside the repository is found by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
MISSING = "e2fsprogs' cases are not at hand (EXT4KIT_E2FSPROGS_CASES)"


def _home() -> Path:
    named = os.environ.get("EXT4KIT_E2FSPROGS_CASES")
    return Path(named) if named else REPOSITORY.parent / "shared" / "e2fsprogs-cases"


@cache
def records() -> list[dict[str, Any]]:
    """What is known of each image; empty where they are not at hand."""
    index = _home() / "INDEX.jsonl"
    if not index.is_file():
        return []
    return [json.loads(line) for line in index.read_text().splitlines()]


def unpack(folder: Path, names: Iterable[str]) -> None:
    """Put the named images into `folder`."""
    archive = _home() / "cases.tar.zst"
    subprocess.run(["tar", "--zstd", "-xSf", archive, "-C", folder, *names], check=True)
