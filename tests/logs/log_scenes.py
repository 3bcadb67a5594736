"""Logs that lose lines in every usual way, on mounted images, and what of them still stands."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sample_images.recipes.machine import make_file_system, mounted, sync

MIB = 1 << 20
COUNT, LOST = 400, 40
NOW = int(time.time())
_LOST_AT = range(100, 100 + LOST)  # numbers of the lines that go
_TO_JOURNAL = "/lib/systemd/systemd-journal-remote"
HAS_TO_JOURNAL = Path(_TO_JOURNAL).exists()


def syslog_line(number: int, word: str = "auth") -> bytes:
    """An old line of syslog: no year, no zone."""
    moment = time.gmtime(NOW - 86_400 + number * 20)
    stamp = time.strftime("%b ", moment) + f"{moment.tm_mday:2} " + time.strftime("%X", moment)
    text = f"{stamp} web sshd[{1000 + number}]: Failed {word} for root from 10.0.0.9 no {number}"
    return text.encode()


def iso_line(number: int) -> bytes:
    """A line of syslog as rsyslog writes it now."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOW - 86_400 + number * 20))
    return f"{stamp}.{number:06}+00:00 web kernel: eth0: event no {number}".encode()


def login_record(number: int) -> bytes:
    """A record of wtmp."""
    user, line, host = (f"{word}{number}".encode() for word in ("user", "pts/", "host"))
    seconds = NOW - 86_400 + number * 20
    head = struct.pack("<hxxi32s4s32s256s", 7, 5000 + number, line, b"ts/1", user, host)
    return head + struct.pack("<hhiii16s20x", 0, 0, 0, seconds, number, bytes([10, 0, 0, 1]))


