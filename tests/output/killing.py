"""Every command that writes, ended by a signal at any moment, and what it leaves.

A moment is a time after the command began to write, or a step: the command ends itself when so many
functions were called since then. Steps reach what takes no time, times what one call does.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ext4kit.cli import main
from ext4kit.cli.interrupts import INTERRUPTS
from ext4kit.leaving import leave
from ext4kit.output.manifest import OWN, RESERVED
from tests.conftest import Images
from tests.program import load_modules, run_program
from tests.roots.conftest import KEPT

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT)
OUT = "OUT"  # stands for the folder with everything that a command writes
FOLDER = f"{OUT}/out"
PACKED = "rm_rf_tree"
EXPORTED = ("db", "csv", "jsonl", "bodyfile", "timesketch-csv", "timesketch-jsonl", "dfxml",
            "case-uco")  # fmt: skip
DEFINITION = """name: Everything
doc: All files.
sources:
- type: FILE
  attributes:
    paths: ['/**']
supported_os: [Linux]
"""
_JOURNAL = "01234567-89ab-cdef-0123-456789abcdef"
_INTERRUPTED = 130


@dataclass(frozen=True)
class Form:
    """A command with options that name outputs.

    Attributes:
        command: the words before the image.
        words: the words after it.
        sample: the packed image, or what `_SAMPLES` makes.
        goes_on: it goes on with what the last one left.
    """

    command: str
    words: str
    sample: str = PACKED
    goes_on: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether it writes a folder with a manifest."""
        return FOLDER in self.words.split()


FORMS = {
    "recover": Form("recover", f"-o {FOLDER}"),
    "resume": Form("recover", f"-o {FOLDER} --resume", goes_on=True),
    "extract": Form("extract", f"/ -o {FOLDER}"),
    "versions": Form("versions", f"PATH -o {FOLDER}"),
    "search": Form("search", f"--text a -o {FOLDER}"),
    "artifacts": Form("artifacts", f"Everything --artifact-definitions {OUT}.d -o {FOLDER}"),
    "roots": Form("roots", f"web -o {FOLDER}", "servers"),
    "roots-whole": Form("roots", f"web -o {FOLDER} --whole", "servers"),
    "replay": Form("journal replay", f"-o {OUT}/copy", "power_cut"),
    "replay-device": Form("journal replay", f"--journal {OUT}.d/device -o {OUT}/copy "
                          f"--journal-copy {OUT}/log", "external"),
    "history": Form("journal history", f"<2> --transaction TID --raw {OUT}/raw", "power_cut"),
    "scan": Form("scan", f"-o {OUT}/a.scan -q"),
    "blocks": Form("blocks", f"--unallocated -o {OUT}/free -q"),
    "blocks-slack": Form("blocks", f"--slack -o {OUT}/slack --map {OUT}/map -q"),
    "blocks-file": Form("blocks", f"--file PATH -o {OUT}/file -q"),
    "report": Form("report", f"--html {OUT}/a.html --attack-navigator {OUT}/a.json -q"),
    "report-html": Form("report", f"--html {OUT}/a.html -q", "small"),
    "report-navigator": Form("report", f"--attack-navigator {OUT}/a.json -q", "small"),
    "report-images": Form("report", f"--image {OUT}.d/image --html {OUT}/a.html "
                          f"--attack-navigator {OUT}/a.json --quick -q", "small"),
    "export": Form("export", " ".join(f"--{form} {OUT}/a.{form}" for form in EXPORTED)),
    **{f"export-{form}": Form("export", f"--{form} {OUT}/a.{form}", "small") for form in EXPORTED},
}  # fmt: skip
LEFT = re.compile(r"\.incomplete~*\Z")


def _servers(folder: Path) -> Path:
    with lzma.open(KEPT / "servers.img.xz") as packed, (folder / "image").open("wb") as image:
        shutil.copyfileobj(packed, image)
    return folder / "image"


