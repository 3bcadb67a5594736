"""The command line of `python -m tests.cases fetch`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests import cases
from tests.cases.fetching import fetch
from tests.cases.tools import CasesError
from tests.environment import widen_path

TARBALL = "EXT4KIT_E2FSPROGS_TARBALL"


def main() -> int:
    """Fetch the cases; 1 where they cannot be had, with one line that says what to do."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cases",
        description="Get the images that e2fsprogs is tested with, for the tests of ext4kit.",
        epilog=f"They go into the folder that {cases.HOME} names, else into the cache.",
    )
    parser.add_argument("command", choices=["fetch"])
    parser.add_argument(
        "--tarball",
        type=Path,
        default=os.environ.get(TARBALL) or None,
        help=f"the source of e2fsprogs; {TARBALL} or what apt-get downloads, if it is not given",
    )
    widen_path()
    try:
        fetch(parser.parse_args().tarball)
    except (CasesError, OSError) as error:
        print(f"e2fsprogs' cases: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
