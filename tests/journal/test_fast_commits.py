"""Fast commits, replayed in memory: against the kernel, e2fsck and e2fsprogs' own images."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.parsers.checksums import crc32c
from ext4kit.parsers.fast_commit import CHECKED_IN_TAIL, TAG, TagKind
from sample_images.recipes import machine
from sample_images.recipes.score import read_records
from tests.cases import MISSING, records, unpack
from tests.conftest import Cli
from tests.journal.fast_commit_images import (
    FORMATS,
    Doings,
    Made,
    differences,
    faults,
    fsync,
    make,
    replayed,
    replayed_by_kernel,
    write_copy,
)
from tests.journal.kernel_log import opened

CASES = [one for one in records() if one["category"] == "fast-commit"]
STEPS = 25
BIG_NAME = "z" * 150


# --- images of others -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    unpack(folder, [path for one in CASES for path in (one["image"], f"ref/{one['name']}")])
    return folder


def _listing(fs: FileSystem) -> dict[str, tuple[int, int | None, str | None]]:
    """Path -> (inode, size, SHA-256 of the content), the latter two of files alone."""
    found = {}
    for entry in fs.walk(b"/"):
        inode = entry.inode
        assert inode is not None
        is_file = inode.kind == "file"
        content = fs.content(inode).read(0, inode.size) if is_file else b""
        digest = hashlib.sha256(content).hexdigest() if is_file else None
        found[entry.path.decode()] = entry.number, inode.size if is_file else None, digest
    found.pop("/")
    return found


@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_tree_after_replay_is_the_reference(case: dict[str, Any], cases: Path) -> None:
    kernel = case["replay"]["reference"].startswith("kernel")
    name = "listing_kernel_replay.jsonl" if kernel else "listing_after_replay.jsonl"
    lines = (cases / "ref" / case["name"] / name).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    expected = {
        row["path"]: (row["ino"], row["size"] if row["type"] == "file" else None, row.get("sha256"))
        for row in rows
    }
    view = replayed(cases / case["image"])
    assert _listing(view.fs) == expected
    if view.applied:
        assert faults(write_copy(cases / case["image"], view)) == ""


# --- images of the kernel -------------------------------------------------------------------


def _agrees_with_live(made: Made, *, applied: int = 1) -> None:
    """The view is what the kernel showed before the cut, without problems, and sound."""
    view = replayed(made.image)
    assert view.applied >= applied
    assert differences(made.live, view, made.synced) == []
    assert [str(one) for one in view.fs.problems if one.severity != "note"] == []
    assert faults(write_copy(made.image, view)) == ""


@pytest.mark.kernel
@pytest.mark.parametrize(("number", "form"), list(enumerate(FORMATS)))
def test_random_changes_are_all_there_and_sound(number: int, form: str, tmp_path: Path) -> None:
    seed = 100 + number
    _agrees_with_live(make(tmp_path, FORMATS[form], lambda root: Doings(root, seed).run(STEPS)))


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("form", FORMATS)
def test_more_random_changes(form: str, seed: int, tmp_path: Path) -> None:
    _agrees_with_live(make(tmp_path, FORMATS[form], lambda root: Doings(root, seed).run(80)))


@pytest.mark.kernel
@pytest.mark.parametrize(("seed", "form"), [(1, "default"), (2, "1k"), (3, "bigalloc")])
def test_the_kernels_own_replay_gives_the_same(seed: int, form: str, tmp_path: Path) -> None:
    """Without new and removed folders, whose links the kernel's replay does not count."""

    def act(root: Path) -> set[bytes]:
        return Doings(root, seed, folders=False).run(STEPS)

    made = make(tmp_path, FORMATS[form], act)
    assert differences(replayed_by_kernel(made.image), replayed(made.image)) == []


def _file(path: Path, content: bytes = b"x") -> Path:
    path.write_bytes(content)
    return path


def _crowded_index(root: Path) -> set[bytes]:
    """Names into a hashed folder whose leaves and index blocks are full."""
    folder = root / "big"
    folder.mkdir()
    for number in range(2500):
        (folder / f"{number:05d} {BIG_NAME}").touch()
    machine.sync(root)
    for number in range(150):
        (folder / f"new {number:05d} {BIG_NAME}").touch()
    fsync(_file(root / "half"))
    for number in range(0, 2500, 25):
        (folder / f"{number:05d} {BIG_NAME}").unlink()
    fsync(_file(root / "last"))
    return {b"/half", b"/last"}


