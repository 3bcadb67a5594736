"""The two commands of the README in a bare Debian system, as an ordinary user and as root.

`python -m tests.bare [--suite NAME] [--as USER]`: the user comes first, before root installs
anything. What is committed is cloned. The outcomes are printed together at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.bare.system import BareError, bare_system, settings
from tests.environment import ROOT

PACKAGES = ("python3", "python3-venv", "make", "git", "ca-certificates")
COMMANDS = ("make demo", "make test")
HOMES = {"user": "/home/user", "root": "/root"}
# The mounts are in a name space of their own: they go with the last process.
_INSIDE = """
mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"; mount -t sysfs sys "$1/sys"
root=$1; shift; exec chroot "$root" "$@"
"""


def main() -> int:
    """0 when both commands end well for each user."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare", description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="of Debian")
    parser.add_argument("--as", dest="user", choices=[*HOMES], help="both by default")
    asked = parser.parse_args()
    outcomes = []
    try:
        with bare_system(asked.suite, PACKAGES) as root:
            subprocess.run(["chroot", root, "useradd", "--create-home", "user"], check=True)
            for user in [asked.user] if asked.user else HOMES:
                _clone(root, user)
                outcomes += [_timed(root, user, command) for command in COMMANDS]
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


def _timed(root: Path, user: str, command: str) -> tuple[int, str]:
    """Run a command of the README as a user; its exit code, and a line that says how it ended."""
    environment = {
        **settings(),
        "HOME": HOMES[user],
        "USER": user,
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin" + (":/usr/sbin:/sbin" if user == "root" else ""),
    }
    variables = [f"{name}={value}" for name, value in environment.items()]
    words = ["runuser", "-u", user, "--", "env", "-i", *variables, "sh", "-c"]
    words += [f"cd ~/ext4kit && {command}"]
    started = time.monotonic()
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _INSIDE, "sh", root, *words],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    line = f"{user}: {command}: exit code {done.returncode}, {time.monotonic() - started:.0f} s"
    print(line, flush=True)
    return done.returncode, line


if __name__ == "__main__":
    sys.exit(main())
