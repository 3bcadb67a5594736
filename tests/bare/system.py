"""A minimal Debian system in a folder, with this machine's way to the package archives.

It needs root and debootstrap. Mirror, proxies and certificates are those of this machine; they
are taken from it and never named here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.environment import ROOT, is_root

KEPT = ROOT / "build" / "bare"  # packages of a system are downloaded once
_ACQUIRE = re.compile(r'Acquire::(https?::Proxy|https::CAInfo)\b.* ".+";', re.IGNORECASE)
_SETTINGS = re.compile(r"PIP_|SSL_CERT_|.*_proxy$", re.IGNORECASE)
HOMES = {"user": "/home/user", "root": "/root"}
# The mounts are in a name space of their own: they go with the last process.
_INSIDE = """
mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"; mount -t sysfs sys "$1/sys"
root=$1; shift; exec chroot "$root" "$@"
"""
_FILES = ("etc/ssl/certs/ca-certificates.crt", "etc/pip.conf", "etc/resolv.conf", "etc/hosts")


class BareError(Exception):
    """No bare system can be made, or it does not do what it should."""


@contextmanager
def bare_system(suite: str, packages: Sequence[str]) -> Iterator[Path]:
    """A system in a folder that goes at the end.

    Raises:
        BareError: this is not root, or debootstrap or its archive is not here.
    """
    if not is_root() or shutil.which("debootstrap") is None:
        raise BareError("needs root and debootstrap: apt-get install debootstrap")
    KEPT.mkdir(parents=True, exist_ok=True)
    root = KEPT / f"{suite}-{os.getpid()}"
    try:
        bootstrap(suite, root, packages)
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def bootstrap(suite: str, root: Path, packages: Sequence[str]) -> None:
    """Make a system of Debian's minimal set and these packages in a folder that is not there."""
    cache = KEPT / "packages"
    cache.mkdir(parents=True, exist_ok=True)
    options = ("--variant=minbase", f"--include={','.join(packages)}", f"--cache-dir={cache}")
    try:
        subprocess.run(
            ["debootstrap", *options, suite, root, _mirror()], check=True, stdout=subprocess.DEVNULL
        )
    except subprocess.CalledProcessError as error:
        raise BareError(f"debootstrap ended with {error.returncode}") from error
    settings = [
        line for line in _said("apt-config", "dump", "Acquire").splitlines() if _ACQUIRE.match(line)
    ]
    (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join([*settings, ""]))
    for name in _FILES:
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)


def inside(
    root: Path, user: str, command: Sequence[str], capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command in a system as a user, with this machine's way to packages."""
    environment = {
        **settings(),
        "HOME": HOMES[user],
        "USER": user,
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin" + (":/usr/sbin:/sbin" if user == "root" else ""),
    }
    variables = [f"{name}={value}" for name, value in environment.items()]
    words = ["runuser", "-u", user, "--", "env", "-i", *variables, *command]
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _INSIDE, "sh", root, *words],
        stdin=subprocess.DEVNULL, capture_output=capture, text=True, check=False,
    )  # fmt: skip


def settings() -> dict[str, str]:
    """The environment that leads pip and apt to their indexes."""
    return {
        name: value
        for name, value in os.environ.items()
        if _SETTINGS.match(name) and name != "PIP_FIND_LINKS"
    }


def _mirror() -> str:
    """Where this machine has its Debian from."""
    form = "$(IDENTIFIER) $(ORIGIN) $(CODENAME) $(REPO_URI)"
    rows = _said("apt-get", "indextargets", "--format", form).splitlines()
    for row in map(str.split, rows):
        if row[:2] == ["Packages", "Debian"] and "-" not in row[2]:
            return row[3]
    raise BareError("apt knows no archive of Debian; is this one, and `apt-get update` done?")


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