def _external(folder: Path) -> Path:
    """A file system whose journal is another file."""
    image, device = folder / "image", folder / "device"
    for words in (
        ("mke2fs", "-q", "-F", "-b", "1024", "-O", "journal_dev", "-U", _JOURNAL, device, "2M"),
        ("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal", image, "4M"),
        ("debugfs", "-w", "-R", "feature has_journal", image),
        ("debugfs", "-w", "-R", f"ssv journal_uuid {_JOURNAL}", image),
        ("debugfs", "-w", "-R", "ssv journal_dev 0x801", image),
    ):
        subprocess.run(words, check=True, capture_output=True)
    return image


def _small(folder: Path) -> Path:
    """A few files, two of them deleted: most of a run is then the writing."""
    image, tree = folder / "image", folder / "tree"
    (tree / "etc").mkdir(parents=True)
    for number in range(40):
        (tree / f"etc/{number}.conf").write_text(f"value = {number}\n" * 300)
    words = ("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-d", tree, image, "4M")
    subprocess.run(words, check=True, capture_output=True)
    for name in ("etc/3.conf", "etc/30.conf"):
        removal = ("debugfs", "-w", "-R", f"rm {name}", image)
        subprocess.run(removal, check=True, capture_output=True)
    return image


_SAMPLES: dict[str, Callable[[Path], Path]] = {
    "servers": _servers, "external": _external, "small": _small,
}  # fmt: skip


class Killed:
    """A form of a command on a sample, what it writes undisturbed, and how long it writes.

    Attributes:
        tries: how often it was ended.
        in_the_middle: how often before all that it writes had its name.
    """

    def __init__(self, name: str, unpacked: Images, folder: Path) -> None:
        self.form, self.out, self.aside = FORMS[name], folder / "out", folder / "out.d"
        self.tries = self.in_the_middle = 0
        self.out.mkdir()
        self.aside.mkdir()
        (self.aside / "one.yaml").write_text(DEFINITION)
        make = _SAMPLES.get(self.form.sample)
        image = make(self.aside) if make else unpacked(self.form.sample).image
        self._words = self._spoken(image)
        self._count = folder / "steps"
        load_modules()  # which all runs inherit
        self.code, self.writes = self._run(None, 0.0, 0)
        assert self.code in (0, 1)
        self.steps = int(self._count.read_text())
        self.whole = self.out.rename(folder / "whole")
        self.names = {path.name for path in self.whole.iterdir()}
        self.records = _told(self.whole / "out") if self.form.is_folder else {}
        assert self.records if self.form.is_folder else self.names

    def _spoken(self, image: Path) -> list[str]:
        words = [*self.form.command.split(), str(image), *self.form.words.split()]
        words = [word.replace(OUT, str(self.out)) for word in words]
        if "PATH" in words:
            listed = run_program("ls", "-r", image).stdout.decode().splitlines()
            words[words.index("PATH")] = next(line for line in listed if "." in line)
        if "TID" in words:
            told = run_program(*["0" if word == "TID" else word for word in words]).stderr
            tid = re.findall(rb"there are: (\d+)", told)[0].decode()
            words[words.index("TID")] = tid
        return words

    def kill(self, number: signal.Signals, draw: Random) -> None:
        """End it at two moments, one by time and one by its steps, and check what is left."""
        self._end(number, draw.uniform(0, self.writes), 0)
        self._end(number, 0.0, draw.randint(1, self.steps))

    def _end(self, number: signal.Signals, after: float, step: int) -> None:
        if not (self.form.goes_on and self._state() == "incomplete"):
            shutil.rmtree(self.out, ignore_errors=True)
            self.out.mkdir(exist_ok=True)
        code, _ = self._run(number, after, step)
        killed = -number if number == signal.SIGKILL else _INTERRUPTED
        assert code in (killed, self.code)
        self.tries += 1
        if not self.form.is_folder:
            self.in_the_middle += not {path.name for path in self.out.iterdir()} >= self.names
            self._check_files()
            return
        self.in_the_middle += self._state() != "complete"
        self._check_folder(was_interrupted=code == _INTERRUPTED)

    def _state(self) -> str:
        path = self.out / "out/case.json"
        return str(json.loads(path.read_text())["state"]) if path.exists() else ""

    def _run(self, number: signal.Signals | None, after: float, step: int) -> tuple[int, float]:
        """(exit code, seconds from its first write to its end)."""
        places, end = (self.out, self.out / "out"), number if step else None
        before = [_changed(path) for path in places]
        process = os.fork()
        if not process:
            _be_the_program(self._words, str(self.out), end, step, self._count)
        ended = 0
        while not ended and before == [_changed(path) for path in places]:
            ended, status = os.waitpid(process, os.WNOHANG)
            time.sleep(0.0005)
        started = time.monotonic()
        if number is not None and not step and not ended:
            time.sleep(after)
            os.kill(process, number)
        if not ended:
            _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status), time.monotonic() - started

    def _check_files(self) -> None:
        for path in self.out.iterdir():
            if not LEFT.search(path.name):
                assert _shape(path) == _shape(self.whole / path.name), path

    def _check_folder(self, was_interrupted: bool) -> None:
        out = self.out / "out"
        told = _told(out, closed=was_interrupted)
        assert not (was_interrupted and (out / RESERVED).exists())
        for path in out.rglob("*"):
            name = path.relative_to(out).as_posix()
            if path.is_symlink() or path.is_dir() or LEFT.search(path.name):
                continue
            if name not in OWN:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                assert told[name] == self.records[name] == digest, path
            elif name in ("README.txt", "report.html") and not self.form.goes_on:
                assert _shape(path) == _shape(self.whole / "out" / name)
        if any(path.name not in OWN for path in out.rglob("*")):
            assert self._state() in ("incomplete", "complete")
        if self._state() == "complete":
            assert told == self.records
            assert not [path for path in out.rglob("*") if LEFT.search(path.name)]


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


