"""Ctrl-C at any moment: one line, exit code 130, and an output folder that is in order.

Until the program's first line runs Python answers, so here the signal is held back for as long.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from itertools import cycle
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest

from tests.cli.conftest import ROOT
from tests.cli.test_errors import _records, _whole_files_are_told

SIGNALS = {signal.SIGINT}
LINE = b"ext4kit: interrupted\n"
HEARD, TOO_LATE = "heard", "ended before it"
START = (
    "import signal, sys\n"
    "from ext4kit.__main__ import main; from ext4kit.leaving import leave\n"
    "signal.signal(signal.SIGINT, leave)  # main's first line\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n"
)
COMMANDS = (
    ("--version",),
    ("ls", "-r", "IMAGE"),
    ("deleted", "IMAGE"),
    ("recover", "IMAGE", "-o", "OUT"),
    ("extract", "IMAGE", "/", "-o", "OUT"),
    ("verify", "IMAGE"),
    ("timeline", "IMAGE"),
    ("crosscheck", "IMAGE"),
)


def _program(*words: str, before: str = "") -> subprocess.Popen[bytes]:
    """The program, to which SIGINT comes from its first line on."""
    return subprocess.Popen(
        [sys.executable, "-c", START + before + "main()\n", *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hold_back,
    )  # fmt: skip


def _hold_back() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # test runners may ignore it
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _interrupt(process: subprocess.Popen[bytes]) -> bool:
    """Interrupt it; False when it had ended. One that is stopped has not, and will go on."""
    os.kill(process.pid, signal.SIGSTOP)
    state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    return state is not None and state.si_code == os.CLD_STOPPED


def _interrupt_all(image: Path, folder: Path, many: int) -> Counter[tuple[str, str]]:
    """Interrupt the commands in turn, anywhere in their time, until so many heard it."""
    outcomes: Counter[tuple[str, str]] = Counter()
    times: dict[tuple[str, ...], float] = {}
    draw = Random("interrupts").uniform
    turns = enumerate(cycle(COMMANDS))
    while _heard(outcomes) < many:
        number, words = next(turns)
        assert number <= 5 * many, outcomes
        out = folder / str(number)
        started = monotonic()
        process = _program(
            *({"IMAGE": str(image), "OUT": str(out)}.get(word, word) for word in words)
        )
        if words not in times:
            process.communicate(timeout=60)
            times[words] = monotonic() - started
            continue
        delay = draw(0.001, times[words])
        sleep(delay)
        is_in_time = _interrupt(process)
        _, said = process.communicate(timeout=60)
        if is_in_time:
            assert process.returncode == 130, (words, delay)
            assert re.fullmatch(rb"ext4kit: interrupted(; [^\n]+)?\n", said), (words, delay)
        outcomes[words[0], HEARD if is_in_time else TOO_LATE] += 1
        _is_in_order(out)
    return outcomes


def _is_in_order(out: Path) -> None:
    """What lies in an output folder is told by its manifest, and that is sealed by its case."""
    if (out / "manifest.jsonl").exists():
        _whole_files_are_told(out, _records(out / "manifest.jsonl"))
        assert json.loads((out / "case.json").read_text())["state"] in ("incomplete", "complete")


def _heard(outcomes: Counter[tuple[str, str]]) -> int:
    return sum(count for (_, what), count in outcomes.items() if what == HEARD)


@pytest.mark.heavy
def test_an_interrupt_is_one_line_and_130(deleted: Path, tmp_path: Path) -> None:
    _interrupt_all(deleted, tmp_path, 8)


@pytest.mark.slow
def test_many_interrupts_are_one_line_and_130(deleted: Path, tmp_path: Path) -> None:
    _interrupt_all(deleted, tmp_path, 200)


LOST = (  # in a finalizer, from which no exception gets out
    "import os, time\n"
    "from ext4kit.cli import volumes\n"
    "class Finalized:\n"
    "    def __del__(self):\n"
    "        os.kill(os.getpid(), signal.SIGINT)\n"
    "def work(*_, **__):\n"
    "    Finalized()\n"
    "    while True:\n"
    "        time.sleep(0.01)\n"
    "volumes.command.callback = work\n"
)


def test_an_interrupt_lost_in_a_finalizer_still_ends_the_work() -> None:
    process = _program("volumes", "x", before=LOST)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, LINE)


@pytest.mark.parametrize("end", ["return 0", "raise ValueError('taken for damage')"])
def test_an_interrupt_that_code_took_for_something_else_is_no_success(end: str) -> None:
    work = (
        "import os\n"
        "from ext4kit.cli import volumes\n"
        "def work(*_, **__):\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        signal.pause()\n"
        "    except BaseException:\n"
        f"        {end}\n"
        "volumes.command.callback = work\n"
    )
    process = _program("volumes", "x", before=work)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, LINE)


def test_a_background_job_that_ignores_interrupts_goes_on_ignoring_them(deleted: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ext4kit", "timeline", str(deleted)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    interrupts = 0
    while _interrupt(process):  # at any time of it, however quick it is
        interrupts += 1
        sleep(0.01)
    assert interrupts
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")


def test_nothing_is_loaded_before_interrupts_have_their_answer() -> None:
    """Every way into the program begins in a module that loads the answer alone."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["ext4kit"]
    assert entry == "ext4kit.__main__:main"  # which `python -m ext4kit` runs as well
    code = (
        "import os, sys; there = set(sys.modules)\n"
        "import ext4kit.__main__\n"
        "print(*sorted(set(sys.modules) - there))\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True)
    loaded = done.stdout.decode().split()
    assert loaded == ["ext4kit", "ext4kit.__main__", "ext4kit.leaving"]
