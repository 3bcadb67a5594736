"""A blank at the end of a name is seen wherever people read the name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ext4kit.errors import quoted
from ext4kit.report.safe import shown, shown_lines
from tests.cli.conftest import Run
from tests.journal.debugfs_session import Session, content

FOLDER = "/lib/... "
KEPT, GONE = f"{FOLDER}/kept ", f"{FOLDER}/gone "


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder "... " and files in it, one of them deleted; debugfs made them."""
    if shutil.which("debugfs", path="/sbin:/usr/sbin:/usr/bin") is None:
        pytest.skip("needs debugfs")
    session = Session(tmp_path_factory.mktemp("blanks"))
    data = session.file("data", content("x", 3))
    session.step("mkdir lib", f'mkdir "{FOLDER}"')
    session.step(f'write {data} "{KEPT}"', f'write {data} "{GONE}"')
    session.step(f'symlink link "{KEPT}"')
    session.step(f'rm "{GONE}"')
    session.finish()
    return session.image


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ls", "/lib"), ['"... "']),
        (("ls", FOLDER), ['"kept "']),
        (("ls", "-r"), [f'"{FOLDER}"', f'"{KEPT}"', "/link", "/lib"]),
        (("ls", "-l", "/"), [f'link -> "{KEPT}"', " lib"]),
        (("stat", KEPT), [f'"{KEPT}"']),
        (("stat", "/link"), [f'"{KEPT}"']),
        (("deleted",), [f'"{GONE}"']),
        (("timeline",), [f'"{GONE}"', f'"{KEPT}"']),
        (("explain", GONE), [f'"{GONE}" was inode']),
        (("report",), [f'"{GONE}"', f'"{FOLDER}"']),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_name_is_quoted(
    run: Run, disk: Path, arguments: tuple[str, ...], expected: list[str]
) -> None:
    command, *rest = arguments
    done = run(command, disk, *rest)
    text = done.stdout.decode()
    for word in expected:
        assert word in text
    for name in (FOLDER, KEPT, GONE):
        assert f"{name}\n" not in text  # nowhere without its quotation mark


@pytest.mark.parametrize(
    "arguments",
    [("ls", "/none "), ("cat", "/none "), ("stat", "/none "), ("explain", "/none "),
     ("deleted", "/none ")],
    ids=" ".join,
)  # fmt: skip
def test_an_error_quotes_it_too(run: Run, disk: Path, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    assert '"/none "' in run(command, disk, *rest).stderr.decode()


def test_records_have_the_name_as_it_is(run: Run, disk: Path) -> None:
    lines = run("deleted", disk, "--json").stdout.splitlines()
    assert GONE in [json.loads(line).get("path") for line in lines]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"plain name", "plain name"),
        (b"end ", '"end "'),
        (b" begin", '" begin"'),
        (b"/a /b", '"/a /b"'),
        (b"/a/ b", '"/a/ b"'),
        ("wide\u3000".encode(), '"wide\u3000"'),
        ("hard\u00a0".encode(), '"hard\u00a0"'),
        (b'"both"', '""both""'),
        (b'"one', '"one'),
        (b"", ""),
    ],
)
def test_only_blanks_that_are_overlooked_are_quoted(name: bytes, expected: str) -> None:
    assert shown(name) == expected
    assert shown_lines([b"before", name, b"after"]) == f"before\n{expected}\nafter\n"


def test_quoted_names_stay_different() -> None:
    names = ["a ", '"a "', '""a ""', "a", '"a"', " a", '" a"']
    assert len({quoted(name) for name in names}) == len(names)
