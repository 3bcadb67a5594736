"""Completion, colours, pipes and progress: how the program behaves in a shell."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sample_images import unpack
from tests.cli.conftest import ROOT, Run

COMMANDS = (
    ("volumes", "IMAGE"),
    ("volumes", "IMAGE", "--scan"),
    ("hash", "IMAGE"),
    ("info", "IMAGE", "-g"),
    ("ls", "IMAGE", "-r", "-l"),
    ("stat", "IMAGE", "/"),
    ("deleted", "IMAGE"),
    ("recover", "IMAGE", "-o", "OUT"),
    ("explain", "IMAGE", "<13>"),
    ("extract", "IMAGE", "/", "-o", "OUT"),
    ("verify", "IMAGE"),
    ("crosscheck", "IMAGE"),
    ("journal", "list", "IMAGE"),
    ("journal", "audit", "IMAGE"),
    ("journal", "replay", "IMAGE"),
    ("journal", "history", "IMAGE", "<2>"),
    ("timeline", "IMAGE"),
    ("report", "IMAGE"),
    ("export", "IMAGE", "--csv", "OUT"),
    ("schema",),
    ("--help",),
)
WORKING = (
    "volumes IMAGE --scan", "hash", "ls", "deleted", "recover", "extract", "verify", "crosscheck",
    "timeline", "report", "export", "journal list", "journal audit",
)  # fmt: skip
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]+)*m")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("rm_rf_tree", tmp_path_factory.mktemp("manners")).image


def words_of(command: tuple[str, ...], image: Path, folder: Path) -> list[str]:
    return [{"IMAGE": str(image), "OUT": str(folder / "out")}.get(word, word) for word in command]


def on_terminal(arguments: list[str], **variables: str) -> bytes:
    """What the program writes when both its outputs are a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100"}
    env.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "ext4kit", *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=env | variables)
    os.close(theirs)
    said = b"".join(_all(ours, time.monotonic() + 120))
    os.close(ours)
    process.wait(10)
    return said


def _all(terminal: int, until: float) -> Iterator[bytes]:
    waiting = select.poll()  # whatever the number of open files
    waiting.register(terminal, select.POLLIN)
    while time.monotonic() < until:
        if waiting.poll(1000):
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:  # the other end is closed
                return
            if not piece:
                return
            yield piece


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_steers_a_pipe(
    run: Run, sample: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = run(*words_of(command, sample, tmp_path), env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\r" not in done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("command", [("report", "IMAGE"), ("verify", "IMAGE")], ids=" ".join)
def test_no_color_is_respected_on_a_terminal(
    sample: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    words = words_of(command, sample, tmp_path)
    assert not COLOUR.search(on_terminal(words, NO_COLOR="1"))


def test_colours_are_there_where_they_are_wanted(sample: Path, tmp_path: Path) -> None:
    assert COLOUR.search(on_terminal(words_of(("report", "IMAGE"), sample, tmp_path)))


def test_a_pipe_that_closes_early_ends_quietly(sample: Path) -> None:
    command = f'"{sys.executable}" -m ext4kit timeline "{sample}" | head -1'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, env=env)
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("name", WORKING)
def test_work_shows_its_progress(sample: Path, tmp_path: Path, name: str) -> None:
    command = next(each for each in COMMANDS if " ".join(each).startswith(name))
    words = words_of(command, sample, tmp_path)
    assert b"\x1b[?25l" in on_terminal(words)  # the bar hides the cursor while it is there


def test_quiet_work_shows_none(sample: Path) -> None:
    assert b"\x1b" not in on_terminal(["verify", str(sample), "-q"])


def offered(run: Run, *words: str) -> list[str]:
    """What bash is told to offer for the last word."""
    variables = {
        "COMP_WORDS": " ".join(("ext4kit", *words)),
        "COMP_CWORD": str(len(words)),
        "_EXT4KIT_COMPLETE": "bash_complete",
    }
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    start = "import sys; from ext4kit.cli.main import main; sys.argv[0] = 'ext4kit'; main()"
    command = [sys.executable, "-c", start]
    text = subprocess.run(command, capture_output=True, text=True, env=env).stdout
    return [line.split(",")[1] for line in text.splitlines()]


def test_commands_options_and_words_are_completed(run: Run) -> None:
    assert offered(run, "rec") == ["recover"]
    assert offered(run, "journal", "re") == ["replay"]
    assert "--as-of" in offered(run, "ls", "--a")
    assert offered(run, "deleted", "x.img", "--min-grade", "int") == ["intact"]


def test_completing_a_command_imports_none() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COMP_WORDS": "ext4kit ", "COMP_CWORD": "1",
           "_EXT4KIT_COMPLETE": "bash_complete"}  # fmt: skip
    code = (
        "import sys; from ext4kit.cli.main import run\n"
        "try: run([])\n"
        "except SystemExit: pass\n"
        "assert 'numpy' not in sys.modules and 'rich' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_takes(run: Run, shell: str) -> None:
    script = run("completion", shell)
    assert script.returncode == 0
    assert b"_EXT4KIT_COMPLETE" in script.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    done = subprocess.run([shell, "-n"], input=script.stdout, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
