"""Completion, colours, pipes and progress: how the program behaves in a shell."""

from __future__ import annotations

import functools
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from sample_images import unpack
from tests.cli.conftest import ROOT, Run
from tests.program import start_program, wait_for_program

COMMANDS = (
    ("volumes", "IMAGE"),
    ("volumes", "IMAGE", "--scan"),
    ("hash", "IMAGE"),
    ("hash", "IMAGE", "--files"),
    ("hash", "IMAGE", "--window", "5M", "--hash", "md5"),
    ("info", "IMAGE", "-g"),
    ("ls", "IMAGE", "-r", "-l"),
    ("stat", "IMAGE", "/"),
    ("deleted", "IMAGE"),
    ("recover", "IMAGE", "-o", "OUT"),
    ("scan", "IMAGE", "-o", "OUT"),
    ("explain", "IMAGE", "<13>"),
    ("who", "IMAGE", "1600"),
    ("who", "IMAGE", "0-1700"),
    ("blocks", "IMAGE", "--slack", "-o", "-"),
    ("versions", "IMAGE", "/project/tunnel/ledger-0034.db"),
    ("extract", "IMAGE", "/", "-o", "OUT"),
    ("verify", "IMAGE"),
    ("crosscheck", "IMAGE"),
    ("journal", "list", "IMAGE"),
    ("journal", "audit", "IMAGE"),
    ("journal", "replay", "IMAGE"),
    ("journal", "history", "IMAGE", "<2>"),
    ("timeline", "IMAGE"),
    ("artifacts", "IMAGE", "--all"),
    ("roots", "IMAGE"),
    ("packages", "IMAGE"),
    ("search", "IMAGE", "--text", "the"),
    ("logs", "IMAGE"),
    ("report", "IMAGE"),
    ("export", "IMAGE", "--csv", "OUT"),
    ("rules",),
    ("schema",),
    ("--help",),
)
EXACT = [("hash", "IMAGE", "--files")]  # names as they are, as sha256sum has them in a pipe
SAFE = [command for command in COMMANDS if command not in EXACT]
WORKING = (
    "volumes IMAGE --scan", "hash", "ls", "deleted", "recover", "extract", "verify", "crosscheck",
    "artifacts", "timeline", "logs", "report", "export", "scan", "journal list", "journal audit",
)  # fmt: skip
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]+)*m")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("rm_rf_tree", tmp_path_factory.mktemp("manners")).image


def words_of(command: tuple[str, ...], image: Path, folder: Path) -> list[str]:
    return [{"IMAGE": str(image), "OUT": str(folder / "out")}.get(word, word) for word in command]


