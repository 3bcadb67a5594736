"""Bring in what the tests need: installed by root, unpacked into a cache folder by anyone else.

`python -m tests.environment.provide`. It prints what it does, and nothing where nothing is
missing. It never fails: tests whose tools cannot be had are left out, and the run says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from sample_images.cache import cache_folder
from sample_images.kernels import KernelError, fetching
from tests.environment import PACKAGES, is_root, missing, user_mode, widen_path
from tests.environment.kernel import missing_for_kernel

SUITE = "trixie"  # whose kernel is brought in; its journal goes on at the next mount
_WRAPPER = """#!/bin/sh
{settings} exec {program} "$@"
"""
_FURTHER = {  # where programs look for what is theirs, and where that lies below the folder
    "MAGIC": ["usr/lib/file/magic.mgc"],
    "GROFF_FONT_PATH": ["usr/share/groff/*/font"],
    "GROFF_TMAC_PATH": ["usr/share/groff/*/tmac", "etc/groff"],
}
_OF_NO_USE = {"debootstrap", "man", "zsh"}  # they need root, settings in /etc, modules in /usr


def provide() -> None:
    """Bring in the tools that are missing, and a kernel for who may not mount."""
    widen_path()
    wanted = [package for package, commands in PACKAGES.items() if missing(*commands)]
    needs_kernel = bool(missing_for_kernel()) and user_mode.newest() is None
    if needs_kernel and fetching.keyring() is None:
        wanted.append(fetching.KEYRING_PACKAGE)
    if (wanted or needs_kernel) and shutil.which("apt-get") is None:
        kernel = ["a kernel"] if needs_kernel else []
        _say(f"no apt-get here, so these are not brought in: {' '.join([*wanted, *kernel])}")
        return
    try:
        if wanted:
            _install(wanted) if is_root() else _unpack(wanted)
        if needs_kernel:
            _say(f"fetching Debian's user-mode kernel of {SUITE}")
            fetching.fetch(SUITE)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()
        _say(f"{' '.join(map(str, error.cmd[:2]))}: {said[-1] if said else error.returncode}")
    except KernelError as error:
        _say(str(error))


def _install(packages: list[str]) -> None:
    _run("apt-get", "update", "-qq")
    known = _known(packages)
    _say(f"installing {' '.join(known)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *known, env=environment)


def _unpack(packages: list[str]) -> None:
    """Download packages with what they depend on, and put their commands into one folder."""
    folder = cache_folder()
    lists, archives, root = (folder / name for name in ("lists", "archives", "root"))
    for made in (lists / "partial", archives / "partial", root):
        made.mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": lists,
        "Dir::Cache": folder,
        "Dir::Cache::archives": archives,
        "Debug::NoLocking": 1,
    }
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *settings, "update", "-qq")
    known = _known(packages, *settings)
    _say(f"unpacking into {folder}: {' '.join(known)}")
    more = ("--download-only", "-y", "-qq", "--no-install-recommends")
    _run("apt-get", *settings, "install", *more, *known)
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "--extract", archive, root)
        archive.unlink()
    _link_commands(root, folder / "commands")


def _link_commands(root: Path, commands: Path) -> None:
    """A script for each program below `root` that runs it with its own libraries."""
    commands.mkdir(exist_ok=True)
    places = {"LD_LIBRARY_PATH": sorted({path.parent for path in root.rglob("lib*.so*")})}
    for name, forms in _FURTHER.items():
        places[name] = [path for form in forms for path in sorted(root.glob(form))]
    settings = " ".join(
        f"{name}={shlex.quote(os.pathsep.join(map(str, paths)))}" for name, paths in places.items()
    )
    for folder in ("bin", "sbin", "usr/bin", "usr/sbin"):
        for program in (root / folder).glob("*"):
            if program.name in _OF_NO_USE:
                continue
            script = commands / program.name
            script.write_text(_WRAPPER.format(settings=settings, program=shlex.quote(str(program))))
            script.chmod(0o755)


def _known(packages: list[str], *settings: str) -> list[str]:
    """Those that this system's archive has; the others are named."""
    told = _run("apt-cache", *settings, "policy", *packages)
    known = {
        block.split(":", 1)[0]
        for block in told.replace("\n ", "\r").splitlines()
        if "Candidate: (none)" not in block
    }
    absent = [package for package in packages if package not in known]
    if absent:
        _say(f"this system has no package {' '.join(absent)}")
    return [package for package in packages if package in known]


def _run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    return subprocess.run(
        words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env
    ).stdout


def _say(text: str) -> None:
    print(f"tools: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    provide()
