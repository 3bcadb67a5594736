"""Whatever ends a command: no file has its final name without its bytes and its record."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ext4kit.cli.interrupts import INTERRUPTS
from tests.conftest import Images
from tests.output.killing import FORMS, SIGNALS, Killed
from tests.program import run_program

OFTEN = ("recover", "extract", "versions", "search", "artifacts", "roots", "replay", "history",
         "blocks", "report", "export")  # fmt: skip
MANY, FEW = 50, 8  # kills of a form with a signal, if all tests run; else
_PARAMETERS = [
    pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in FORMS
]


@pytest.fixture(scope="module", params=_PARAMETERS)
def killed(
    request: pytest.FixtureRequest, unpacked: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Killed]:
    """Each command that writes, in each of its forms."""
    if request.param == "artifacts":
        pytest.importorskip("artifacts")
    yield Killed(request.param, unpacked, tmp_path_factory.mktemp(request.param))


@pytest.mark.heavy
def test_a_kill_leaves_whole_files_or_unfinished_names(killed: Killed) -> None:
    draw = Random(os.getpid())
    killed.kill(draw.choice(SIGNALS), draw)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_many_kills(killed: Killed, number: signal.Signals, pytestconfig: pytest.Config) -> None:
    many = MANY if pytestconfig.getoption("all") else FEW
    draw, tries, before = Random(number), killed.tries, killed.in_the_middle
    for _ in range(many // 2):
        killed.kill(number, draw)
    ended = killed.in_the_middle - before
    print(f"{number.name}: {killed.tries - tries} ended, {ended} of them in the middle")
    if many == MANY and number == signal.SIGKILL:  # the others wait for small files
        assert ended >= many // 5


def test_what_a_killed_run_left_is_kept_and_told(tmp_path: Path, unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    (tmp_path / "a.csv.incomplete").write_bytes(b"of a killed run")
    done = run_program("export", image, "--csv", tmp_path / "a.csv")
    assert done.returncode == 0
    assert b"a.csv.incomplete is what a run that did not finish left" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.csv.incomplete"}
    assert (tmp_path / "a.csv.incomplete").read_bytes() == b"of a killed run"


def test_an_unfinished_extraction_is_told(tmp_path: Path, unpacked: Images) -> None:
    image, out = unpacked("rm_rf_tree").image, tmp_path / "out"
    out.mkdir()
    case = {"record": "case", "state": "incomplete", "command": ["ext4kit", "extract"]}
    (out / "case.json").write_text(json.dumps(case))
    done = run_program("extract", image, "/", "-o", out)
    assert (done.returncode, b"what an unfinished run left" in done.stderr) == (2, True)


def test_a_signal_is_heard_where_interrupts_are_ignored() -> None:
    """As in the background of a script."""
    process = os.fork()
    if not process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        INTERRUPTS.take()
        INTERRUPTS.is_working = True
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            os._exit(130 if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else 1)
        finally:
            os._exit(99)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 130
