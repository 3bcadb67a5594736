"""Members of archives are those of unzip and tar; what is read and unpacked has limits."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from ext4kit.preview import archives
from ext4kit.preview.model import Preview
from ext4kit.preview.previews import kinds_for, preview
from sample_images.recipes.machine import run
from tests.preview.contents import BLOCK, are_safe, bytes_read, mapped, node_of, texts_of


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files, with a name that would control a terminal."""
    top = tmp_path_factory.mktemp("packed") / "top"
    (top / "sub").mkdir(parents=True)
    (top / "a.txt").write_text("some text\n" * 1000)
    (top / "sub/b.bin").write_bytes(os.urandom(5000))
    (top / "sub/two\nlines \x1b[31m").write_bytes(b"x")
    (top / "link").symlink_to("a.txt")
    for path in (*top.rglob("*"), top):
        os.utime(path, (1_700_000_000, 1_700_000_000), follow_symlinks=False)
    return top


def members(found: Preview) -> list[tuple[str, str]]:
    """(size, name) of each row of a table."""
    assert found.kind == "archive", found.text
    rows = [("".join(s.text for s in line.spans[:1]), "".join(s.text for s in line.spans[1:]))
            for line in found.lines[1:]]  # fmt: skip
    return [(start.split()[0].replace(",", ""), name) for start, name in rows]


def shown(name: str) -> str:
    return name.replace("\n", r"\x0a").replace("\x1b", r"\x1b")


@pytest.mark.parametrize("options", [(), ("-0",), ("-Z", "bzip2"), ("-P", "secret")])
def test_members_of_zip_are_those_of_unzip(
    tree: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "z.zip"
    subprocess.run(["zip", "-qry", *options, path, "top"], cwd=tree.parent, check=True)
    told = subprocess.run(["unzip", "-l", path], capture_output=True, check=True).stdout
    sizes = re.findall(rb"^ +(\d+)  \d{4}-\d\d-\d\d", told, re.MULTILINE)
    with zipfile.ZipFile(path) as archive:
        expected = [(str(one.file_size), shown(one.filename)) for one in archive.infolist()]
    assert [size for size, _ in expected] == [size.decode() for size in sizes]
    node = node_of(path.read_bytes())
    assert kinds_for(node) == ("archive", "hex", "text")
    found = preview(node)
    assert members(found) == expected
    assert ("encrypted" in found.text) == ("-P" in options)
    assert (found.title, found.note) == ("zip archive", "")


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
@pytest.mark.parametrize("packing", ["", "gzip", "xz", "bzip2", "zstd"])
def test_members_of_tar_are_those_of_tar(
    tree: Path, tmp_path: Path, form: str, packing: str
) -> None:
    path = tmp_path / "t.tar"
    run("tar", "-C", tree.parent, f"--format={form}", "-cf", path, "top")
    listed = run("tar", "-tvf", path, "--quoting-style=literal", "--full-time", "--utc")
    with tarfile.open(path) as archive:
        expected = [(str(one.size), shown(one.name + "/" * one.isdir())) for one in archive]
    data = run(packing, "-c", path) if packing else path.read_bytes()
    found = preview(node_of(data))
    assert [(size, name) for size, name in members(found)] == expected
    assert len(expected) == listed.count(b"2023-11-14 22:13:20")
    assert found.text.count("2023-11-14 22:13:20Z") == len(expected)
    assert found.title == (
        "tar archive" if not packing else f"tar archive, compressed with {packing}"
    )
    assert found.note == ""


@pytest.mark.parametrize("packing", ["gzip", "xz", "bzip2", "zstd"])
def test_a_compressed_text_shows_its_size_and_first_lines(tree: Path, packing: str) -> None:
    data = run(packing, "-c", tree / "a.txt")
    found = preview(node_of(data), most_lines=10)
    assert found.title == f"compressed with {packing}"
    lines = [line.text for line in found.lines]
    assert lines[0].split() == ["packed", f"{len(data):,}", "bytes"]
    assert lines[1].split() == ["unpacked", "10,000", "bytes"]
    assert lines[-1] == "some text"
    assert found.is_cut
    if packing == "gzip":
        assert lines[2].split() == ["changed", "2023-11-14", "22:13:20Z"]
        assert lines[3].split() == ["name", "a.txt"]


def test_a_word_processor_file_is_an_archive() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<w/>")
    assert [name for _, name in members(preview(node_of(held.getvalue())))] == [
        "[Content_Types].xml", "word/document.xml",
    ]  # fmt: skip


def test_many_members_are_listed_to_a_limit() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for number in range(500):
            archive.writestr(f"member {number}", b"")
    found = preview(node_of(held.getvalue()), most_lines=1000)
    assert len(members(found)) == archives.MOST_MEMBERS
    assert found.is_cut


def test_bombs_are_unpacked_to_a_limit() -> None:
    bomb = gzip.compress(bytes(200 << 20), 1)
    found = preview(node_of(bomb))
    assert "at least 16,777,216 bytes" in found.text
    assert "only the first" in found.note
    found = preview(node_of(lzma.compress(b"x" * (100 << 20), preset=0)))
    assert "at least 16,777,216 bytes" in found.text
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(64 << 20))
    assert members(preview(node_of(held.getvalue()))) == [(str(64 << 20), "bomb")]


def test_a_tar_of_terabytes_is_listed_by_its_headers() -> None:
    def header(name: str, size: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.GNU_FORMAT)

    each, count = 64 << 30, 20
    heads = [header(f"part {number}", each + 512).ljust(BLOCK, b"\0") for number in range(count)]
    rows = [(number * (each + BLOCK) // BLOCK, 1, number, False) for number in range(count)]
    data = b"".join(heads)
    node = mapped(data, count * (each + BLOCK), rows)
    found = preview(node)
    assert members(found) == [(str(each + 512), f"part {number}") for number in range(count)]
    assert bytes_read(node) < 100 * BLOCK
    cut = preview(mapped(data[:BLOCK], each, rows[:1]))
    assert "ends before" in cut.note


def test_a_zip_without_its_directory_is_listed_by_its_headers() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in ("a", "b", "c"):
            archive.writestr(name, os.urandom(2000))
    found = preview(node_of(held.getvalue()[:5000]))
    assert members(found) == [("2000", "a"), ("2000", "b"), ("2000", "c")]
    assert "central directory cannot be read" in found.note


def test_any_damage_is_told_and_ends(tree: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "t.tar"
    run("tar", "-C", tree.parent, "-cf", path, "top")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tree / "a.txt", "a.txt")
        archive.write(tree / "sub/b.bin", "b.bin")
    packed = [held.getvalue(), path.read_bytes(), gzip.compress(path.read_bytes()),
              lzma.compress(path.read_bytes()), run("zstd", "-c", path)]  # fmt: skip
    for data in packed:
        for _ in range(40):
            broken = bytearray(data[: rng.choice((len(data), rng.randrange(20, len(data))))])
            for _ in range(rng.randrange(6)):
                broken[rng.randrange(6, len(broken))] = rng.randrange(256)
            found = preview(node_of(bytes(broken)), "archive")
            assert found.kind == "archive"
            assert are_safe(texts_of(found))
    found = preview(node_of(gzip.compress(path.read_bytes()), bad={0}), "archive")
    assert found.kind in ("archive", "error")
