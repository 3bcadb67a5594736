"""The scripts on the page of the Python interface run, and do what the page says."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Sized
from pathlib import Path

import pytest

from ext4kit.timeline import Event
from sample_images import unpack
from sample_images.recipes.truth import Truth, load
from tests.environment import ROOT

PAGE = ROOT / "docs/api.md"
README = ROOT / "README.md"


def scripts(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Truth:
    """The truth of the image that stands as disk.img in the working directory."""
    built = unpack("rm_rf_tree", tmp_path)
    built.image.rename(tmp_path / "disk.img")
    monkeypatch.chdir(tmp_path)
    return load(built.truth)


def test_deleted_files_are_saved(truth: Truth, tmp_path: Path) -> None:
    exec(scripts(PAGE)[0], {})
    known = {f"{one.inode}-{one.generation}": one.sha256 for one in truth.files}
    saved = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "saved").iterdir()
    }
    assert len(saved) > len(known) / 2
    assert saved.items() <= known.items()


def test_the_end_of_a_file_is_read(truth: Truth, capsys: pytest.CaptureFixture[str]) -> None:
    exec(scripts(PAGE)[1], {})
    path, count = capsys.readouterr().out.rsplit(" ", 1)
    shown = subprocess.run(
        ["debugfs", "-R", f'cat "{path}"', "disk.img"], capture_output=True, check=True
    )
    assert int(count) == min(10, len(shown.stdout)) == 10


def test_deletions_between_two_times_are_listed(truth: Truth) -> None:
    names: dict[str, list[Event]] = {}
    exec(scripts(PAGE)[2], names)
    assert {one.path for one in truth.files} <= {
        (event.path or b"").lstrip(b"/") for event in names["deleted"]
    }


def test_the_example_of_the_readme_finds_what_the_command_finds(
    truth: Truth, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = scripts(README)
    exec(script, {})
    lines = capsys.readouterr().out.splitlines()
    command = subprocess.run(
        [sys.executable, "-m", "ext4kit", "deleted", "disk.img", "--json"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert len(lines) == command.stdout.count('"record": "deleted"') > 0


def test_another_process_lists_what_a_locator_names(truth: Truth, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(scripts(PAGE)[3], encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    line, counts = done.stdout.splitlines()
    assert line == "disk.img?volume=@0"
    listed = subprocess.run(
        [sys.executable, "-m", "ext4kit", "ls", "-r", "disk.img"], capture_output=True, check=True
    )
    assert int(counts.split()[0]) == len(listed.stdout.splitlines()) + 1  # the root itself


def test_a_workspace_answers_several_questions(
    truth: Truth, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Sized] = {}
    exec(scripts(PAGE)[4], names)
    assert len(names["deleted"]) >= len(truth.files)
    assert capsys.readouterr().out.count("\n") == 2
