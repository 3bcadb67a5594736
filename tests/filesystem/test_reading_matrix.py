"""Every combination of features reads as the kernel (or debugfs) reads it, in every field."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import ext4kit
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.filesystem import FileSystem, WalkEntry
from tests.filesystem import matrix_filling as filling
from tests.filesystem.matrix import COMBINATIONS, Built, built, kernel_missing
from tests.filesystem.matrix_oracle import (
    ENCRYPTED,
    USER_VISIBLE_FLAGS,
    Digest,
    Node,
    Numbers,
    debugfs,
)

SHOWN = 12
READS_A_FILE = 3
READ_LIMIT = 32 << 20  # bytes; larger files are compared by their chunks alone


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where ext4kit and the oracle do not agree."""

    path: bytes
    field: str
    expected: object
    got: object

    def __str__(self) -> str:
        return f"{self.path!r} {self.field}: expected {self.expected!r}, got {self.got!r}"


@dataclass(frozen=True, slots=True)
class Case:
    """A combination with its oracle's tree and what ext4kit reads of it."""

    built: Built
    fs: FileSystem
    found: dict[bytes, WalkEntry]

    def nodes(self) -> Iterator[tuple[bytes, Node, WalkEntry]]:
        """(path, oracle's node, ext4kit's entry) of each inode, at its first path."""
        seen = set()
        for path, number in self.built.tree.paths.items():
            if number not in seen and path in self.found:
                seen.add(number)
                yield path, self.built.tree.nodes[number], self.found[path]


@pytest.fixture(scope="module", params=[one.name for one in COMBINATIONS])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    if missing := kernel_missing():
        pytest.skip(missing)
    made = built(request.param)
    with ext4kit.open(made.image) as image:
        fs = image.volumes[0].filesystem()
        yield Case(made, fs, {entry.path: entry for entry in fs.walk(b"/")})


def agree(differences: list[Difference]) -> None:
    """Fail with the first differences in words."""
    lines = "\n".join(map(str, differences[:SHOWN]))
    assert not differences, f"{len(differences)} differences\n{lines}"


@pytest.mark.kernel
def test_every_path_is_found_with_its_inode(case: Case) -> None:
    expected = case.built.tree.paths
    got = {path: entry.number for path, entry in case.found.items()}
    every = sorted(expected.keys() | got.keys())
    agree(
        [
            Difference(path, "number", expected.get(path), got.get(path))
            for path in every
            if expected.get(path) != got.get(path)
        ]
    )


@pytest.mark.kernel
def test_inode_fields_are_those_of_the_oracle(case: Case) -> None:
    dated_by_replay = case.built.combination.name == "fast_commit"
    agree(
        [
            Difference(path, field, expected, got)
            for path, node, entry in case.nodes()
            for field, expected, got in compared_numbers(node, entry, dated_by_replay)
            if expected != got
        ]
    )


def compared_numbers(
    node: Node, entry: WalkEntry, dated_by_replay: bool
) -> Iterator[tuple[str, object, object]]:
    """(field, expected, got) of each field that the oracle knows.

    Left out: the size of an encrypted symlink, which the kernel shows as the length of the
    no-key form of its target, and times of directories that the kernel set itself while it
    replayed. Where the oracle has no creation time there has to be none.
    """
    assert entry.inode is not None
    left_out = {"size"} if is_hidden_link(node, entry) else set()
    if dated_by_replay and entry.inode.is_directory:
        left_out = {"mtime", "ctime"}
    for field, expected in node.numbers.items():
        if field in left_out:
            continue
        yield field, *comparable(field, expected, getattr(entry.inode, field))
    if "crtime" not in node.numbers:
        yield "crtime", None, entry.inode.crtime


def comparable(field: str, expected: object, got: object) -> tuple[object, object]:
    """Both values with what only one side can tell taken away."""
    if field == "flags":
        assert isinstance(expected, int) and isinstance(got, int)
        return expected & USER_VISIBLE_FLAGS, int(got) & USER_VISIBLE_FLAGS
    if field == "project_id":
        return expected, got or 0
    return expected, got


