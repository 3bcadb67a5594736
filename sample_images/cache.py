"""Where tools and kernels are kept that were fetched and not installed."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where tools are unpacked by users who cannot install them; XDG_CACHE_HOME is heeded."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "ext4kit" / "tools"