def on_terminal(arguments: list[str], folder: str = ".", **variables: str) -> bytes:
    """What the program writes when both its outputs are a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100"}
    env.pop("NO_COLOR", None)
    env.pop("FORCE_COLOR", None)
    words = [os.fsencode(word) for word in arguments]
    process = start_program(words, theirs, theirs, Path(folder), env | variables)
    os.close(theirs)
    said = b"".join(_all(ours, time.monotonic() + 120))
    os.close(ours)
    wait_for_program(process, words, 10)
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
@pytest.mark.parametrize("command", SAFE, ids=" ".join)
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


# ------------------------------------------------------------------ narrow terminals, colours

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Single lines of prose, which the terminal may wrap at any width, and values that have no blank.
_PROSE = re.compile(r"^(note:|ext4kit:|  (SHA-256|SHA-1) |compared with|Recovery: |\d[\d,]* )")


def lines_on_terminal(
    command: tuple[str, ...], image: Path, columns: int, **variables: str
) -> list[str]:
    """What a command writes, in a folder of its own where the image has a short name."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "disk.img").symlink_to(image)
        words = [{"IMAGE": "disk.img", "OUT": "out"}.get(word, word) for word in command]
        text = on_terminal(words, folder, COLUMNS=str(columns), **variables).decode()
    lines = _SEQUENCE.sub("", text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


@functools.cache
def unfolded(command: tuple[str, ...], image: Path) -> list[str]:
    """The lines of a command on a terminal that is wide enough for all of them."""
    return lines_on_terminal(command, image, 1000)


@pytest.mark.heavy
@pytest.mark.parametrize("command", SAFE, ids=" ".join)
def test_at_80_columns_no_row_wraps(sample: Path, command: tuple[str, ...]) -> None:
    lines = lines_on_terminal(command, sample, 80)
    wide = [line for line in lines if cell_len(line) > 80]
    assert command == ("schema",) or not wide


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    [("volumes", "IMAGE"), ("ls", "IMAGE", "-r", "-l"), ("deleted", "IMAGE"),
     ("timeline", "IMAGE"), ("journal", "list", "IMAGE"), ("explain", "IMAGE", "<13>"),
     ("report", "IMAGE")],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("columns", [60, 40])
def test_below_64_columns_rows_are_folded(
    sample: Path, command: tuple[str, ...], columns: int
) -> None:
    command = (*command, "-q")  # without the bars, which come and go
    lines = lines_on_terminal(command, sample, columns)
    assert not [line for line in lines if cell_len(line) > columns and not _PROSE.match(line)]
    letters = "".join("".join(lines).split())
    if command[0] not in ("report", "journal"):  # what is folded is all there
        whole = unfolded(command, sample)
        ends = [line.split()[-1] for line in whole if line.split()]
        assert all(end in letters for end in ends)


def test_a_terminal_of_a_few_columns_breaks_nothing(sample: Path) -> None:
    for columns in (1, 20):
        for command in ("report", "volumes", "timeline", "info"):
            text = on_terminal([command, str(sample)], COLUMNS=str(columns))
            assert b"Traceback" not in text
            assert b"error" not in text


def test_charts_without_colours_can_be_told_apart(run: Run, sample: Path) -> None:
    """In a pipe, and with NO_COLOR on a terminal: each part has a fill of its own."""
    piped = run("report", sample).stdout.decode()
    shown = "\n".join(lines_on_terminal(("report", "IMAGE"), sample, 100, NO_COLOR="1"))
    for text in (piped, shown):
        disk = text.partition("The disk")[2].partition("Journal")[0]
        keys = re.findall(r"^  (\S) (?:metadata|files|deleted|free)", disk, re.MULTILINE)
        assert len(keys) == len(set(keys)) == 4
        assert set(keys) <= set("".join(disk.splitlines()[1:5]))
        activity = text.partition("What happened")[2].partition("The disk")[0]
        made, deleted = (re.search(rf"(\S) {word} ", activity) for word in ("made", "deleted"))
        assert made
        assert deleted
        assert made[1] != deleted[1]


@pytest.mark.heavy
@pytest.mark.parametrize("command", SAFE, ids=" ".join)
def test_force_color_gives_a_pipe_the_colours_of_a_terminal(
    run: Run, sample: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    words = words_of(command, sample, tmp_path)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("NO_COLOR", None)
    done = run(*words, env=env | {"FORCE_COLOR": "1"})
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "out").unlink(missing_ok=True)
    steady = on_terminal([*words, *(["-q"] if "IMAGE" in command else [])])
    assert bool(COLOUR.search(done.stdout)) == bool(COLOUR.search(steady))
    if command[0] in ("deleted", "report"):
        assert COLOUR.search(done.stdout)
        assert not COLOUR.search(
            run(*words, env=env | {"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
        )


# ---------------------------------------------------------------------------- closed streams


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_closed_standard_output_is_one_line(
    sample: Path, tmp_path: Path, command: tuple[str, ...], closed: str
) -> None:
    before = sample.read_bytes()
    done = in_shell(words_of(command, sample, tmp_path), closed)
    assert done.returncode == 1
    said = done.stderr.decode()
    if "2>" not in closed:
        assert said.splitlines()[-1] == "ext4kit: output: it is closed"
    assert "Traceback" not in said
    assert "internal error" not in said
    assert sample.read_bytes() == before


def test_with_standard_error_closed_the_result_is_the_same(run: Run, sample: Path) -> None:
    for command in ("volumes", "deleted", "report"):
        done = in_shell([command, str(sample)], "2>&-")
        assert done.returncode == 0
        assert len(done.stdout) == len(run(command, sample).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_pipe_is_no_traceback(
    sample: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Nobody reads from the beginning on."""
    done = in_shell(words_of(command, sample, tmp_path), "| true")
    assert done.stderr == b""


def in_shell(words: list[str], redirection: str) -> subprocess.CompletedProcess[bytes]:
    command = shlex.join([sys.executable, "-m", "ext4kit", *words])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    shell = ["bash", "-c", f"{command} {redirection}"]
    return subprocess.run(shell, capture_output=True, env=env, check=False)
