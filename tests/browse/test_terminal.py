"""The program in a terminal, and without one."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytest.importorskip("textual")

from ext4kit.cli.browse import without_web  # noqa: E402
from tests.conftest import Cli, Images  # noqa: E402
from tests.environment import ROOT  # noqa: E402
from tests.evidence.containers.test_extras import run_without  # noqa: E402

LEAVES_SCREEN = b"\x1b[?1049l"
SECONDS = 60


def _until(handle: int, text: bytes) -> bytes:
    seen, end = b"", time.monotonic() + SECONDS
    while text not in seen and time.monotonic() < end:
        if select.select([handle], [], [], 0.1)[0]:
            try:
                seen += os.read(handle, 1 << 16)
            except OSError:
                break
    return seen


@pytest.mark.parametrize(("end", "code"), [("q", 0), (signal.SIGTERM, 130), (signal.SIGHUP, 130)])
def test_the_terminal_is_as_before(end: str | int, code: int, unpacked: Images) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "ext4kit", "browse", str(unpacked("rm_rf_tree").image)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert b"keep" in _until(ours, b"keep")
        if isinstance(end, str):
            os.write(ours, end.encode())
        else:
            process.send_signal(end)
        said = _until(ours, LEAVES_SCREEN)
        assert LEAVES_SCREEN in said
        assert process.wait(SECONDS) == code
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
        signal.signal(signal.SIGHUP, former)


def test_without_a_terminal_it_says_so(ext4kit: Cli, unpacked: Images) -> None:
    done = ext4kit("browse", unpacked("rm_rf_tree").image)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ext4kit: browse needs a terminal; --web shows it in a browser\n"


def test_without_textual_one_line_names_the_extra(unpacked: Images) -> None:
    done = run_without(["textual"], ("browse", unpacked("rm_rf_tree").image))
    text = "ext4kit: browse needs the package textual: pip install 'ext4kit[browse]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", text)


def test_the_program_in_a_web_browser_has_the_other_words() -> None:
    words = ["browse", "a.img", "--web", "--port", "99", "--port=98", "--volume", "1"]
    assert without_web(words) == ["browse", "a.img", "--volume", "1"]


@pytest.mark.heavy
def test_web_refuses_all_but_the_address_with_its_key(unpacked: Images) -> None:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    command = [sys.executable, "-m", "ext4kit", "browse", "--web", "--port", "18765"]
    image: Path = unpacked("rm_rf_tree").image
    process = subprocess.Popen([*command, image], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        bare = address.partition("?")[0]
        assert bare == "http://127.0.0.1:18765/"
        end = time.monotonic() + SECONDS
        while True:
            try:
                urlopen(bare)
            except HTTPError as error:
                assert error.code == 403
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)
        assert urlopen(address).status == 200
        for header, value in (("Host", "evil.example:18765"), ("Origin", "http://evil.example")):
            with pytest.raises(HTTPError, match="403"):
                urlopen(Request(address, headers={header: value}))
    finally:
        process.terminate()
        assert process.wait(SECONDS) is not None
