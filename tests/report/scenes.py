"""Small scenes acted out by the kernel: a plain system, and what an intruder does to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from sample_images.recipes import machine

OPTIONS = ("-t", "ext4", "-J", "size=4")
SIZE = 48 << 20
PACKAGED = 1_600_000_000
HISTORY, KEYS = "root/.bash_history", "root/.ssh/authorized_keys"  # in an image, of its root


def shown(path: str) -> bytes:
    """A path in an image as the program gives it."""
    return b"/" + path.encode()


def acting(image: Path) -> AbstractContextManager[Path]:
    """The image mounted; nothing is committed but where a scene syncs."""
    return machine.mounted(image, "noatime,commit=600")


def fresh(image: Path) -> Path:
    """A new file system in a new file."""
    machine.make_file_system(image, SIZE, OPTIONS)
    return image


def put(path: Path, data: bytes = b"something\n", mode: int = 0o644) -> Path:
    """A file with its parents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def packaged(path: Path, data: bytes = b"\x7fELF and more\n", mode: int = 0o644) -> None:
    """A file as a package manager unpacks it: with the time that the package says."""
    put(path, data, mode)
    os.utime(path, (PACKAGED, PACKAGED))


def live_plainly(root: Path) -> None:
    """A system set up; logs written and rotated, letters written, a package removed."""
    for name in ("bash", "ls", "vim"):
        packaged(root / "usr/bin" / name, mode=0o755)
    for name in ("passwd", "su", "sudo"):
        packaged(root / "usr/bin" / name, mode=0o4755)
    for name in ("cron.d/e2scrub_all", "cron.daily/logrotate", "crontab", "hosts"):
        packaged(root / "etc" / name)
    for name in ("root/.ssh", "tmp/.ICE-unix", "tmp/.X11-unix", "dev/shm", "var/tmp", "proc"):
        (root / name).mkdir(parents=True)
    packaged(root / "etc/cron.d/e2scrub_all.dpkg-new")
    put(root / HISTORY)
    put(root / "var/www/html/index.php")
    put(root / "var/www/html/uploads/photo.jpg")
    for name in ("auth.log", "syslog", "nginx/access.log", "wtmp"):
        put(root / "var/log" / name)
    put(root / "tmp/draft.txt")
    put(root / "home/anna/.bashrc")
    put(root / "home/anna/...And Justice for All.ogg")
    machine.sync(root)
    (root / "var/log/auth.log").rename(root / "var/log/auth.log.1")
    put(root / "var/log/auth.log")
    put(root / "home/anna/letter.txt").unlink()
    (root / "tmp/draft.txt").unlink()
    (root / "usr/bin/vim").unlink()
    (root / "etc/cron.d/e2scrub_all.dpkg-new").unlink()
    with (root / HISTORY).open("ab") as history:
        history.write(b"ls\n")
    put(root / "var/www/html/new.html")
    machine.sync(root)


def _web_shell(root: Path) -> None:
    shell = put(root / "var/www/html/uploads/x.php")
    machine.sync(root)
    shell.unlink()


def _setuid(root: Path) -> None:
    program = put(root / "usr/local/bin/helper", mode=0o755)
    machine.sync(root)
    program.chmod(0o4755)


def _shared_memory(root: Path) -> None:
    put(root / "dev/shm/.k/agent", mode=0o755)


def _preload(root: Path) -> None:
    put(root / "etc/ld.so.preload", b"/lib/evil.so\n")


def _wtmp(root: Path) -> None:
    (root / "var/log/wtmp").unlink()


def _log_edited(root: Path) -> None:
    edited = put(root / "var/log/sedAbCdEf")
    machine.sync(root)
    edited.rename(root / "var/log/auth.log")


def _log_cut(root: Path) -> None:
    machine.truncate(root / "var/log/nginx/access.log", 0)


def _history(root: Path) -> None:
    (root / HISTORY).unlink()


def _history_cut(root: Path) -> None:
    machine.truncate(root / HISTORY, 0)


def _history_linked(root: Path) -> None:
    (root / HISTORY).unlink()
    (root / HISTORY).symlink_to("/dev/null")


def _key(root: Path) -> None:
    put(root / KEYS, b"ssh-ed25519 AAAA\n")


def _service_key(root: Path) -> None:
    put(root / "var/www/.ssh/authorized_keys", b"ssh-ed25519 AAAA\n")


def _job(root: Path) -> None:
    put(root / "etc/cron.d/sysstat-collect")


def _temp_program(root: Path) -> None:
    put(root / "tmp/exploit", mode=0o755).unlink()
    put(root / "var/tmp/tool", mode=0o755)


def _hidden(root: Path) -> None:
    put(root / "usr/bin/.sshd", mode=0o755)


def _temp_hidden(root: Path) -> None:
    put(root / "tmp/.x/list")


