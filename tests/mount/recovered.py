"""What `recover` writes of an image."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Cli


def recovered_files(ext4kit: Cli, image: Path, out: Path) -> list[dict[str, object]]:
    """The records of the files that it writes whole."""
    assert ext4kit("recover", image, "-o", out).returncode in (0, 1)
    lines = (out / "manifest.jsonl").read_text().splitlines()
    records = [one for one in map(json.loads, lines) if one.get("sha256")]
    return [one for one in records if one["type"] == "file" and not one["lost"]]