def is_hidden_link(node: Node, entry: WalkEntry) -> bool:
    """Whether this is a symlink whose target is encrypted."""
    assert entry.inode is not None
    return node.target is not None and bool(entry.inode.flags & ENCRYPTED)


def digest_of(content: Content) -> str:
    """The digest of what ext4kit streams; its chunks have to follow each other exactly."""
    digest, position = Digest(content.size), 0
    for chunk in content.chunks():
        assert not chunk.lost, chunk.lost
        assert chunk.offset == position, f"chunk at {chunk.offset}, {position} expected"
        if chunk.data is not None:
            assert len(chunk.data) == chunk.length
            digest.add(chunk.offset, chunk.data)
        position += chunk.length
    assert position == content.size, f"chunks end at {position} of {content.size}"
    return digest.hexdigest()


@pytest.mark.kernel
def test_contents_are_those_of_the_oracle(case: Case) -> None:
    differences, files = [], 0
    for path, node, entry in case.nodes():
        if node.digest is not None and entry.inode is not None:
            files += 1
            got = digest_of(case.fs.content(entry.inode))
            if got != node.digest:
                differences.append(Difference(path, "content", node.digest, got))
    agree(differences)
    assert files > 80


@pytest.mark.kernel
def test_a_read_gives_the_same_bytes_as_the_stream(case: Case) -> None:
    differences, files = [], 0
    for path, node, entry in case.nodes():
        if node.digest is None or entry.inode is None or entry.inode.size > READ_LIMIT:
            continue
        files += 1
        content = case.fs.content(entry.inode)
        whole = bytearray(content.size)
        for chunk in content.chunks():
            if chunk.data is not None:
                whole[chunk.offset : chunk.offset + chunk.length] = chunk.data
        for offset, length in places(path, content.size):
            if content.read(offset, length) != whole[offset : offset + length]:
                differences.append(Difference(path, "read", (offset, length), "other bytes"))
    agree(differences)
    assert files > 60


def places(path: bytes, size: int) -> list[tuple[int, int]]:
    """Some (offset, length) pairs in and around a file, the same in each run."""
    chance = random.Random(path)
    pairs = [(chance.randrange(size + 1), chance.randrange(20_000)) for _ in range(READS_A_FILE)]
    return [*pairs, (0, 100), (max(size - 50, 0), 100), (size, 10), (size + 5000, 10)]


@pytest.mark.kernel
def test_attributes_and_acls_are_those_of_the_oracle(case: Case) -> None:
    differences, attributes = [], 0
    for path, node, entry in case.nodes():
        if node.xattrs is None or entry.inode is None:
            continue
        attributes += len(node.xattrs)
        got = case.fs.xattrs(entry.inode)
        for name in sorted(node.xattrs.keys() | got.keys()):
            if node.xattrs.get(name) != got.get(name):
                field = f"xattr {name!r}"
                differences.append(Difference(path, field, node.xattrs.get(name), got.get(name)))
    agree(differences)
    assert (attributes > 30) == (case.built.combination.name != "revision_0")  # which has none


@pytest.mark.kernel
def test_symlinks_point_where_the_oracle_says(case: Case) -> None:
    links = [
        (path, node.target, case.fs.link_target(entry.inode))
        for path, node, entry in case.nodes()
        if entry.inode is not None and node.target is not None and not is_hidden_link(node, entry)
    ]
    agree([Difference(path, "target", want, got) for path, want, got in links if want != got])
    assert len(links) >= 8


@pytest.mark.kernel
def test_paths_are_looked_up_as_they_were_walked(case: Case) -> None:
    chance = random.Random(1)
    paths = sorted(case.built.tree.paths)
    differences = []
    for path in chance.sample(paths, 25):
        expected, got = case.built.tree.paths[path], case.fs.lookup(path)
        if expected != got:
            differences.append(Difference(path, "lookup", expected, got))
    agree(differences)