def journal(path: Path, numbers: range, **environment: str) -> None:
    """A journal file of systemd with an entry for each number."""
    text = b"".join(
        b"__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n_HOSTNAME=web\n"
        b"SYSLOG_IDENTIFIER=sshd\n_PID=%d\nMESSAGE=Accepted for root, no %d %s\n\n"
        % (entry_time(number), number + 5, b"0123456789abcdef" * 2, number, number,
           b"long" * 300 * (number % 5 == 0))
        for number in numbers
    )  # fmt: skip
    command = [_TO_JOURNAL, f"--output={path}", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr


def entry_time(number: int) -> int:
    """Microseconds since 1970."""
    return (NOW - 86_400 + number * 20) * 1_000_000


@dataclass
class Scene:
    """An image with logs.

    Attributes:
        image: the image.
        top: where it is mounted.
        lost: bytes that stand on the disk while a line can come back -> what `logs` says of it.
    """

    image: Path
    top: Path
    lost: dict[bytes, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Its folder of logs."""
        return self.top / "var/log"

    def write(self, name: str, lines: list[bytes]) -> Path:
        """A text log."""
        path = self.log / name
        with path.open("ab") as stream:
            stream.writelines(line + b"\n" for line in lines)
        return path

    def lose(self, lines: list[bytes]) -> None:
        """Note lines that are going to be lost."""
        self.lost.update((line, line.decode()) for line in lines)

    def shell(self, command: str) -> None:
        """Run a command among the logs."""
        subprocess.run(["sh", "-ec", command], cwd=self.log, check=True, capture_output=True)

    def sync(self) -> None:
        """Commit."""
        sync(self.top)

    def standing(self) -> set[str]:
        """What can come back: lines whose bytes stand on the disk."""
        data = self.image.read_bytes()
        return {said for raw, said in self.lost.items() if raw in data}


@contextmanager
def scene(
    image: Path, mount: str = "defaults", options: tuple[str, ...] = ("-J", "size=8")
) -> Iterator[Scene]:
    """A file system with an empty folder of logs."""
    make_file_system(image, 128 * MIB, ("-t", "ext4", *options))
    with mounted(image, mount) as top:
        found = Scene(image, top)
        found.log.mkdir(parents=True)
        (top / "many").mkdir()
        yield found


def _texts(scene: Scene, line: Callable[[int], bytes], name: str) -> list[bytes]:
    lines = [line(number) for number in range(COUNT)]
    scene.write(name, lines)
    scene.sync()
    gone = [lines[at] for at in _LOST_AT]
    return gone


def sed(scene: Scene) -> None:
    """`sed -i`: a new file is renamed over the log."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        scene.lose(_texts(scene, line, name))
        scene.shell(f"sed -i -E '/no 1[0-3][0-9]$/d' {name}")
    scene.sync()


def rewritten(scene: Scene) -> None:
    """`grep -v > x; cat x > log`: the same inode, other blocks."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        scene.lose(_texts(scene, line, name))
        scene.shell(
            f"grep -vE 'no 1[0-3][0-9]$' {name} > /{scene.top}/x; cat /{scene.top}/x > {name}"
        )
        (scene.top / "x").unlink()
        scene.sync()


def emptied(scene: Scene) -> None:
    """`: > log`, and the log goes on."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        _texts(scene, line, name)
        scene.lose([line(number) for number in range(COUNT)])
        scene.shell(f": > {name}")
        scene.sync()
        scene.write(name, [line(COUNT + number) for number in range(5)])
    scene.sync()


def removed(scene: Scene) -> None:
    """`rm log`."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        _texts(scene, line, name)
        scene.lose([line(number) for number in range(COUNT)])
        scene.shell(f"rm {name}")
    scene.sync()


def edited_logins(scene: Scene) -> None:
    """Wtmp without some records, as utmpdump writes it; btmp is removed."""
    records = [login_record(number) for number in range(COUNT)]
    (scene.log / "wtmp").write_bytes(b"".join(records))
    (scene.log / "btmp").write_bytes(b"".join(map(login_record, range(COUNT, COUNT + LOST))))
    scene.sync()
    listed, edited = (scene.image.with_suffix(name) for name in (".listed", ".edited"))
    scene.shell(
        f"utmpdump wtmp > {listed}; grep -vE 'user1[0-3][0-9] ' {listed} | utmpdump -r > {edited};"
        f" cat {edited} > wtmp; rm {listed} {edited} btmp"
    )
    scene.sync()
    for number in (*_LOST_AT, *range(COUNT, COUNT + LOST)):
        said = f"login user{number} pts/{number} from host{number} (pid {5000 + number})"
        scene.lost[login_record(number)] = said


def vacuumed(scene: Scene) -> None:
    """Archived journal files are removed, the active one stays."""
    folder = scene.log / "journal/0123456789abcdef0123456789abcdef"
    folder.mkdir(parents=True)
    journal(folder / "system@1.journal", range(LOST))
    journal(folder / "system@2.journal", range(LOST, 2 * LOST), SYSTEMD_JOURNAL_COMPACT="0")
    journal(folder / "system.journal", range(2 * LOST, 3 * LOST))
    scene.sync()
    scene.shell(f"rm {folder}/system@*.journal")
    scene.sync()
    for number in range(2 * LOST):
        raw = struct.pack("<QQ", entry_time(number), number + 5)
        long = "long" * 300 * (number % 5 == 0)
        scene.lost[raw] = f"web sshd[{number}]: Accepted for root, no {number} {long}"


def in_place(scene: Scene) -> None:
    """Lines are overwritten where they stand; only the journal of data=journal has them."""
    gone = _texts(scene, syslog_line, "auth.log")
    path = scene.log / "auth.log"
    whole = path.read_bytes()
    start, end = whole.index(gone[0]), whole.index(gone[-1]) + len(gone[-1]) + 1
    with path.open("r+b") as stream:
        stream.seek(start)
        filler = syslog_line(999, "x") + b"\n"
        stream.write((filler * ((end - start) // len(filler) + 1))[: end - start - 1] + b"\n")
        os.fsync(stream.fileno())
    scene.lose(gone)
    scene.sync()


def _edited(scene: Scene, command: str) -> None:
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        scene.lose(_texts(scene, line, name))
        scene.shell(command.format(name=name))
        scene.sync()


def edited_with_ed(scene: Scene) -> None:
    """`ed` writes over the file."""
    _edited(scene, r"printf 'g/no 1[0-3][0-9]$/d\nw\nq\n' | ed -s {name}")


def edited_with_vi(scene: Scene) -> None:
    """`vim` renames the file, writes a new one and deletes the old one."""
    _edited(scene, "vim -N -u NONE -es -c 'set backupcopy=no' -c 'g/no 1[0-3][0-9]$/d' -c x {name}")


def cut_off(scene: Scene) -> None:
    """`truncate -s`: the last lines, and the log goes on."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        lines = [line(number) for number in range(COUNT)]
        path = scene.write(name, lines)
        scene.sync()
        scene.lose(lines[-LOST:])
        os.truncate(path, path.stat().st_size - sum(len(each) + 1 for each in lines[-LOST:]))
        scene.sync()
        scene.write(name, [line(COUNT + number) for number in range(5)])
        scene.sync()


def shredded(scene: Scene) -> None:
    """`shred -u`."""
    scene.lose(_texts(scene, syslog_line, "auth.log"))
    scene.shell("shred -u auth.log")
    scene.sync()


def zeroed_logins(scene: Scene) -> None:
    """Records of wtmp are filled with zeros in their places."""
    records = [login_record(number) for number in range(COUNT)]
    path = scene.log / "wtmp"
    path.write_bytes(b"".join(records))
    scene.sync()
    scene.lost.update(
        (login_record(number), f"login user{number} pts/{number} from host{number}"
         f" (pid {5000 + number})")
        for number in _LOST_AT
    )  # fmt: skip
    with path.open("r+b") as stream:
        for number in _LOST_AT:
            stream.seek(number * len(records[0]))
            stream.write(bytes(len(records[0])))
    scene.sync()


def rotated_out(scene: Scene) -> None:
    """`logrotate` with `rotate 0`: the log and its copy are deleted; the next log goes on."""
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        _texts(scene, line, name)
        scene.lose([line(number) for number in range(COUNT)])
    conf, state = (scene.image.with_suffix(suffix) for suffix in (".conf", ".state"))
    conf.write_text(f"{scene.log}/*log {{\nrotate 0\nsu root root\ncreate\n}}\n")
    subprocess.run(["logrotate", "-f", "-s", state, conf], check=True, capture_output=True)
    scene.sync()
    for name, line in (("auth.log", syslog_line), ("syslog", iso_line)):
        scene.write(name, [line(COUNT + number) for number in range(5)])
    scene.sync()


WAYS: dict[str, Callable[[Scene], None]] = {
    "sed -i": sed,
    "grep -v, cat": rewritten,
    ": >": emptied,
    "rm": removed,
    "utmpdump": edited_logins,
    "vacuum": vacuumed,
    "ed": edited_with_ed,
    "vi": edited_with_vi,
    "truncate -s": cut_off,
    "rotate": rotated_out,
}


def forgotten(scene: Scene, way: Callable[[Scene], None]) -> None:
    """Lose lines, then let a journal of 4 MiB go round, so that it knows nothing of that."""
    many = [scene.top / f"many/{number}" for number in range(1600)]
    for path in many:
        path.touch()
    way(scene)
    for mode in range(0o600, 0o614):
        for path in many:
            path.chmod(mode)
        scene.sync()
