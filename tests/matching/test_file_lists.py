"""Lists of files as the programs write them that own the formats, and lists that lie."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4kit.matching.file_lists import (
    MAX_LIST_BYTES,
    DigestKind,
    ListedFile,
    digest_of,
    list_reader,
)

FILES = {
    b"a/one.txt": b"one\n" * 40,
    b"a/b/two.bin": bytes(range(256)) * 9,
    b"three words.md": b"# three\n" * 30,
}
SIZES = frozenset(map(len, FILES.values()))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path, data in FILES.items():
        target = root / path.decode()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root


def listed(path: bytes, data: bytes, sizes: frozenset[int] = SIZES) -> list[ListedFile]:
    reader = list_reader(path)
    assert reader is not None
    return list(reader(io.BytesIO(data), sizes))


def are_right(found: list[ListedFile], below: bytes = b"") -> bool:
    """Whether all files are there, each with the digest of its content."""
    values = {one.path.removeprefix(below): one for one in found}
    return values.keys() == FILES.keys() and all(
        one.value == digest_of(io.BytesIO(FILES[path]), len(FILES[path]), one.digest)
        and one.size in (None, len(FILES[path]))
        for path, one in values.items()
    )


@pytest.mark.parametrize(
    ("program", "digest"),
    [("md5sum", DigestKind.MD5), ("sha1sum", DigestKind.SHA1), ("sha256sum", DigestKind.SHA256)],
)
def test_checksum_lists_of_coreutils_are_read(tree: Path, program: str, digest: DigestKind) -> None:
    done = subprocess.run(
        [program, *(path.decode() for path in FILES)], cwd=tree, capture_output=True, check=True
    )
    found = listed(b"/x/" + program.upper().encode() + b"S", done.stdout)
    assert are_right(found)
    assert {one.digest for one in found} == {digest}


def test_the_index_of_git_gives_object_id_size_time_and_inode(tree: Path) -> None:
    for step in (["init", "-q"], ["add", "-A", "."]):
        subprocess.run(["git", *step], cwd=tree, check=True, capture_output=True)
    index = tree / ".git/index"
    found = listed(b"/home/anna/src/.git/index", index.read_bytes())
    assert are_right(found)
    for one in found:
        path = tree / one.path.decode()
        said = subprocess.run(["git", "hash-object", path], capture_output=True, check=True)
        assert one.value.hex() == said.stdout.decode().strip()
        assert one.time == path.stat().st_ctime_ns
        assert one.inode == path.stat().st_ino % (1 << 32)


def test_members_of_zip_and_tar_archives_are_listed(tree: Path) -> None:
    archive = tree.parent / "made.tar"
    subprocess.run(["tar", "-cf", archive, "-C", tree.parent, "tree"], check=True)
    assert are_right(listed(b"/made.tar", archive.read_bytes()), b"tree/")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        for path, data in FILES.items():
            made.writestr(path.decode(), data)
    assert are_right(listed(b"/made.zip", written.getvalue()))


def test_the_record_of_a_wheel_is_read(tree: Path) -> None:
    pip = subprocess.run(
        ["sh", "-c", 'for f in a/one.txt a/b/two.bin "three words.md"; do openssl dgst -sha256'
         ' -binary "$f" | basenc --base64url | tr -d "=\\n"; echo; done'],
        cwd=tree, capture_output=True, check=True,
    )  # fmt: skip
    rows = zip(FILES, pip.stdout.decode().split(), strict=True)
    lines = [f"{path.decode()},sha256={value},{len(FILES[path])}\n" for path, value in rows]
    text = "".join([*lines, "x.dist-info/RECORD,,\n"]).encode()
    assert are_right(listed(b"/lib/x.dist-info/RECORD", text))


def test_only_members_of_the_sizes_of_contents_are_read() -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as made:
        for path, data in FILES.items():
            member = tarfile.TarInfo(path.decode())
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    some = frozenset([len(FILES[b"a/one.txt"])])
    assert [one.path for one in listed(b"/x.tar", written.getvalue(), some)] == [b"a/one.txt"]


@pytest.mark.parametrize("path", [b"../../etc/passwd", b"a/../../b", b"..", b"/..", b"./..//x"])
def test_a_path_that_leads_upwards_is_left_out(path: bytes) -> None:
    line = b"0" * 32 + b"  " + path + b"\n"
    assert listed(b"/var/lib/dpkg/info/x.md5sums", line) == []


def test_absolute_paths_and_empty_parts_become_relative_ones() -> None:
    line = b"0" * 32 + b"  /usr//share/./doc/x\n"
    assert [one.path for one in listed(b"/MD5SUMS", line)] == [b"usr/share/doc/x"]


def test_small_members_of_zip_archives_prove_nothing() -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr("py.typed", b"partial\n")
    assert listed(b"/x.whl", written.getvalue(), frozenset([8])) == []


@pytest.mark.parametrize("name", [b"/x.zip", b"/x.tar"])
def test_no_archive_has_more_read_at_a_time_than_a_list_may_have(name: bytes) -> None:
    class Endless(io.BytesIO):
        """Notes the largest read that was asked for."""

        most = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.most = max(self.most, 1 << 60 if size is None or size < 0 else size)
            return super().read(min(size or 0, 1 << 16))

    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 0xFFFFFFF0, 0, 0)
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    stream = Endless(end if name == b"/x.zip" else member.tobuf(tarfile.GNU_FORMAT) + bytes(9999))
    reader = list_reader(name)
    assert reader is not None
    assert list(reader(stream, SIZES)) == []
    assert 0 < stream.most <= MAX_LIST_BYTES


def _lists(tree: Path) -> Iterator[tuple[bytes, bytes]]:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True, capture_output=True)
    subprocess.run(["git", "add", "-A", "."], cwd=tree, check=True, capture_output=True)
    yield b"/x/.git/index", (tree / ".git/index").read_bytes()
    for name, mode in ((b"/x.tar", "w"), (b"/x.zip", "")):
        written = io.BytesIO()
        if mode:
            with tarfile.open(fileobj=written, mode="w") as made:
                made.add(tree / "a", "a")
        else:
            with zipfile.ZipFile(written, "w") as archive:
                archive.write(tree / "a/b/two.bin", "two.bin")
        yield name, written.getvalue()
    yield b"/SHA256SUMS", b"".join(b"%064x  f%d\n" % (at, at) for at in range(50))
    yield b"/x.dist-info/RECORD", b"a,sha256=%s,160\n" % (b"A" * 43) * 20


def test_damaged_lists_end_and_raise_nothing(tree: Path) -> None:
    chance = random.Random(1)
    for path, data in _lists(tree):
        for _ in range(120):
            broken = bytearray(data[: chance.randrange(len(data) + 1)])
            for _ in range(min(len(broken), 4)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            listed(path, bytes(broken))


@pytest.mark.parametrize("path", [b"/x/index", b"/RECORD", b"/a.txt", b"/sums.c", b"/checksums"])
def test_other_files_are_no_lists(path: bytes) -> None:
    assert list_reader(path) is None
