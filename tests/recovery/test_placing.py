"""Places of recovered files: contents without inode by kind, fragments and damaged ones apart."""

from __future__ import annotations

import gzip
import hashlib
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

import ext4kit
from ext4kit.errors import AccessError
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.recovery import find_deleted, recover
from ext4kit.recovery.placing import PartialFiles, output_path
from sample_images.recipes.documents import document
from sample_images.recipes.machine import make_file_system
from sample_images.recipes.score import OWN, read_records
from sample_images.recipes.truth import load
from tests.conftest import Cli, Images

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


Placed = Callable[[str], tuple[Path, list[dict[str, Any]]]]


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


@pytest.fixture(scope="module")
def placed(ext4kit: Cli, unpacked: Images, tmp_path_factory: pytest.TempPathFactory) -> Placed:
    """The output of an image with damaged files, and its records, by --partial."""
    image = unpacked("removed_on_5_10").image

    @cache
    def recovered(place: str) -> tuple[Path, list[dict[str, Any]]]:
        out = tmp_path_factory.mktemp("partial") / place
        options = ["--partial", place] if place else []
        assert ext4kit("recover", image, "-o", out, *options).returncode == 0
        return out, list(read_records(out))

    return recovered


def _damaged_path(path: str, place: str) -> str:
    """Where a damaged file is looked for."""
    if place == "marked":
        return str(Path(path).with_suffix(".partial" + Path(path).suffix))
    return f"partial/{path.removeprefix('files/')}"


@pytest.mark.parametrize("place", ["", "apart", "marked"])
def test_no_damaged_file_lies_unmarked_among_good_ones(placed: Placed, place: str) -> None:
    (_, among), (out, records) = placed("among"), placed(place)
    grades = Counter(one["grade"] for one in records if one["output"])
    assert grades["partial"] > 10
    for one, other in zip(records, among, strict=True):
        expected = other["output"]
        if one["grade"] == "partial" and expected:
            expected = _damaged_path(expected, place)
        assert {**one, "output": expected} == one == {**other, "output": expected}
        if expected:
            assert hashlib.sha256((out / expected).read_bytes()).hexdigest() == one["sha256"]
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) == grades.total() + len(OWN)


class _Dying:
    """Blocks of which one cannot be read any more."""

    def __init__(self, blocks: BlockReader, bad: int) -> None:
        self._blocks, self._bad = blocks, bad

    def __getattr__(self, name: str) -> object:
        return getattr(self._blocks, name)

    def read(self, block: int, count: int = 1) -> memoryview:
        if block <= self._bad < block + count:
            raise AccessError("bad sector")
        return self._blocks.read(block, count)


@pytest.mark.parametrize("place", PartialFiles)
def test_a_file_that_turns_out_damaged_while_it_is_read_is_no_good_one(
    unpacked: Images, tmp_path: Path, place: PartialFiles
) -> None:
    sample = unpacked("rm_rf_tree")
    truth = {b"/" + file.path: file for file in load(sample.truth).files}
    with ext4kit.open(sample.image) as image:
        found = find_deleted(image.filesystem())
        files = [file for file in found if file.kind == "file" and (file.size or 0) > 3 * BLOCK]
        (whole, broken), content = files[:2], files[1].content()
        assert content is not None and content.runs is not None
        dying = _Dying(content.blocks, int(content.runs.physical[0]))
        content = replace(content, blocks=cast(BlockReader, dying))
        chosen = replace(found, files=[whole, replace(broken, _content=content)])
        result = recover(chosen, tmp_path / "out", partial=place)
    good, bad = read_records(tmp_path / "out")
    assert (good["grade"], bad["grade"], result.incomplete) == ("intact", "partial", 1)
    expected = f"files{bad['path']}"
    if place is not PartialFiles.AMONG:
        expected = _damaged_path(expected, place)
    assert (good["output"], bad["output"]) == (f"files{good['path']}", expected)
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "out")) for path in written} == {
        good["output"], bad["output"], "manifest.jsonl"
    }  # fmt: skip
    for one, is_same in ((good, True), (bad, False)):
        data = (tmp_path / "out" / one["output"]).read_bytes()
        file = truth[one["path"].encode()]
        assert len(data) == file.size
        assert (hashlib.sha256(data).hexdigest() == file.sha256) == is_same