def _odd(root: Path) -> None:
    (root / "srv/... ").mkdir(parents=True)
    put(root / "srv/\x1b[2Jclear")
    put(root / "srv/right\u202egpj.exe")


def _in_dev(root: Path) -> None:
    put(root / "dev/ptyp")


def _page_removed(root: Path) -> None:
    page = put(root / "var/www/html/about.php")
    machine.sync(root)
    page.unlink()


def _log_removed(root: Path) -> None:
    (root / "var/log/nginx/access.log").unlink()


def _future(root: Path) -> None:
    os.utime(root / "home/anna/.bashrc", (4_000_000_000, 4_000_000_000))


def _locked(root: Path) -> None:
    path = put(root / "etc/passwd-keeper")
    machine.sync(root)
    subprocess.run(["chattr", "+i", path], check=True)


def _wiped(root: Path) -> None:
    path = put(root / "home/anna/plan.txt", b"plan " * 1000)
    machine.sync(root)
    subprocess.run(["shred", "-u", path], check=True)


def _overwritten(root: Path) -> None:
    path = put(root / "home/anna/list.txt", b"list " * 1000)
    machine.sync(root)
    subprocess.run(["shred", path], check=True)
    machine.sync(root)
    path.unlink()


def _filled(root: Path) -> None:
    path = root / "home/anna/filling"
    with path.open("wb", 0) as stream, suppress(OSError):
        while stream.write(bytes(1 << 20)):
            pass
    machine.sync(root)
    path.unlink()


ACTS: dict[str, tuple[Callable[[Path], None], bytes]] = {
    "upload-script": (_web_shell, b"/var/www/html/uploads/x.php"),
    "setuid-gained": (_setuid, b"/usr/local/bin/helper"),
    "setuid-place": (_setuid, b"/usr/local/bin/helper"),
    "shared-memory": (_shared_memory, b"/dev/shm/.k/agent"),
    "preload": (_preload, b"/etc/ld.so.preload"),
    "login-records": (_wtmp, b"/var/log/wtmp"),
    "log-swapped": (_log_edited, b"/var/log/auth.log"),
    "log-emptied": (_log_cut, b"/var/log/nginx/access.log"),
    "history-removed": (_history, shown(HISTORY)),
    "history-emptied": (_history_cut, shown(HISTORY)),
    "history-linked": (_history_linked, shown(HISTORY)),
    "ssh-keys": (_key, shown(KEYS)),
    "ssh-odd-home": (_service_key, b"/var/www/.ssh/authorized_keys"),
    "start-up": (_job, b"/etc/cron.d/sysstat-collect"),
    "temp-program": (_temp_program, b"/var/tmp/tool"),
    "system-hidden": (_hidden, b"/usr/bin/.sshd"),
    "temp-hidden": (_temp_hidden, b"/tmp/.x"),
    "odd-name": (_odd, b"/srv/... "),
    "file-in-dev": (_in_dev, b"/dev/ptyp"),
    "web-script": (_page_removed, b"/var/www/html/about.php"),
    "log-removed": (_log_removed, b"/var/log/nginx/access.log"),
    "clock": (_future, b"/home/anna/.bashrc"),
    "locked": (_locked, b"/etc/passwd-keeper"),
    "wiped": (_wiped, b"/home/anna/plan.txt"),
    "maybe-wiped": (_overwritten, b"/home/anna/list.txt"),
    "disk-filled": (_filled, b"/home/anna/filling"),
}
GROUPS = (  # acts that do not get into each other's way share an image
    ("upload-script", "setuid-gained", "setuid-place", "shared-memory", "preload", "login-records",
     "log-swapped", "history-removed", "ssh-keys", "start-up", "temp-program", "system-hidden"),
    ("log-emptied", "history-emptied", "ssh-odd-home", "temp-hidden", "odd-name", "file-in-dev"),
    ("history-linked", "web-script", "log-removed", "clock", "locked"),
    ("wiped", "maybe-wiped", "disk-filled"),
)  # fmt: skip


def plain(folder: Path) -> Path:
    """An image of a system that nobody broke into."""
    image = fresh(folder / "plain.img")
    with acting(image) as root:
        live_plainly(root)
    return image


def broken_into(plain_image: Path, codes: tuple[str, ...]) -> Path:
    """A copy of the plain system after some acts."""
    image = plain_image.with_name(f"{codes[0]}.img")
    machine.copy_sparse(plain_image, image)
    with acting(image) as root:
        for act in dict.fromkeys(ACTS[code][0] for code in codes):
            act(root)
            machine.sync(root)
        if "locked" in codes:
            left = image.with_name("left.img")
            machine.copy_sparse(image, left)
            subprocess.run(["chattr", "-i", root / "etc/passwd-keeper"], check=True)
    if "locked" in codes:
        shutil.move(left, image)
    return image
