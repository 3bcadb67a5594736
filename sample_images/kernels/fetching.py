"""Bring Debian's user-mode kernels into the cache, as an ordinary user.

apt does it, with lists and settings of its own below the cache: it checks the signature of the
suite and the SHA-256 of each package. The libraries of the same suite come with the kernel, so that
it runs on systems whose own are older or newer.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sample_images.cache import cache_folder
from sample_images.kernels import SUITES, Kernel, KernelError, kernels_folder

PACKAGES = ("user-mode-linux", "libc6")
MIRROR = "DEBIAN_MIRROR"  # the variable of the environment that names one
KEYRING_PACKAGE = "debian-archive-keyring"
_KEYRING = Path("usr/share/keyrings/debian-archive-keyring.gpg")
_LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
_OWN_LOADER = b"lib/ld-linux-x86-64.so.2\0"  # below the folder that the kernel is started in


@dataclass(frozen=True, slots=True)
class Mirror:
    """A place that has Debian's packages.

    Attributes:
        url: as apt takes it.
        options: of its line in sources.list; none asks for a signature of Debian.
    """

    url: str
    options: str = ""


def mirrors() -> list[Mirror]:
    """Where Debian's packages are: what MIRROR names, else where a Debian system has its own from.

    Of a suite that is over the index has expired, and is taken all the same.

    Raises:
        KernelError: nothing names one.
    """
    named = os.environ.get(MIRROR)
    found = [named] if named else _of_this_system()
    if not found:
        raise KernelError(f"no mirror of Debian is known here: name one, {MIRROR}=http://...")
    return [Mirror(url, "check-valid-until=no") for url in found]


def _of_this_system() -> list[str]:
    """The mirrors of the installed suite of a Debian system."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return []
    if system.get("ID") != "debian":
        return []
    told = _run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)")
    lines = (line.split() for line in told.splitlines())
    suites = {system.get("VERSION_CODENAME"), *SUITES.values(), "stable", "testing", "unstable"}
    return list(dict.fromkeys(url.rstrip("/") for url, suite in lines if suite in suites))


def keyring() -> Path | None:
    """Debian's keys, installed or in the cache."""
    places = (Path("/") / _KEYRING, cache_folder() / "root" / _KEYRING)
    return next((place for place in places if place.exists()), None)


def fetch(suite: str, places: Sequence[Mirror] | None = None) -> Kernel:
    """Put the kernel of a suite into the cache, in the place of the one that is there.

    Args:
        suite: as "trixie".
        places: tried in this order; `mirrors` by default.

    Raises:
        KernelError: no mirror has it, or what it has is not what the suite names.
    """
    if os.uname().machine != "x86_64":
        raise KernelError(f"user-mode kernels are for x86_64, this is {os.uname().machine}")
    kernels_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kernels_folder(), prefix=".fetch-") as scratch:
        archives = _download(suite, Path(scratch), mirrors() if places is None else places)
        root, made = Path(scratch) / "root", Path(scratch) / "kernel"
        for archive in archives:
            _run("dpkg-deb", "--extract", archive, root)
        _arrange(root, made)
        place = kernels_folder() / suite
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    return Kernel(next((place / "modules").iterdir()).name, place)


def _download(suite: str, folder: Path, places: Sequence[Mirror]) -> list[Path]:
    """The packages, from the first mirror that has them all."""
    said = []
    for mirror in places:
        try:
            return _download_from(mirror, suite, folder)
        except KernelError as error:
            said.append(f"{mirror.url}: {error}")
    raise KernelError(f"{suite}: {'; '.join(said)}")


def _download_from(mirror: Mirror, suite: str, folder: Path) -> list[Path]:
    here = Path(tempfile.mkdtemp(dir=folder))
    for made in ("lists/partial", "archives/partial"):
        (here / made).mkdir(parents=True)
    keys = keyring()
    signed = [f"signed-by={keys}"] if keys else []
    options = " ".join(["arch=amd64", *signed, *mirror.options.split()])
    (here / "sources.list").write_text(f"deb [{options}] {mirror.url} {suite} main\n")
    (here / "status").touch()
    settings = {
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",  # the cache is the caller's; nobody else may enter it
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        "Debug::NoLocking": "1",
        "Dir::Cache": here,
        "Dir::Cache::archives": here / "archives",
        "Dir::Etc::sourcelist": here / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": here / "lists",
        "Dir::State::status": here / "status",
    }
    words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *words, "update", "-qq", "--error-on=any", folder=here)
    _run("apt-get", *words, "download", "-qq", *PACKAGES, folder=here)
    return sorted(here.glob("*.deb"))


def _arrange(root: Path, made: Path) -> None:
    """What a start needs of unpacked packages: program, libraries, modules.

    The program names its loader by a path below /lib64. It is named anew by one that is relative to
    the folder it is started in: started through the loader, the kernel would find the heap of the
    loader behind its own end, and take the distance for memory that it lacks.
    """
    program = (root / "usr/bin/linux.uml").read_bytes()
    if program.count(_LOADER) != 1:
        raise KernelError("linux.uml does not name the loader of x86_64")
    (made / "lib").mkdir(parents=True)
    linux = made / "linux"
    linux.write_bytes(program.replace(_LOADER, _OWN_LOADER.ljust(len(_LOADER), b"\0")))
    linux.chmod(0o755)
    libraries = next(root.rglob("libc.so.6")).parent
    for library in libraries.glob("*.so*"):
        if library.is_file():
            shutil.copy2(library, made / "lib" / library.name)
    (root / "usr/lib/uml/modules").rename(made / "modules")


def _run(*command: str | Path, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True,
            errors="replace", env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except FileNotFoundError as error:
        raise KernelError(f"needs {command[0]}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise KernelError(f"{command[0]}: {(lines or ['failed'])[0].removeprefix('E: ')}")
    return done.stdout
