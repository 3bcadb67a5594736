"""Where recovered files lie: contents without an inode by kind, fragments apart."""

from __future__ import annotations

import gzip
import sqlite3
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import find_deleted
from ext4kit.recovery.placing import output_path
from sample_images.recipes.documents import document
from sample_images.recipes.machine import make_file_system
from sample_images.recipes.score import read_records
from tests.conftest import Cli

BLOCK, FIRST, APART = 4096, 6000, 64  # bytes; the first block of contents; blocks between two
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8"
    "cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def _database(folder: Path) -> bytes:
    path = folder / "made.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE words (word TEXT)")
    made.close()
    return path.read_bytes()


def _catalogue(message: str, translated: str) -> bytes:
    """A message catalogue of gettext with one message."""
    texts = [message.encode() + b"\0", translated.encode() + b"\0"]
    places = (len(texts[0]) - 1, 44, len(texts[1]) - 1, 44 + len(texts[0]))
    return struct.pack("<11I", 0x950412DE, 0, 1, 28, 36, 0, 44, *places) + b"".join(texts)


def _contents(folder: Path) -> dict[str, bytes]:
    """A content of each kind, by the folder where a person would look for it."""
    mail = b"From someone@example.org Mon Mar  2 10:00:00 2026\nSubject: tea\n\n" + b"tea\n" * 900
    return {
        "pictures": PNG,
        "documents": document("letter.txt", 3000),
        "archives": gzip.compress(document("packed.txt", 9000), mtime=0),
        "databases": _database(folder),
        "mail": mail,
        "code": b"#!/usr/bin/perl\n" + b"print 'tea';\n" * 90,
        "executables": Path(sys.executable).resolve().read_bytes()[: 40 * BLOCK],
        "other": _catalogue("tea", "Tee"),
    }


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contents of all kinds in free blocks; no inode knows of them."""
    folder = tmp_path_factory.mktemp("placing")
    image = folder / "disk.img"
    make_file_system(image, 64 << 20, ("-t", "ext4", "-b", str(BLOCK), "-O", "^has_journal"))
    with image.open("r+b") as file:
        for at, content in enumerate(_contents(folder).values()):
            file.seek((FIRST + at * APART) * BLOCK)
            file.write(content)
    return image


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The kind of each content, as they lie."""
    return list(_contents(tmp_path_factory.mktemp("kinds")))


def test_a_content_without_an_inode_lies_in_the_folder_of_its_kind(
    ext4kit: Cli, disk: Path, kinds: list[str], tmp_path: Path
) -> None:
    assert ext4kit("recover", disk, "-o", tmp_path / "out").returncode == 0
    found = {}
    for one in read_records(tmp_path / "out"):
        top, kind, name = one["output"].split("/")
        assert (top, name.split(".")[0]) == ("carved", f"block-{one['first_block']}")
        found[kinds[(one["first_block"] - FIRST) // APART]] = kind
        assert (tmp_path / "out" / one["output"]).stat().st_size == one["size"]
    assert found == {kind: kind for kind in kinds}


@pytest.mark.parametrize("kind", ["pictures", "mail", "code"])
def test_kind_selects_what_lies_in_the_folder_of_that_name(
    ext4kit: Cli, disk: Path, tmp_path: Path, kind: str
) -> None:
    assert ext4kit("recover", disk, "-o", tmp_path / "out", "--kind", kind).returncode == 0
    assert [path.name for path in (tmp_path / "out" / "carved").iterdir()] == [kind]


def test_a_fragment_lies_apart_whatever_its_kind(disk: Path) -> None:
    with ext4kit.open(disk) as image:
        for file in find_deleted(image.filesystem()):
            path = output_path(replace(file, fragment=True))
            assert path[:2] == (b"carved", b"fragments")
            assert path[2] == output_path(file)[2]
