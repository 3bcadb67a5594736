"""File objects over contents: the bytes of the file, and no more of the evidence than they need."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ext4kit.errors import AccessError, RequestError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.source import Source
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.content import ContentStream
from sample_images.recipes.machine import run

GIB = 1 << 30
KINDS = {"extents": "-t ext4", "indirect": "-t ext3", "inline": "-t ext4 -O inline_data -I 256"}


class CountedSource:
    """A source that counts the bytes read, and cannot read those from `bad` on."""

    def __init__(self, source: Source) -> None:
        self._source, self.name, self.size = source, source.name, source.size
        self.count, self.bad = 0, source.size

    def close(self) -> None:
        self._source.close()

    def read(self, offset: int, length: int) -> memoryview:
        self.count += length
        if offset + length > self.bad:
            raise AccessError(f"byte {self.bad} cannot be read")
        return self._source.read(offset, length)


@pytest.fixture(params=KINDS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, FileSystem, CountedSource]:
    """A folder, a file system with the same files, and its source."""
    folder, image = tmp_path / "tree", tmp_path / "image"
    folder.mkdir()
    some = random.Random(7)
    with (folder / "long").open("wb") as file:
        for place in (0, 5 * GIB // 7, GIB - 70_000):
            file.seek(place)
            file.write(some.randbytes(70_000))
    (folder / "short").write_bytes(b"a few bytes")
    (folder / "empty").touch()
    (folder / "link").symlink_to("short")
    run("mke2fs", "-q", *KINDS[request.param].split(), "-d", folder, image, "64M")
    counted = CountedSource(open_evidence(image).source)
    return folder, FileSystem.from_source(counted), counted


def test_the_end_of_a_long_file_is_read_alone(
    tree: tuple[Path, FileSystem, CountedSource],
) -> None:
    folder, fs, source = tree
    with fs.open("/long") as file:
        source.count = 0
        assert file.seek(-10, os.SEEK_END) == GIB - 10
        assert file.read() == (folder / "long").read_bytes()[-10:]
    assert source.count < 100_000


def test_reads_anywhere_give_the_bytes_of_the_file(
    tree: tuple[Path, FileSystem, CountedSource],
) -> None:
    folder, fs, _ = tree
    some = random.Random(8)
    for name in ("long", "short", "empty"):
        with fs.open("/" + name) as file, (folder / name).open("rb") as right:
            size = (folder / name).stat().st_size
            edges = [0, 70_000, 5 * GIB // 7, GIB - 70_000, size]
            for _ in range(60):
                place = max(some.choice(edges) + some.randint(-5000, 5000), 0)
                length = some.choice([0, 1, 100, 9000, 100_000])
                assert file.seek(place) == right.seek(place)
                assert file.read(length) == right.read(length), (name, place, length)
            last = right.seek(max(size - 5, 0))
            assert fs.content(fs.inode(fs.lookup("/" + name))).read(last, 100) == right.read()


def test_reads_end_before_bytes_that_cannot_be_read(
    tree: tuple[Path, FileSystem, CountedSource],
) -> None:
    folder, fs, source = tree
    content, block_size = fs.content(fs.inode(fs.lookup("/long"))), fs.superblock.block_size
    assert content.runs is not None
    source.bad = (int(content.runs.physical[0]) + 2) * block_size
    stream = ContentStream(content)
    assert stream.read(10 * block_size) == (folder / "long").read_bytes()[: 2 * block_size]
    with pytest.raises(AccessError):
        stream.read(1)
    with pytest.raises(ValueError, match="no such position"):
        stream.seek(-1)


def test_what_is_no_regular_file_is_refused(
    tree: tuple[Path, FileSystem, CountedSource],
) -> None:
    _, fs, _ = tree
    for path in ("/", "/link", "/nothing", "<99>"):
        with pytest.raises(RequestError):
            fs.open(path)
