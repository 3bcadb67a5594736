"""Images that e2fsprogs' own test suite is made of, where they are at hand.

    python -m tests.cases fetch [--tarball FILE]

gets them from the source package of e2fsprogs and asks the installed e2fsprogs what is right. They
are looked for in the folder that EXT4KIT_E2FSPROGS_CASES names; without that in
`shared/e2fsprogs-cases` beside the repository, then in the cache (`~/.cache/ext4kit`). Each has
`INDEX.jsonl`, a record an image, and `cases.tar.zst`: the images and longer answers.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = "EXT4KIT_E2FSPROGS_CASES"
INDEX = "INDEX.jsonl"
ARCHIVE = "cases.tar.zst"
MISSING = "e2fsprogs' cases are not at hand: python -m tests.cases fetch"


def home() -> Path:
    """The folder that the cases are in, or belong into."""
    if named := os.environ.get(HOME):
        return Path(named)
    beside = REPOSITORY.parent / "shared" / "e2fsprogs-cases"
    if (beside / INDEX).is_file():
        return beside
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ext4kit" / "e2fsprogs-cases"


@cache
def records() -> list[dict[str, Any]]:
    """What is known of each image; empty where they are not at hand."""
    index = home() / INDEX
    if not index.is_file():
        return []
    return [json.loads(line) for line in index.read_text().splitlines()]


def unpack(folder: Path, names: Iterable[str]) -> None:
    """Put the named images into `folder`."""
    archive = home() / ARCHIVE
    subprocess.run(["tar", "--zstd", "-xSf", archive, "-C", folder, *names], check=True)
