"""`python -m ext4kit`, and the console script: handles Ctrl-C before other modules are loaded."""

# The built-in module; `signal` itself would load further modules.
from _signal import (  # type: ignore[import-not-found]
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)

from ext4kit.leaving import leave


def main() -> None:
    """Run the program. A job that was started to ignore interrupts continues to ignore them."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, leave)
    from ext4kit.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