@pytest.mark.kernel
def test_a_sound_file_system_gives_no_problems(case: Case) -> None:
    for entry in case.found.values():
        assert entry.inode is not None
        case.fs.xattrs(entry.inode) if entry.inode.links_count < 100 else None
    told = [str(one) for one in case.fs.problems if one.severity != "note"]
    assert told == []


@pytest.mark.kernel
def test_encrypted_files_read_as_their_ciphertext(tmp_path: Path) -> None:
    if missing := kernel_missing():
        pytest.skip(missing)
    made = built("encrypt")
    with ext4kit.open(made.image) as image:
        fs = image.volumes[0].filesystem()
        files = [one.inode for one in fs.walk(b"/encrypted") if one.inode and one.inode.size]
        files = [inode for inode in files if inode.kind == "file"]
        for inode in files:
            raw = tmp_path / f"{inode.number}"
            debugfs(made.image, f"dump <{inode.number}> {raw}")
            assert raw.read_bytes() == fs.content(inode).read(0, inode.size)
            assert filling.data("encrypted", inode.size) != raw.read_bytes()
    assert len(files) == 4


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["default", "unreplayed"])
def test_reading_leaves_the_image_as_it_was(name: str) -> None:
    if missing := kernel_missing():
        pytest.skip(missing)
    image_path = built(name).image
    before = hashlib.sha256(image_path.read_bytes()).digest(), image_path.stat().st_mtime_ns
    with ext4kit.open(image_path) as image:
        assert len(list(image.volumes[0].filesystem().walk(b"/"))) > 5000
    after = hashlib.sha256(image_path.read_bytes()).digest(), image_path.stat().st_mtime_ns
    assert after == before


def numbers_at(name: str, path: bytes) -> Numbers:
    """The oracle's fields of one path of a combination."""
    if missing := kernel_missing():
        pytest.skip(missing)
    tree = built(name).tree
    return tree.nodes[tree.paths[path]].numbers


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("name", "request_", "promised"),
    [
        ("large_dir", "htree_dump directories/big", rb"Indirect levels: 2"),
        ("1k_blocks", "htree_dump directories/big", rb"Indirect levels: 1"),
        ("1k_blocks", "ex fragmented/file", rb" 2/ 2 +84/ 84"),
        ("ext3_1k", 'stat "levels/level 3"', rb"\(TIND\)"),
        ("ext2", 'stat "levels/level 3"', rb"\(TIND\)"),
        ("inline_data", "stat sizes/120", rb"Flags: 0x10000000"),
        ("ext3_then_ext4", 'stat "before/levels/level 2"', rb"\(DIND\)"),
        ("ext3_then_ext4", "ex fragmented/file", rb" 0/ \d "),
        ("bigalloc", "ex preallocated/all", rb"Uninit"),
        ("unreplayed", "stats -h", rb"needs_recovery"),
        ("fast_commit", "stats -h", rb"needs_recovery"),
    ],
)
def test_the_images_hold_what_the_matrix_promises(
    name: str, request_: str, promised: bytes
) -> None:
    if missing := kernel_missing():
        pytest.skip(missing)
    answer = debugfs(built(name).image, request_)
    assert re.search(promised, answer), answer[-2000:].decode(errors="replace")


@pytest.mark.kernel
def test_the_matrix_has_times_of_every_epoch() -> None:
    years = {numbers_at("default", b"/times/%d" % n)["mtime"] for n in range(10)}
    assert {-1_000_000_000, -(2**31) * 10**9, 15_032_385_534 * 10**9} <= years


@pytest.mark.kernel
def test_the_matrix_replays_what_was_only_in_the_log() -> None:
    for name in ("unreplayed", "fast_commit"):
        if missing := kernel_missing():
            pytest.skip(missing)
        listed = debugfs(built(name).image, "ls -p /")
        late = [
            p for p in built(name).tree.paths if p.startswith((b"/late", b"/fast", b"/renamed"))
        ]
        assert late
        assert not any(path[1:] in listed for path in late)
