"""`python -m ext4kit`, and the console script: Ctrl-C has its answer before all else is loaded."""

import os
import sys

# Built into Python: `signal` itself loads some modules more.
from _signal import (  # type: ignore[import-not-found]
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)


def leave(*_: object) -> None:
    """End the process as interrupted: nothing is under way that would have to be put in order."""
    try:
        if sys.stderr is not None:  # else something else may have its descriptor
            os.write(2, b"ext4kit: interrupted\n")
    finally:
        os._exit(130)


def main() -> None:
    """Run the program. A job that was started to ignore interrupts goes on ignoring them."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, leave)
    from ext4kit.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