def _kinds(root: Path) -> set[bytes]:
    """Everything that is neither file nor folder, and a file that got its name late."""
    (root / "short").symlink_to("short target")
    os.mknod(root / "chr", stat.S_IFCHR | 0o600, os.makedev(5, 1))
    os.mknod(root / "blk", stat.S_IFBLK | 0o600, os.makedev(300, 70000))
    os.mkfifo(root / "fifo")
    fsync(_file(root / "first"))
    nameless = os.open(root, os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(nameless, b"late" * 1000)
    os.link(f"/proc/self/fd/{nameless}", root / "late", src_dir_fd=0, follow_symlinks=True)
    os.fsync(nameless)
    os.close(nameless)
    fsync(_file(root / "second"))
    return {b"/first", b"/late"}


def _many_extents(root: Path) -> set[bytes]:
    """A tree of extents that grows to a second level and is cut again."""
    descriptor = os.open(root / "deep", os.O_WRONLY | os.O_CREAT)
    for number in range(1200):
        os.pwrite(descriptor, b"q" * 100, number * 20_000)
        if number % 300 == 299:
            os.fsync(descriptor)
    os.ftruncate(descriptor, 600 * 20_000)
    os.fsync(descriptor)
    os.close(descriptor)
    return {b"/deep"}


def _attributes(root: Path) -> set[bytes]:
    """Removed files with attributes, and a new file in the place of one."""
    for number in range(3):
        path = _file(root / f"{number}")
        os.setxattr(path, "user.large", b"v" * 700)
        os.setxattr(path, "user.own", b"%d" % number * 20)
    machine.sync(root)
    (root / "0").unlink()
    fsync(_file(root / "first"))
    _file(root / "second")
    fsync(_file(root / "third"))
    return {b"/first"}


def _folders(root: Path) -> set[bytes]:
    """New folders in new folders, more of them than a group's inode table begins with."""
    for number in range(120):
        folder = root / f"d{number}"
        folder.mkdir()
        (folder / "child").mkdir()
        (folder / "child" / "file").touch()
    fsync(_file(root / "first"))
    for number in range(0, 120, 3):
        (root / f"d{number}" / "child" / "file").unlink()
        (root / f"d{number}" / "child").rmdir()
        (root / f"d{number}").rmdir()
    fsync(_file(root / "second"))
    return {b"/first", b"/second"}


def _removed_while_open(root: Path) -> set[bytes]:
    """Files that go while they are open: the kernel's own replay gives up on these."""
    old, new = _file(root / "old", b"o" * 20_000), _file(root / "new", b"n" * 9000)
    fsync(new)
    held = [os.open(path, os.O_RDONLY) for path in (old, new)]
    old.unlink()
    new.unlink()
    fsync(_file(root / "first"))
    for descriptor in held:
        os.close(descriptor)
    fsync(_file(root / "second"))
    return {b"/first", b"/second"}


@pytest.mark.heavy
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("act", "form"),
    [
        (_crowded_index, "1k"),
        (_kinds, "default"),
        (_kinds, "inline 1k"),
        (_many_extents, "1k"),
        (_many_extents, "inline 1k"),
        (_attributes, "default"),
        (_folders, "small groups"),
        (_folders, "inline"),
        (_removed_while_open, "default"),
    ],
)
def test_what_needs_room_or_frees_it_is_sound(
    act: Callable[[Path], set[bytes]], form: str, tmp_path: Path
) -> None:
    _agrees_with_live(make(tmp_path, FORMATS[form], act))


# --- damage ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An image with three fast commits, one file each."""
    if reason := machine.missing_for_kernel():
        pytest.skip(reason)

    def act(root: Path) -> set[bytes]:
        for number in range(3):
            fsync(_file(root / f"new {number}", b"new" * 2000))
        return set()

    return make(tmp_path_factory.mktemp("three"), FORMATS["1k"], act)


def _tail_places(image: Path) -> list[int]:
    """Byte places in the image of the fast commits' TAIL tags."""
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    found = scan_fast_commits(log)
    rows = [one.end - 1 for one in found.to_replay]
    blocks = log.reader.log_blocks[found.positions[found.tags.row[rows]]]
    places: list[int] = (blocks * fs.superblock.block_size + found.tags.offset[rows]).tolist()
    return places