class _Steps:
    """Counts the calls of functions from the first look into a folder on, and ends at one."""

    def __init__(self, out: str, number: signal.Signals | None, last: int) -> None:
        self._out, self._number, self._last = out, number, last
        self.count = 0

    def heard(self, event: str, facts: tuple[object, ...]) -> None:
        """An audit hook."""
        if event in ("open", "os.mkdir") and f"{facts[0]}/".startswith(f"{self._out}/"):
            sys.setprofile(self._tick)

    def _tick(self, *_: Any) -> None:
        self.count += 1
        if self.count == self._last and self._number is not None:
            os.kill(os.getpid(), self._number)


def _be_the_program(
    words: list[str], out: str, number: signal.Signals | None, step: int, count: Path
) -> None:
    """In a child: as the console script, without output. Count its steps, and end at one."""
    steps = _Steps(out, number, step)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        sys.stdout = sys.stderr = open(null, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        for each in SIGNALS:
            with suppress(OSError):
                signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, leave)
        INTERRUPTS.take()
        if step or number is None:
            sys.addaudithook(steps.heard)
        code = main.run(words)
        sys.setprofile(None)
        count.write_text(str(steps.count))
        os._exit(code)
    finally:
        os._exit(99)


def _told(out: Path, closed: bool = False) -> dict[str, str]:
    """The outputs that a folder has records of, with their digests.

    Args:
        out: the folder.
        closed: the last line is whole, too.
    """
    told = {}
    for name in ("manifest.jsonl", ".manifest.jsonl.part"):
        for line in (out / name).read_bytes().splitlines(True) if (out / name).exists() else ():
            try:
                record = json.loads(line)
            except ValueError:
                assert not closed and not line.endswith(b"\n")  # the last one of a killed run
                continue
            if record["output"] is not None:
                told[record["output"]] = record["sha256"]
    return told


def _shape(path: Path) -> object:
    """A file without what differs between two runs: times and counts of them."""
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            tables = database.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
            names = [name for (name,) in tables if not name.startswith(("sqlite_", "by_"))]
            kinds = dict(database.execute("SELECT name, type FROM sqlite_master").fetchall())
            counts = [
                database.execute(f"SELECT count(*) FROM {each}").fetchall()  # noqa: S608
                for each in names if kinds[each] == "table"
            ]  # fmt: skip
            return tables, counts
    return hashlib.sha256(re.sub(rb"[0-9a-f]{2,}", b"0", path.read_bytes())).digest()
