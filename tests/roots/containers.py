"""A container with the records that Docker writes."""

from __future__ import annotations

import json
from pathlib import Path

STORE = "var/lib/docker/overlay2"
CONTAINER, MIDDLE, IMAGE = "c" * 64, "e" * 64, "d" * 64


def docker_container(disk: Path) -> list[Path]:
    """The records of a container `web`, and its empty layers: its own, and two of its image."""
    layers = [disk / STORE / name / "diff" for name in (CONTAINER, MIDDLE, IMAGE)]
    for number, layer in enumerate(layers):
        layer.mkdir(parents=True)
        (layer.parent / "link").write_text(f"SHORT{number}")
        (layer.parent / "work").mkdir()
        if below := [f"l/SHORT{lower}" for lower in range(number + 1, len(layers))]:
            (layer.parent / "lower").write_text(":".join(below))
    mounts = disk / "var/lib/docker/image/overlay2/layerdb/mounts" / CONTAINER
    mounts.mkdir(parents=True)
    (mounts / "mount-id").write_text(CONTAINER)
    records = disk / "var/lib/docker/containers" / CONTAINER
    records.mkdir(parents=True)
    config = {"ID": CONTAINER, "Name": "/web", "Config": {"Image": "shop:1"}}
    (records / "config.v2.json").write_text(json.dumps(config))
    return layers
