"""What a clean server does to its logs is no removal."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.logs.log_scenes import HAS_TO_JOURNAL, Scene, iso_line, journal, scene, syslog_line

pytestmark = pytest.mark.kernel
ROTATION = {
    "auth.log": "create",
    "syslog": "create\ncompress\ndelaycompress",
    "mail.log": "copytruncate",
    "daemon": "copytruncate\ncompress",
    "dpkg.log": "create\ndateext\ndateformat -%Y%m%d%s",
    "app.log": "copytruncate\ndateext\ndateformat -%Y%m%d%s\ncompress\ncompresscmd /usr/bin/xz"
    "\ncompressext .xz",
    "cut.log": "copytruncate\nolddir {old}",
}
ROUNDS = 5


def logrotate(held: Scene) -> None:
    old = held.top / "var/old"
    old.mkdir(exist_ok=True)
    text = "".join(
        f"{held.log / name} {{\nrotate 2\nsu root root\n{how.format(old=old)}\n}}\n"
        for name, how in ROTATION.items()
    )
    conf = held.image.with_suffix(".conf")
    conf.write_text(text)
    command = ["logrotate", "-f", "-s", str(held.image.with_suffix(".state")), str(conf)]
    subprocess.run(command, check=True, capture_output=True)


def proven(ext4kit: Cli, image: Path) -> list[str]:
    done = ext4kit("logs", image, "--removed", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [one["line"] for one in found if one["record"] == "log line"]


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="needs logrotate")
@pytest.mark.parametrize("size", (4, 16))
@pytest.mark.parametrize("mount", ("defaults", "data=journal"))
def test_rotation_is_no_removal(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, mount: str, size: int
) -> None:
    live: set[str] = set()
    with scene(tmp_path / "disk.img", mount, ("-J", f"size={size}")) as held:
        for number in range(ROUNDS):
            for at, name in enumerate(ROTATION):
                line = iso_line if name == "dpkg.log" else lambda one, n=name: syslog_line(one, n)
                first = 150 * number + at
                held.write(name, [line(one) for one in range(first, first + 100)])
                held.sync()
                held.write(name, [line(one) for one in range(first + 100, first + 150)])
            time.sleep(1.01)  # names with the time differ
            logrotate(held)
            held.sync()
        for path in (*held.log.iterdir(), *(held.top / "var/old").iterdir()):
            read = {".gz": "zcat", ".xz": "xzcat"}.get(path.suffix, "cat")
            if path.is_file():
                text = subprocess.run([read, path], capture_output=True, check=True).stdout
                live.update(text.decode().splitlines())
    assert proven(ext4kit, held.image) == []
    done = ext4kit("logs", held.image, "--json").stdout.splitlines()
    gone = {json.loads(line).get("line") for line in done}
    assert not gone & live and len(gone) > 100


def test_trimming_and_growing_are_no_removal(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    with scene(tmp_path / "disk.img") as held:
        log = held.write("app.log", [syslog_line(number) for number in range(300)])
        held.sync()
        kept = held.top / "kept"
        held.shell(f"tail -n 100 app.log > {kept}; cat {kept} > app.log; rm {kept}")
        held.sync()
        with log.open("ab") as stream:  # a line that is written in two parts
            stream.write(syslog_line(300)[:50])
            stream.flush()
            held.sync()
            stream.write(syslog_line(300)[50:] + b"\n")
        held.sync()
        held.shell(f"tail -n 50 app.log > {kept}; mv {kept} app.log")
        held.sync()
        boot = held.write(
            "boot.log", [b"[    0.000000] Linux version", b"[    0.1000%02d] one" % 1]
        )
        held.sync()
        boot.write_bytes(b"[    0.000000] Linux version\n[    0.200000] two\n")
        held.sync()
    assert proven(ext4kit, held.image) == []


@pytest.mark.skipif(not HAS_TO_JOURNAL, reason="needs systemd-journal-remote")
def test_a_journal_that_goes_on_in_a_new_file_is_no_removal(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    with scene(tmp_path / "disk.img") as held:
        folder = held.log / "journal/0123456789abcdef0123456789abcdef"
        folder.mkdir(parents=True)
        for number in range(4):
            journal(folder / "system.journal", range(number * 30, number * 30 + 30))
            held.sync()
            (folder / "system.journal").rename(folder / f"system@{number}.journal")
            if number > 1:
                (folder / f"system@{number - 2}.journal").unlink()
            held.sync()
    assert proven(ext4kit, held.image) == []
    done = ext4kit("logs", held.image, "--kind", "journal", "--json").stdout.splitlines()
    numbers = {json.loads(line).get("line", "no -1").split("no ")[-1].split()[0] for line in done}
    numbers -= {"-1"}  # the first file's blocks are a later one's
    assert set(map(str, range(30, 60))) <= numbers <= set(map(str, range(60)))


def test_an_extract_is_not_what_is_left_of_a_deleted_log(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    with scene(tmp_path / "disk.img") as held:
        for number in range(2):
            first = 200 * number
            held.write("access.log", [syslog_line(at) for at in range(first, first + 200)])
            held.sync()
            held.shell("grep -v 'no .*7' access.log > access-nobots.log")
            held.sync()
            held.shell("rm access.log")
            held.sync()
    assert proven(ext4kit, held.image) == []