@pytest.mark.kernel
@pytest.mark.parametrize("bad", range(3))
def test_a_bad_checksum_ends_the_replay_and_is_told(bad: int, three: Made, tmp_path: Path) -> None:
    image = tmp_path / "damaged.img"
    machine.copy_sparse(three.image, image)
    with image.open("r+b") as file:
        file.seek(_tail_places(three.image)[bad] + CHECKED_IN_TAIL)
        file.write(b"\xaa\xbb\xcc\xdd")
    view = replayed(image)
    names = {entry.path for entry in view.fs.walk(b"/") if b"new" in entry.path}
    assert names == {b"/new %d" % number for number in range(bad)}
    assert any("bad checksum" in one.what for one in view.fs.problems if one.severity == "error")


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(60))
def test_hostile_values_behind_a_good_checksum_do_no_harm(
    seed: int, three: Made, tmp_path: Path
) -> None:
    image = tmp_path / "hostile.img"
    machine.copy_sparse(three.image, image)
    chance = random.Random(seed)
    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    found, size = scan_fast_commits(log), fs.superblock.block_size
    with image.open("r+b") as file:
        for one in found.to_replay:
            row = int(found.tags.row[one.first])
            place = int(log.reader.log_blocks[found.positions[row]]) * size
            file.seek(place)
            block = bytearray(file.read(size))
            _spoil(block, found, one.first, one.end, chance)
            file.seek(place)
            file.write(block)
    view = replayed(image)
    before = {entry.path for entry in fs.walk(b"/")}
    paths = {entry.path for entry in view.fs.walk(b"/")}
    assert len(before) > 3
    assert before <= paths
    assert len(paths - before) <= len(found.to_replay)  # each of them makes one file


def _spoil(block: bytearray, found: Any, first: int, end: int, chance: random.Random) -> None:
    """Change bytes in the values of a commit that lies in one block, and mend its checksum."""
    tags = found.tags
    for _ in range(chance.randrange(1, 6)):
        tag = chance.randrange(first, end)
        if tags.kind[tag] in (TagKind.HEAD, TagKind.TAIL):
            continue
        at = int(tags.offset[tag]) + TAG.size + chance.randrange(int(tags.length[tag]))
        block[at] = chance.choice((0, 0xFF, chance.randrange(256)))
    tail = int(tags.offset[end - 1]) + CHECKED_IN_TAIL
    struct.pack_into("<I", block, tail, crc32c(0, bytes(block[int(tags.offset[first]) : tail])))


# --- what stands on it ----------------------------------------------------------------------


@pytest.mark.kernel
def test_a_file_that_only_a_fast_commit_removed_is_recovered(tmp_path: Path, ext4kit: Cli) -> None:
    """Neither its inode nor its directory is in the log: the disk has both as they were."""
    content = random.Random("gone").randbytes(9000)
    image = tmp_path / "image"
    machine.make_file_system(image, 48 << 20, ("-t", "ext4", "-O", "^has_journal"))
    with machine.mounted(image, "rw") as root:
        for folder in ("a", "b"):
            (root / folder).mkdir()
            for number in range(40):
                _file(root / folder / f"file {number}", content if number == 20 else b"other")
    machine.run("tune2fs", "-O", "has_journal,fast_commit", "-J", "size=8", image)
    cut = tmp_path / "cut.img"
    with machine.mounted(image, "rw") as root:
        _file(root / "b" / "file 39", b"b" * 5000)
        machine.sync(root)
        (root / "a" / "file 20").unlink()
        fsync(_file(root / "b" / "file 38", b"c" * 5000))
        machine.copy_sparse(image, cut)
    done = ext4kit("recover", cut, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "files" / "a" / "file 20").read_bytes() == content
    assert '"grade": "consistent"' in (tmp_path / "out" / "manifest.jsonl").read_text()


@pytest.mark.kernel
@pytest.mark.parametrize("form", ["default", "inline 1k"])
def test_files_that_lived_in_fast_commits_alone_are_recovered(
    form: str, tmp_path: Path, ext4kit: Cli
) -> None:
    """No transaction ever saw them; their numbers went to others at once."""
    contents = {name: random.Random(name).randbytes(9000) for name in ("first", "second")}

    def act(root: Path) -> set[bytes]:
        (root / "new").mkdir()
        for name, content in contents.items():
            fsync(_file(root / "new" / name, content))
            (root / "new" / name).unlink()
            fsync(_file(root / f"after {name}", b"after" * 1000))
        return set()

    made, out = make(tmp_path, FORMATS[form], act), tmp_path / "out"
    done = ext4kit("recover", made.image, "-o", out)
    assert done.returncode == 0, done.stderr
    written = {path.name: path.read_bytes() for path in (out / "files" / "new").iterdir()}
    assert written == contents
    records = list(read_records(out))
    assert {one["grade"] for one in records} == {"consistent"}
    assert {one["sources"]["inode"] for one in records} == {"fast commit"}


@pytest.mark.kernel
def test_info_counts_the_fast_commits(three: Made, ext4kit: Cli) -> None:
    done = ext4kit("info", three.image)
    assert "and 3 fast commits after them" in done.stdout
