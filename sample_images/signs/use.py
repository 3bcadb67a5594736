"""What people and daemons do on a system that nobody breaks into.

Each use is a shell script that runs inside the system; `sync` commits what it did so far.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from sample_images.recipes import machine
from sample_images.signs.installed import System, inside, installed, upgrade

_USES = Path(__file__).with_name("scenes") / "uses.yaml"
_SYNC = "set -eu\ncd /\nsync() { command sync -f /; }\n"


def uses() -> dict[str, str]:
    """Name -> script."""
    found: dict[str, str] = {}
    for document in yaml.safe_load_all(_USES.read_text()):
        found[document["name"]] = document["script"]
    return found


def used(system: System, folder: Path) -> Path:
    """The image of a system that was used for a while; made if the folder does not have it."""
    digest = hashlib.sha256(_USES.read_bytes()).hexdigest()[:12]
    start = installed(system, folder)
    image = folder / f"{start.stem}-used-{digest}.img"
    if not image.exists():
        part = image.with_suffix(".part")
        part.unlink(missing_ok=True)
        machine.copy_sparse(start, part)
        _use(system, part, folder)
        part.rename(image)
    return image


def _use(system: System, image: Path, folder: Path) -> None:
    scripts = uses()
    with machine.mounted(image, "relatime,commit=5") as root:
        for part in ("before", *system.uses):
            inside(root, _SYNC + scripts[part])
            machine.sync(root)
        upgrade(root, system.suite, folder / f"archives-{system.suite}")
        for part in (*(f"{use}, later" for use in system.uses), "after"):
            if part in scripts:
                inside(root, _SYNC + scripts[part])
                machine.sync(root)
