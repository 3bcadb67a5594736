"""Manual pages and the site are made from the commands as they are, without complaints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from ext4kit.cli.main import program
from tests.environment import ROOT


def made(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "ext4kit.cli.manual", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("share")
    made("share", folder)
    return folder


@pytest.fixture(scope="module")
def pages(share: Path) -> Path:
    return share / "man/man1"


def texts(folder: Path) -> dict[str, str]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def commands(group: click.Group, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield words
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        each = group.get_command(ctx, name)
        if isinstance(each, click.Group):
            yield from commands(each, (*words, name))
        else:
            yield (*words, name)


def test_each_command_has_a_page_with_all_its_options(pages: Path) -> None:
    every = {"-".join(words) for words in commands(program, ("ext4kit",))}
    assert {page.stem for page in pages.iterdir()} == every
    text = (pages / "ext4kit-journal-history.1").read_text(encoding="utf-8")
    for word in (r"\-\-entries", r"\-\-raw", r"\-\-transaction", "EXAMPLES", "EXIT STATUS"):
        assert word in text


@pytest.mark.parametrize(
    "checker",
    [("mandoc", "-Tlint", "-W", "warning"), ("groff", "-man", "-ww", "-z")],
    ids=["mandoc", "groff"],
)
def test_the_formatters_have_no_complaint(pages: Path, checker: tuple[str, ...]) -> None:
    if shutil.which(checker[0]) is None:
        pytest.skip(f"needs {checker[0]}")
    for page in sorted(pages.iterdir()):
        done = subprocess.run([*checker, str(page)], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), page.name


def test_the_pages_and_scripts_that_are_shipped_are_those_of_this_version(share: Path) -> None:
    assert texts(ROOT / "share") == texts(share), "run `make man`"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["commands.md", "records.md", "reasons.md"])
def test_the_references_are_those_of_this_version(name: str, tmp_path: Path) -> None:
    made("markdown", tmp_path)
    stored = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert stored == (tmp_path / name).read_text(encoding="utf-8"), "run `make reference`"


@pytest.mark.heavy
def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None:
        pytest.skip("needs mkdocs (the extra `docs`)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page.name
