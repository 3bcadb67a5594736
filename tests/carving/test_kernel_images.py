"""Real files that the kernel wrote and removed come back, from nothing but their blocks."""

from __future__ import annotations

import gzip
import io
import random
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.carving.held import found_on_this_machine
from tests.carving.removed import Score, carved_from, removed

LAYOUTS = {
    "ext4": ("-t", "ext4"),
    "ext4, 1 KiB blocks": ("-t", "ext4", "-b", "1024"),
    "ext3": ("-t", "ext3"),
    "ext3, 1 KiB blocks": ("-t", "ext3", "-b", "1024"),
}
SUFFIXES = (
    *(".so", ".gz", ".png", ".py", ".pyc", ".mo", ".jar", ".a", ".svg", ".html", ".json", ".txt"),
    *(".xml", ".h", ".js", ".ttf", ".o", ".gif", ".pdf", ".pl", ".conf", ".crt"),
)
WORDS = [b"accepted", b"password", b"for", b"root", b"from", b"port", b"session", b"closed", b"by"]


def texts(count: int) -> list[bytes]:
    """Logs, configuration and notes, most of them small."""
    chance = random.Random(5)
    made = []
    for number in range(count):
        lines = int(chance.paretovariate(0.9) * 3) % 4000 + 1
        made.append(b"".join(line_of_log(number, line, chance) for line in range(lines)))
    return made


def line_of_log(hour: int, minute: int, chance: random.Random) -> bytes:
    """A line as a daemon writes it."""
    said = b" ".join(chance.choices(WORDS, k=7))
    return b"Nov 21 %02d:%02d host sshd[%d]: %s\n" % (
        hour % 24,
        minute % 60,
        chance.randint(1, 32000),
        said,
    )


def real_files(each: int, largest: int, folder: Path) -> list[bytes]:
    """Programs, libraries, pictures, archives, databases, scripts, documents; none twice."""
    paths = found_on_this_machine(("",), 5 * each, largest, "/usr/bin")
    for suffix in SUFFIXES:
        paths += found_on_this_machine((suffix,), each, largest)
    contents = [path.read_bytes() for path in paths]
    chance = random.Random(6)
    for number in range(each):
        some = chance.sample(contents, 5)
        contents += [tar(some), zipped(some), database(folder / f"{number}.db", chance)]
        contents.append(gzip.compress(tar(some)))
    contents = list(dict.fromkeys(contents))
    chance.shuffle(contents)
    return contents


def tar(members: list[bytes]) -> bytes:
    """A tar archive."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for number, content in enumerate(members):
            member = tarfile.TarInfo(f"file{number}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return held.getvalue()


def zipped(members: list[bytes]) -> bytes:
    """A ZIP archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, content in enumerate(members):
            archive.writestr(f"file{number}", content)
    return held.getvalue()


def database(path: Path, chance: random.Random) -> bytes:
    """A database with rows that were deleted."""
    with sqlite3.connect(path) as base:
        base.execute("create table notes (id integer primary key, body blob)")
        rows = [(chance.randbytes(chance.randint(0, 400)),) for _ in range(chance.randint(9, 3000))]
        base.executemany("insert into notes (body) values (?)", rows)
        base.execute("delete from notes where id % 3 = 0")
    base.close()
    return path.read_bytes()


def scored(folder: Path, layout: str, contents: list[bytes]) -> Score:
    """Write, remove, carve."""
    return carved_from(removed(folder, LAYOUTS[layout], contents), contents)


@pytest.mark.kernel
@pytest.mark.parametrize("layout", ["ext4", "ext3"])
def test_a_mix_of_real_files_comes_back(layout: str, tmp_path: Path) -> None:
    score = scored(tmp_path, layout, real_files(4, 300_000, tmp_path))
    assert score.exact >= 0.9
    assert score.sure >= 0.95


@pytest.mark.kernel
@pytest.mark.parametrize("layout", ["ext4", "ext3"])
def test_text_comes_back(layout: str, tmp_path: Path) -> None:
    score = scored(tmp_path, layout, texts(200))
    assert score.exact >= 0.97
    assert score.sure >= 0.97


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_real_files_come_back(layout: str, tmp_path: Path) -> None:
    score = scored(tmp_path, layout, real_files(12, 4 << 20, tmp_path))
    least = 0.75 if "1 KiB" in layout else 0.9  # of whatever files this machine has
    assert score.exact >= least
    assert score.sure >= least
    assert len(np.unique(score.blocks)) == len(score.blocks)


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_texts_come_back(layout: str, tmp_path: Path) -> None:
    score = scored(tmp_path, layout, texts(2000))
    assert score.exact >= 0.97
    assert score.sure >= 0.97
