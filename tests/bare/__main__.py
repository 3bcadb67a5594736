"""The two commands of the README in a bare Debian system, as an ordinary user and as root.

`python -m tests.bare [--suite NAME ...] [--as USER]`: the user comes first, before root installs
anything. What is committed is cloned. The outcomes are printed together at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.bare.system import HOMES, BareError, bare_system, inside
from tests.environment import ROOT

PACKAGES = ("python3", "python3-venv", "make", "git", "ca-certificates")
COMMANDS = ("make demo", "make test")
SUITES = ("bookworm", "trixie")


def main() -> int:
    """0 when both commands end well for each user."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare", description=__doc__)
    parser.add_argument(
        "--suite", action="append", help="of Debian; bookworm and trixie by default"
    )
    parser.add_argument("--as", dest="user", choices=[*HOMES], help="both by default")
    asked = parser.parse_args()
    outcomes = []
    try:
        for suite in asked.suite or SUITES:
            with bare_system(suite, PACKAGES) as root:
                subprocess.run(["chroot", root, "useradd", "--create-home", "user"], check=True)
                for user in [asked.user] if asked.user else HOMES:
                    _clone(root, user)
                    outcomes += [_timed(suite, root, user, command) for command in COMMANDS]
    except BareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(line for _, line in outcomes))
    return max(code != 0 for code, _ in outcomes)


def _clone(root: Path, user: str) -> None:
    home = root / HOMES[user].lstrip("/")
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, home / "ext4kit"], check=True)
    owner = f"{home.stat().st_uid}:{home.stat().st_gid}"
    subprocess.run(["chown", "-R", owner, home / "ext4kit"], check=True)


def _timed(suite: str, root: Path, user: str, command: str) -> tuple[int, str]:
    """Run a command of the README as a user; its exit code, and a line that says how it ended."""
    started = time.monotonic()
    done = inside(root, user, ["sh", "-c", f"cd ~/ext4kit && {command}"])
    took = time.monotonic() - started
    line = f"{suite}, {user}: {command}: exit code {done.returncode}, {took:.0f} s"
    print(line, flush=True)
    return done.returncode, line


if __name__ == "__main__":
    sys.exit(main())
