"""The story, acted out by the guest kernel: run as init inside User-mode Linux.

Nothing but the standard library is used, and nothing of this project: the guest sees the files
of the host, read only. Each act sets the clock first and ends with a commit. The last one ends
with the power going.
"""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path("/mnt")
DEVICE = "/dev/ubda"
LIBC = ctypes.CDLL(None, use_errno=True)
WORDS = (
    *("order", "invoice", "customer", "delivery", "garden"),
    *("harbour", "winter", "meeting", "copper", "account"),
)
ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00\x01\x00\x00\x00"
PACKAGED = 1_690_000_000  # what packages say of their files' age, seconds
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF
NOATIME = 0x400
TOLD = "the story is told"
MKE2FS = ("/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=16", "-N", "4096",
          "-L", "web-01", "-U", "5ca1ab1e-0000-4000-8000-0000000003eb", "-M", "/",
          "-E", "nodiscard,hash_seed=0b5e55ed-0000-4000-8000-0000000003eb")  # fmt: skip
CHANCE = random.Random("web-01")


def at(moment: str) -> None:
    """Set the guest's clock: "2026-02-22 09:00", UTC."""
    seconds = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    time.clock_settime(time.CLOCK_REALTIME, seconds + CHANCE.random())


def text(lines: int) -> bytes:
    """Lines of words."""
    chosen = (" ".join(CHANCE.choices(WORDS, k=9)) for _ in range(lines))
    return ("\n".join(chosen) + "\n").encode()


def log_lines(service: str, lines: int) -> bytes:
    """Lines as a system's log has them."""
    stamp = datetime.now(UTC).strftime("%b %d %H:%M:%S")
    rows = (f"{stamp} web-01 {service}[{CHANCE.randint(300, 9000)}]: " for _ in range(lines))
    return "".join(row + " ".join(CHANCE.choices(WORDS, k=6)) + "\n" for row in rows).encode()


