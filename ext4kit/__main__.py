"""`python -m ext4kit`, and the console script: handles Ctrl-C before other modules are loaded."""

import os
import sys

# The built-in module; `signal` itself would load further modules.
from _signal import (  # type: ignore[import-not-found]
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)


def leave(*_: object) -> None:
    """End the process as interrupted; no work has started that would need a clean-up."""
    try:
        if sys.stderr is not None:  # else another file may use descriptor 2
            os.write(2, b"ext4kit: interrupted\n")
    finally:
        os._exit(130)


def main() -> None:
    """Run the program. A job that was started to ignore interrupts continues to ignore them."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, leave)
    from ext4kit.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
