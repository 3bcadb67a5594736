"""Names of the evidence become names that the system takes, and that mean no other file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import pytest

from ext4kit.filesystem.content import Chunk
from ext4kit.output import OutputDirectory, names

REFUSED = {  # by Windows, as its documentation of file names has it
    b"CON": "%43ON",
    b"aux.txt": "%61ux.txt",
    b"nul.tar.gz": "%6Eul.tar.gz",
    b"Com1": "%43om1",
    b"lpt9 .log": "%6Cpt9 .log",
    "COM¹".encode(): "%43OM¹",
    b"CONOUT$": "%43ONOUT$",
    b"end.": "end%2E",
    b"end. . ": "end%2E%20%2E%20",
    b"a:stream": "a%3Astream",
    b'<>:"|?*\\': "%3C%3E%3A%22%7C%3F%2A%5C",
    b"tab\there": "tab%09here",
    b"..": "%2E%2E",
    b"not utf-8 \xff": "not utf-8 %FF",
}
TAKEN = (b"console", b"com", b"com10", b"auxiliary.txt", b"a.con", b".hidden", b" x", "é".encode())


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "HERE", names.WINDOWS)


@pytest.mark.usefixtures("on_windows")
@pytest.mark.parametrize("name", REFUSED, ids=repr)
def test_a_name_that_windows_refuses_is_percent_encoded(name: bytes) -> None:
    assert names.usable_name(name) == REFUSED[name]
    assert unquote_to_bytes(REFUSED[name]) == name


@pytest.mark.usefixtures("on_windows")
@pytest.mark.parametrize("name", TAKEN, ids=repr)
def test_a_name_that_windows_takes_stays(name: bytes) -> None:
    assert names.usable_name(name) == name.decode()


@pytest.mark.parametrize("name", [b"CON", b"aux.txt", b"end.", b"a:b", b"a b "], ids=repr)
def test_elsewhere_it_stays(name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "HERE", names.POSIX)
    assert names.usable_name(name) == name.decode()


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("a\u202egpj.exe", "a%E2%80%AEgpj.exe"),
        ("a\u2066b\u2069", "a%E2%81%A6b%E2%81%A9"),
        ("\u200e\u200f\u061c", "%E2%80%8E%E2%80%8F%D8%9C"),
        ("\u2028x\u2029", "%E2%80%A8x%E2%80%A9"),
        ("a\x9b31mb\x85", "a%C2%9B31mb%C2%85"),
        ("50%\u202d", "50%25%E2%80%AD"),
        ("\u0631\u00a0\u2030 \u20ac.txt", "\u0631\u00a0\u2030 \u20ac.txt"),
    ],
)
@pytest.mark.parametrize("refused", [names.POSIX, names.WINDOWS])
def test_what_controls_a_terminal_or_turns_a_text_is_escaped(
    name: str, usable: str, refused: re.Pattern[bytes]
) -> None:
    assert names.usable_name(name.encode(), refused) == usable
    assert unquote(usable) == name or "%" not in usable


@pytest.fixture
def case_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is that of what has it in letters of other case."""
    facts, access, mkdir, create = os.stat, os.access, os.mkdir, os.open

    def there(name: Any, folder: int | None) -> str:
        path = Path(os.fspath(name))
        above = path.parent if folder is None else folder
        names = os.listdir(above)  # noqa: PTH208 -- of a descriptor
        same = [each for each in names if each.lower() == path.name.lower()]
        return str(path.with_name(same[0])) if same else str(path)

    def stat(name: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Any:
        name = name if dir_fd is None else there(name, dir_fd)
        return facts(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def is_there(name: Any, mode: int, *, dir_fd: int, follow_symlinks: bool) -> bool:
        name = there(name, dir_fd)
        return access(name, mode, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def make(name: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(there(name, dir_fd), mode, dir_fd=dir_fd)

    def opened(name: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = there(name, dir_fd) if flags & os.O_EXCL else name
        return create(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "access", is_there)
    monkeypatch.setattr(os, "mkdir", make)
    monkeypatch.setattr(os, "open", opened)


@pytest.mark.usefixtures("case_ignored")
def test_names_that_differ_in_case_alone_are_told_apart(tmp_path: Path) -> None:
    output = OutputDirectory(tmp_path / "out")
    paths = [(b"Docs", b"Read"), (b"Docs", b"READ"), (b"docs", b"read"), (b"DOCS", b"x")]
    written = [
        output.write(parts, [Chunk(0, 1, b"%d" % place)], "mark").path
        for place, parts in enumerate(paths)
    ]
    assert written == ["Docs/Read", "Docs/READ~mark", "docs~/read", "DOCS~~/x"]
    assert [(tmp_path / "out" / path).read_bytes() for path in written] == [b"0", b"1", b"2", b"3"]


def test_folders_whose_names_are_written_alike_stay_apart(tmp_path: Path) -> None:
    output = OutputDirectory(tmp_path / "out")
    folders = (b"tab\there", b"tab%09here", b"tab\there")
    written = [
        output.write((folder, b"%d" % place), [Chunk(0, 1, b"x")]).path
        for place, folder in enumerate(folders)
    ]
    assert written == ["tab%09here/0", "tab%09here~/1", "tab%09here/2"]


@pytest.mark.usefixtures("on_windows")
def test_a_file_s_record_leads_to_it_under_its_harmless_name(tmp_path: Path) -> None:
    output = OutputDirectory(tmp_path / "out")
    written = output.write((b"files", b"aux", b"con.txt"), [Chunk(0, 1, b"x")])
    assert written.path == "files/%61ux/%63on.txt"
    assert (tmp_path / "out" / written.path).read_bytes() == b"x"


def test_a_name_that_the_locale_has_no_letters_for_is_percent_encoded(tmp_path: Path) -> None:
    tree, image, out = tmp_path / "tree", tmp_path / "image", tmp_path / "out"
    tree.mkdir()
    (tree / "\u00e9t\u00e9").write_bytes(b"content")
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(image), "8M"]
    subprocess.run(make, check=True, capture_output=True)
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    extract = [sys.executable, "-m", "ext4kit", "extract", str(image), "/", "-o", str(out)]
    subprocess.run(extract, check=True, capture_output=True, env=os.environ | ascii_only)
    assert (out / "files" / "%C3%A9t%C3%A9").read_bytes() == b"content"


MARKED = {
    b"photo.jpg": "photo.partial.jpg",
    b"archive.tar.gz": "archive.tar.partial.gz",
    b"README": "README.partial",
    b".profile": ".profile.partial",
    b"a/b.c": "a%2Fb.partial.c",
    b"..": "%2E%2E.partial",
    b"not utf-8 \xff.txt": "not utf-8 %FF.partial.txt",
}


@pytest.mark.parametrize("name", MARKED, ids=repr)
def test_the_mark_of_a_name_stands_before_its_extension(name: bytes) -> None:
    assert names.marked_name(name, ".partial").decode() == MARKED[name]


@pytest.mark.parametrize(
    "name", [b"x" * 255, b"y" * 250 + b".txt", b"." + b"z" * 254, b"\xff" * 255]
)
def test_a_long_name_keeps_its_mark_however_many_files_have_it(tmp_path: Path, name: bytes) -> None:
    output = OutputDirectory(tmp_path / "out")
    marked, longest = names.marked_name(name, ".partial"), f"inode-{2**32 - 1}-{2**32 - 1}"
    for _ in range(3):
        path = output.write((b"files", marked), [Chunk(0, 1, b"x")], longest).path
        assert ".partial" in path and (tmp_path / "out" / path).is_file()