def noise(size: int) -> bytes:
    """Bytes without a meaning, which can be packed all the same."""
    return (CHANCE.randbytes(499) * (size // 499 + 1))[:size]


def program(size: int) -> bytes:
    """Something that looks like a program."""
    return ELF + noise(size)


def write(name: str, data: bytes, mode: int = 0o644) -> None:
    """A file with its parents."""
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def packaged(name: str, data: bytes, mode: int = 0o644) -> None:
    """A file as a package manager unpacks it, with the time that the package says."""
    write(name, data, mode)
    moment = PACKAGED + CHANCE.randrange(10_000_000)
    os.utime(ROOT / name, (moment, moment))


def append(name: str, data: bytes) -> None:
    """More at the end of a file."""
    with (ROOT / name).open("ab") as file:
        file.write(data)


def commit() -> None:
    """Bring everything to the disk and close the transaction."""
    os.sync()  # the guest's own: nothing else is mounted there that could be written


def install() -> None:
    """The system as it was set up."""
    at("2026-02-22 09:00")
    for name in ("bash", "ls", "cat", "ps", "sed", "grep", "find", "tar", "ssh", "crontab"):
        packaged(f"usr/bin/{name}", program(CHANCE.randint(8_000, 60_000)), 0o755)
    for name in ("passwd", "su", "sudo"):
        packaged(f"usr/bin/{name}", program(CHANCE.randint(20_000, 50_000)), 0o4755)
    for name in ("nginx", "php-fpm8.2", "sshd", "cron"):
        packaged(f"usr/sbin/{name}", program(CHANCE.randint(60_000, 200_000)), 0o755)
    for name in ("libc.so.6", "libssl.so.3", "libcrypto.so.3", "libpcre2-8.so.0"):
        packaged(f"usr/lib/{name}", program(CHANCE.randint(100_000, 400_000)))
    for name in ("passwd", "group", "hosts", "fstab", "crontab", "nginx/nginx.conf",
                 "ssh/sshd_config", "cron.d/e2scrub_all", "cron.daily/logrotate"):  # fmt: skip
        packaged(f"etc/{name}", text(20))
    write("root/.bashrc", text(12))
    commit()


def set_up() -> None:
    """The site, the first logs, the folders of people."""
    at("2026-02-22 09:25")
    for folder in ("tmp", "var/tmp", "dev/shm", "run", "home/anna/Documents", "var/lib/nginx"):
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for number in range(24):
        write(f"var/www/html/{'blog/' * (number % 2)}page-{number:02}.html", text(60))
    for number in range(12):
        write(f"var/www/html/images/photo-{number:02}.jpg", noise(30_000))
    write("var/www/html/index.php", b"<?php require 'shop.php';\n" + text(40))
    write("var/www/html/shop.php", b"<?php // shop\n" + text(120))
    (ROOT / "var/www/html/uploads").mkdir()
    for name in ("auth.log", "syslog", "nginx/access.log", "wtmp", "lastlog"):
        write(f"var/log/{name}", log_lines("systemd", 10))
    commit()


def restart() -> None:
    """Unmounted in order, and mounted again."""
    at("2026-02-22 09:40")
    if LIBC.umount2(os.fsencode(ROOT), 0):
        raise OSError(ctypes.get_errno(), "umount")
    mount()


def week() -> None:
    """Six working days."""
    for day in range(23, 29):
        working_day(f"2026-02-{day}")


def working_day(day: str) -> None:
    """Visitors, log lines, letters, a backup that is rotated."""
    for hour in (7, 9, 11, 13, 15, 17, 20, 23):
        at(f"{day} {hour:02}:{CHANCE.randint(2, 55):02}")
        append("var/log/nginx/access.log", log_lines("nginx", CHANCE.randint(20, 200)))
        append("var/log/syslog", log_lines("cron", CHANCE.randint(5, 30)))
        if 8 < hour < 18:
            append("var/log/auth.log", log_lines("sshd", CHANCE.randint(1, 6)))
            name = f"{CHANCE.choice(WORDS)}-{day[-2:]}{hour:02}.odt"
            write(f"home/anna/Documents/{name}", text(CHANCE.randint(40, 400)))
        if hour == 15:
            write(f"var/www/html/blog/{day}.html", text(80))
        if hour == 17:
            append("root/.bash_history", text(4))
            for old in sorted((ROOT / "home/anna/Documents").iterdir())[:2]:
                old.unlink()
        if hour == 23:
            write(f"var/backups/shop-{day}.sql.gz", noise(400_000))
            for old in sorted((ROOT / "var/backups").iterdir())[:-2]:
                old.unlink()
            append("var/log/wtmp", log_lines("login", 2))
        commit()


def break_in() -> None:
    """A web shell, then root, then a way back in."""
    at("2026-03-01 02:14")
    shell = b"<?php @eval(base64_decode($_POST['q'])); ?>\n"
    write("var/www/html/uploads/img_0231.php", shell)
    append("var/log/nginx/access.log", log_lines("nginx", 40))
    commit()
    at("2026-03-01 02:21")
    write("dev/shm/.x/scan.sh", b"#!/bin/sh\n" + text(40), 0o755)
    write("dev/shm/.x/agent", program(180_000), 0o755)
    write("tmp/.ICE-unix/.cache/targets.txt", text(300))
    write("tmp/exploit", program(90_000), 0o755)
    commit()
    at("2026-03-01 02:36")
    write("usr/local/bin/.systemd-helper", program(95_000), 0o755)
    commit()
    at("2026-03-01 02:38")
    (ROOT / "usr/local/bin/.systemd-helper").chmod(0o4755)
    write("etc/cron.d/sysstat-collect", b"*/10 * * * * root /usr/local/bin/.systemd-helper -q\n")
    write(
        "root/.ssh/authorized_keys", b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA mail@nowhere\n", 0o600
    )
    (ROOT / "var/lib/nginx/... ").mkdir()
    write("var/lib/nginx/... /loader.py", text(60), 0o755)
    commit()


def steal() -> None:
    """What was there is packed and carried away."""
    at("2026-03-01 02:52")
    loot = b"".join(path.read_bytes() for path in sorted((ROOT / "home/anna").rglob("*.odt")))
    write("tmp/loot.tar.gz", noise(len(loot) + 900_000))
    write("tmp/users.txt", (ROOT / "etc/passwd").read_bytes() + text(20))
    append("var/log/auth.log", log_lines("sshd", 9))
    append("root/.bash_history", b"tar czf /tmp/loot.tar.gz /home/anna\n" + text(30))
    commit()


def tidy_up() -> None:
    """Times set back, logs edited and removed, tools deleted, one of them running on."""
    at("2026-03-01 03:05")
    lines = (ROOT / "var/log/auth.log").read_bytes().splitlines(keepends=True)
    write("var/log/sedX7k2Qa", b"".join(lines[:-9]))
    commit()
    at("2026-03-01 03:07")
    (ROOT / "var/log/sedX7k2Qa").rename(ROOT / "var/log/auth.log")
    for name in ("usr/local/bin/.systemd-helper", "etc/cron.d/sysstat-collect"):
        os.utime(ROOT / name, (1_693_526_400, 1_693_526_400))
    commit()
    at("2026-03-01 03:11")
    running = os.open(ROOT / "dev/shm/.x/agent", os.O_RDONLY)
    os.set_inheritable(running, True)
    for name in ("var/www/html/uploads/img_0231.php", "dev/shm/.x/scan.sh", "dev/shm/.x/agent",
                 "tmp/loot.tar.gz", "tmp/users.txt", "tmp/exploit", "root/.bash_history",
                 "var/log/wtmp", "tmp/.ICE-unix/.cache/targets.txt"):  # fmt: skip
        (ROOT / name).unlink()
    for name in ("dev/shm/.x", "tmp/.ICE-unix/.cache"):
        (ROOT / name).rmdir()
    commit()


def power_cut() -> None:
    """Somebody notices, saves the settings in a hurry, and pulls the plug."""
    at("2026-03-01 03:44")
    append("var/log/syslog", log_lines("kernel", 6))
    commit()
    at("2026-03-01 03:52")
    for name in ("home/anna/Documents/incident-notes.odt", "etc/nginx/blocked.conf"):
        handle = os.open(ROOT / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        time.sleep(0.05)
        os.write(handle, text(90))  # never synced: its blocks are not even chosen yet
        os.close(handle)
    handle = os.open(ROOT / "var/log/nginx/access.log", os.O_WRONLY | os.O_APPEND)
    os.write(handle, log_lines("nginx", 3))
    os.fsync(handle)  # commits all metadata up to now


def mount() -> None:
    """Mount the device; no timer closes a transaction."""
    done = LIBC.mount(DEVICE.encode(), os.fsencode(ROOT), b"ext4", NOATIME, b"commit=600")
    if done:
        raise OSError(ctypes.get_errno(), "mount")


def main() -> None:
    """Make the file system, act, and let the power go."""
    at("2026-02-22 08:57")
    subprocess.run([*MKE2FS, DEVICE], check=True)
    mount()
    for act in (install, set_up, restart, week, break_in, steal, tidy_up, power_cut):
        act()
    print(TOLD, flush=True)
    LIBC.reboot(POWER_OFF)  # at once: nothing is unmounted or written


if __name__ == "__main__":
    main()
