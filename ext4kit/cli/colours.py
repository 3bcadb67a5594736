"""Whether output is coloured: on a terminal or with FORCE_COLOR, but never with NO_COLOR."""

from __future__ import annotations

import os
from typing import TextIO


def has_colours(stream: TextIO) -> bool:
    """Whether text for a stream may have colours (no-color.org, force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()
