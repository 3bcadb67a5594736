"""Names of the evidence become names that the system takes, and that mean no other file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

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


@pytest.fixture
def case_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be made beside what has its name in letters of other case."""
    mkdir, create = Path.mkdir, os.open

    def look(path: Path) -> None:
        if path.name.lower() in {each.name.lower() for each in path.parent.iterdir()}:
            raise FileExistsError(errno.EEXIST, "is there", str(path))

    def careful_mkdir(
        path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        if not exist_ok:
            look(path)
        mkdir(path, mode, parents, exist_ok)

    def careful_open(path: str, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_EXCL:
            look(Path(path))
        return create(path, flags, *more, **named)

    monkeypatch.setattr(Path, "mkdir", careful_mkdir)
    monkeypatch.setattr(os, "open", careful_open)


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
