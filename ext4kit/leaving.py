"""The end of the process at an interrupt that comes before any work; loads no other module."""

import os
import sys


def leave(*_: object) -> None:
    """End the process as interrupted; no work has started that would need a clean-up."""
    try:
        if sys.stderr is not None:  # else another file may use descriptor 2
            os.write(2, b"ext4kit: interrupted\n")
    finally:
        os._exit(130)
