"""Whether this kernel mounts ext4 for us, tried once in a run."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from sample_images.recipes import machine

ANSWER = "EXT4KIT_TESTS_KERNEL"  # what the first process of a run found out, for its workers


@cache
def missing_for_kernel() -> str:
    """Why ext4 images cannot be made and mounted here; empty when they can.

    A tiny image is mounted: root alone does not do it in a container, nor a kernel without ext4.
    """
    if ANSWER not in os.environ:
        os.environ[ANSWER] = machine.missing_for_kernel() or _try()
    return os.environ[ANSWER]


def _try() -> str:
    with tempfile.TemporaryDirectory(prefix="ext4kit-probe-") as folder:
        image = Path(folder) / "image"
        try:
            machine.make_file_system(image, 1 << 20, ("-t", "ext4", "-b", "1024"))
            with machine.mounted(image, "rw"):
                return ""
        except machine.MachineError as error:
            return f"needs a kernel that mounts ext4 images ({str(error).splitlines()[0]})"
