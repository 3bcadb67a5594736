"""Debian systems as installed: made once through the kernel, and kept in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes import machine
from sample_images.recipes.debian import debian_mirror

SIZE = 3 << 30
OPTIONS = ("-t", "ext4", "-J", "size=64")
COMMON = (
    "ca-certificates,cron,logrotate,rsyslog,openssh-server,openssh-client,sudo,libcap2-bin,vim-tiny,less,"
    "procps,adduser,systemd,e2fsprogs,python3-minimal,perl,xz-utils,nano,passwd,curl"
)
_NO_DAEMONS = "#!/bin/sh\nexit 101\n"
_FEWER = "".join(f"path-exclude=/usr/share/{name}/*\n" for name in ("doc", "locale", "man"))
_APT = (
    "apt-get", "-qq", "-y", "--no-install-recommends",
    "-o", "Dpkg::Options::=--force-confold", "-o", "APT::Sandbox::User=root",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """A kind of system.

    Attributes:
        name: its name in the tables.
        suite: the release of Debian.
        packages: packages that it has besides the common ones.
        uses: names of the uses in `use.py` that it is put to.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    uses: tuple[str, ...]


_WEB = ("apache2", "libapache2-mod-php", "php-mysql", "wordpress", "php-twig", "smarty4")
_SYMFONY = ("php-symfony-framework-bundle", "php-symfony-twig-bundle")
WEB = System("web server, bookworm", "bookworm", (*_WEB, *_SYMFONY, "php-laravel-framework"),
             ("web", "copytruncate"))  # fmt: skip
SYSTEMS = (
    WEB,
    System("web server, trixie", "trixie", (*_WEB, *_SYMFONY), ("web",)),
    System("mail server", "bookworm", ("postfix", "dovecot-imapd", "spamassassin"), ("mail",)),
    System("desktop", "trixie", ("thunar", "xterm", "firefox-esr", "dbus-x11", "polkitd"),
           ("desktop",)),
    System("build server", "bookworm", ("git", "build-essential", "python3-pip", "ansible-core"),
           ("build",)),
    System("container host", "trixie", ("docker.io", "podman", "git"), ("containers",)),
)  # fmt: skip


def inside(root: Path, script: str) -> None:
    """Run a shell script inside a system."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C",
        "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive",
    }  # fmt: skip
    done = subprocess.run(
        ["chroot", root, "sh", "-c", script], capture_output=True, check=False, env=environment
    )
    if done.returncode:
        said = (done.stderr + done.stdout).decode(errors="replace")
        raise machine.MachineError(f"{script[:200]}: {said[-1500:]}")


@contextmanager
def ready(root: Path, archives: Path) -> Iterator[None]:
    """The system can install packages, and its daemons do not start."""
    archives.mkdir(parents=True, exist_ok=True)
    (root / "usr/sbin/policy-rc.d").write_text(_NO_DAEMONS)
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    with ExitStack() as stack:
        for source, target in (
            (archives, "var/cache/apt/archives"), (Path("/proc"), "proc"), (Path("/dev"), "dev")
        ):  # fmt: skip
            machine.run("mount", "--bind", source, root / target)
            stack.callback(machine.run, "umount", root / target)
        yield


def apt(root: Path, *command: str) -> None:
    """Run apt-get inside a system."""
    inside(root, " ".join((*_APT, *command)))


def installed(system: System, folder: Path) -> Path:
    """The image of a system, not yet used; made if the folder does not have it."""
    return _made(folder / f"{system.name.replace(', ', '-').replace(' ', '-')}.img", system, folder)


def _made(image: Path, system: System, folder: Path) -> Path:
    if image.exists():
        return image
    part = image.with_suffix(".part")
    part.unlink(missing_ok=True)
    machine.copy_sparse(_base(system.suite, folder), part)
    archives = folder / f"archives-{system.suite}"
    with machine.mounted(part, "noatime") as root, ready(root, archives):
        apt(root, "install", *system.packages)
    _forget(part)
    part.rename(image)
    return image


def _base(suite: str, folder: Path) -> Path:
    """The image of a suite with the packages that all systems have."""
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / f"base-{suite}.img"
    if image.exists():
        return image
    part = image.with_suffix(".part")
    part.unlink(missing_ok=True)
    machine.make_file_system(part, SIZE, OPTIONS)
    archives = folder / f"archives-{suite}"
    archives.mkdir(exist_ok=True)
    with machine.mounted(part, "noatime") as root:
        options = ("--variant=minbase", f"--cache-dir={archives.resolve()}")
        machine.run("debootstrap", *options, suite, root, debian_mirror())
        (root / "etc/dpkg/dpkg.cfg.d/fewer").write_text(_FEWER)
        with ready(root, archives):
            apt(root, "update")
            apt(root, "install", *COMMON.split(","))
    part.rename(image)
    return image


def _forget(image: Path) -> None:
    """Give a file system a new journal, as if the installation were long ago."""
    machine.run("tune2fs", "-O", "^has_journal", image)
    machine.run("tune2fs", "-J", "size=64", image)


def upgrade(root: Path, suite: str, archives: Path) -> None:
    """Install the updates of a suite, as a server's administrator does."""
    mirror = debian_mirror()
    security = os.path.dirname(mirror.rstrip("/")) + "/debian-security"  # noqa: PTH120
    lines = (f"deb {mirror} {suite}-updates main", f"deb {security} {suite}-security main")
    with (root / "etc/apt/sources.list").open("a") as sources:
        sources.write("\n".join(lines) + "\n")
    with ready(root, archives):
        apt(root, "update")
        apt(root, "upgrade")
