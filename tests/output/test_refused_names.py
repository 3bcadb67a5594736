"""A name that the file system of the output refuses costs neither the file nor its extension."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from ext4kit.filesystem.content import Chunk
from ext4kit.output import OutputDirectory, UnwritableError
from ext4kit.output.names import NAME_LIMIT, extension_of
from ext4kit.problems import Problems
from sample_images.recipes import machine
from sample_images.recipes.score import read_records
from tests.conftest import Cli

NAMES = (b"a:b?.jpg", b"aux", b"con.txt", b"dots...", b'say "hi".odt', b"plain.txt", b"end ")
FOLDER = b"10:30 talk"
BAD_FOR_VFAT = re.compile(r'[*?<>|":\\]|[. ]\Z|\A(?i:aux|con)(?:\.|\Z)')


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], bool], int], None]:
    """Let the system refuse the names that a function says, with an error."""

    def start(is_refused: Callable[[str], bool], number: int) -> None:
        mkdir, create = os.mkdir, os.open

        def check(name: Any) -> None:
            last = Path(os.fspath(name)).name
            if is_refused(last):
                raise OSError(number, os.strerror(number), last)

        def strict_mkdir(name: Any, *more: Any, **named: Any) -> None:
            check(name)
            mkdir(name, *more, **named)

        def strict_open(name: Any, flags: int, *more: Any, **named: Any) -> int:
            if flags & os.O_CREAT:
                check(name)
            return create(name, flags, *more, **named)

        monkeypatch.setattr(os, "mkdir", strict_mkdir)
        monkeypatch.setattr(os, "open", strict_open)

    return start


CASES: dict[str, tuple[Callable[[str], bool], int]] = {
    "vfat": (lambda name: bool(BAD_FOR_VFAT.search(name)), errno.EINVAL),
    "ascii": (lambda name: not name.isascii(), errno.EILSEQ),
    "short": (lambda name: len(name.encode()) > 143, errno.ENAMETOOLONG),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_written_in_its_place_with_its_extension_and_says_so(
    case: str, tmp_path: Path, refuse: Callable[..., None]
) -> None:
    is_refused, number = CASES[case]
    refuse(is_refused, number)
    output = OutputDirectory(tmp_path / "out")
    long = "Über uns und andere ".encode() * 11 + b"?.jpg"
    names = (*NAMES, "schön.odt".encode(), "漢字 1:2.tar.gz".encode(), long)
    told = 0
    for place, name in enumerate(names):
        for folder in (b"home", FOLDER, "tägl:ich".encode() * 10):
            parts = (b"files", folder, name)
            written = output.write(parts, [Chunk(0, 1, b"%d" % (place % 10))], "mark")
            assert (tmp_path / "out" / written.path).read_bytes() == b"%d" % (place % 10)
            *_, above, last = written.path.split("/")
            assert len(last.encode()) <= NAME_LIMIT
            assert extension_of(last.encode()) == extension_of(name)
            for made, wanted in ((above, folder), (last, name)):
                if "~" not in made:
                    assert unquote_to_bytes(made) == wanted
            changed = any(is_refused(each.decode()) for each in (folder, name))
            assert [one.code for one in written.reasons] == ["name-refused"] * changed
            assert all(os.strerror(number) in one.text for one in written.reasons)
            assert all(written.path in one.text for one in written.reasons)
            told += is_refused(name.decode())
        told += sum(is_refused(each.decode()) for each in (folder, FOLDER)) if not place else 0
    problems = Problems()
    output.report(problems)
    (line,) = problems
    assert line.what.startswith(f"{told} were refused by the output file system")
    assert (problems.errors, sum(output.refusals.values())) == (0, told)


def test_two_names_that_become_one_stay_apart(tmp_path: Path, refuse: Callable[..., None]) -> None:
    refuse(*CASES["vfat"])
    output = OutputDirectory(tmp_path / "out")
    for name, content in ((b"a:b", b"1"), (b"a%3Ab", b"2"), (b"a:b", b"3")):
        output.write((name,), [Chunk(0, 1, content)], "mark")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert found == {"a%3Ab": b"1", "a%3Ab~mark": b"2", "a%3Ab~mark.1": b"3"}


def test_where_no_name_is_taken_nothing_is_written(
    tmp_path: Path, refuse: Callable[..., None]
) -> None:
    output = OutputDirectory(tmp_path / "out")
    refuse(lambda name: name != "out", errno.EINVAL)
    with pytest.raises(UnwritableError, match="Not written: a/b: Invalid argument"):
        output.write((b"a", b"b"), [Chunk(0, 1, b"x")])
    assert not list((tmp_path / "out").iterdir()) and not output.refusals


@contextmanager
def foreign(kind: str, folder: Path) -> Iterator[Path]:
    """A file system of another system, mounted; the test is skipped where that cannot be."""
    image, root = folder / "foreign.img", folder / "foreign"
    with image.open("xb") as file:
        file.truncate(64 << 20)
    make = {"vfat": ("mkfs.vfat",), "ntfs": ("mkfs.ntfs", "-q", "-F")}[kind]
    attach = {
        "vfat": ("mount", "-t", "vfat", "-o", "loop,utf8"),
        "ntfs": ("ntfs-3g", "-o", "windows_names"),
    }[kind]
    for command in (make[0], attach[0]):
        if shutil.which(command, path=machine.SYSTEM_PATH) is None:
            pytest.skip(f"needs {command}")
    machine.run(*make, image)
    root.mkdir()
    try:
        machine.run(*attach, image, root)
    except RuntimeError:
        pytest.skip(f"needs a kernel that mounts {kind}")
    try:
        yield root
    finally:
        machine.unmount(root)


@pytest.fixture
def removed(tmp_path: Path) -> tuple[Path, dict[bytes, bytes]]:
    """An image whose files were removed; their contents by name."""
    image = tmp_path / "disk.img"
    machine.make_file_system(image, 32 << 20, ("-t", "ext4", "-J", "size=4"))
    contents = {name: b"content of %s\n" % name * 500 for name in (*NAMES, FOLDER + b"/n|tes.md")}
    with machine.mounted(image, "noatime") as root:
        base = os.fsencode(root) + b"/home/"
        os.makedirs(base + FOLDER)  # noqa: PTH103 -- names are bytes
        for name, data in contents.items():
            with open(base + name, "wb") as file:  # noqa: PTH123 -- names are bytes
                file.write(data)
        machine.sync(root)
        shutil.rmtree(root / "home")
    return image, contents


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["vfat", "ntfs"])
def test_recover_keeps_path_extension_and_content_on_a_foreign_file_system(
    kind: str, removed: tuple[Path, dict[bytes, bytes]], tmp_path: Path, ext4kit: Cli
) -> None:
    image, contents = removed
    with foreign(kind, tmp_path) as root:
        out = root / "out"
        done = ext4kit("recover", image, "-o", out)
        assert done.returncode == 0, done.stderr
        records = [one for one in read_records(out) if one["type"] == "file"]
        assert len(records) == len(contents)
        refused = 0
        for record in records:
            name = record["path"].encode().removeprefix(b"/home/")
            assert (out / record["output"]).read_bytes() == contents[name]
            assert record["output"].startswith("files/home/")
            assert extension_of(record["output"].encode()) == extension_of(name)
            is_changed = record["output"] != f"files{record['path']}"
            assert ("name-refused" in [one["code"] for one in record["reasons"]]) == is_changed
            refused += is_changed
        assert refused >= 3
        (line,) = [line for line in done.stderr.splitlines() if "refused" in line]
        assert "names:" in line and "the manifest says how each is stored" in line


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["vfat", "ntfs"])
def test_extract_leaves_no_file_out_for_its_name(kind: str, tmp_path: Path, ext4kit: Cli) -> None:
    image, tree = tmp_path / "live.img", tmp_path / "tree"
    (tree / "10:30 talk").mkdir(parents=True)
    for name in ("a:b?.jpg", "10:30 talk/notes.txt", "plain.txt"):
        (tree / name).write_text(name)
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree), str(image), "16M"]
    subprocess.run(make, check=True, capture_output=True)
    with foreign(kind, tmp_path) as root:
        out = root / "out"
        done = ext4kit("extract", image, "/", "-o", out)
        assert done.returncode == 0, done.stderr
        records = read_records(out)
        told = {one["path"]: one for one in records if one["type"] == "file"}
        assert set(told) == {"/a:b?.jpg", "/10:30 talk/notes.txt", "/plain.txt"}
        for path, record in told.items():
            assert (out / record["output"]).read_text() == path[1:]
            codes = [one["code"] for one in record["reasons"]]
            assert codes == ["name-refused"] * (path != "/plain.txt")
