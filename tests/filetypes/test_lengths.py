"""What a format says of its own length is how long the program that wrote it made the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import py_compile
import random
import shutil
import sqlite3
import struct
import subprocess
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.linalg import _umath_linalg

from ext4kit.filetypes.signatures import SIGNATURE_NAMES, match_signatures
from tests.carving.held import BLOCK, found_on_this_machine, length

WORDS = b"the quick brown fox jumps over the lazy dog\n"
RANDOM = random.Random(9).randbytes(50_000)


def stated(kind: str, made: bytes) -> int:
    """The stated length, with zeros and another file behind the content."""
    behind = bytes(-len(made) % BLOCK) + WORDS * 300
    told = length(kind, made + behind)
    head = np.frombuffer(made[:BLOCK].ljust(BLOCK, b"\0"), np.uint8).reshape(1, -1)
    assert SIGNATURE_NAMES[match_signatures(head)[0]] == kind
    return told.size if told else -1


@pytest.mark.parametrize(
    ("kind", "pack"), [("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)]
)
@pytest.mark.parametrize("content", [b"", WORDS, WORDS * 9000, RANDOM, RANDOM + WORDS * 50])
def test_compressed_streams_end_where_the_compressor_stopped(
    kind: str, pack: Callable[[bytes], bytes], content: bytes
) -> None:
    made = pack(content)
    assert stated(kind, made) == len(made)
    assert stated(kind, made + pack(WORDS)) == len(made + pack(WORDS))


@pytest.mark.parametrize("tool", ["zstd", "lz4"])
@pytest.mark.parametrize("content", [b"", WORDS * 9000, RANDOM])
def test_frames_end_where_the_program_stopped(tool: str, content: bytes) -> None:
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    made = subprocess.run([tool, "-c"], input=content, capture_output=True, check=True).stdout
    assert stated(tool, made) == len(made)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_ends_at_its_own_end_record(method: int) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", method) as archive:
        archive.writestr("a", WORDS * 200)
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("inner.zip", inner.getvalue())  # has an end record of its own
        archive.writestr("b", RANDOM)
        archive.comment = b"made for a test"
    assert stated("zip", outer.getvalue()) == len(outer.getvalue())


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_archive_ends_behind_its_padding(form: int) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        for name in ("a", "folder/" + "n" * 80, "ü"):
            member = tarfile.TarInfo(name)
            member.size = len(WORDS) * 70
            archive.addfile(member, io.BytesIO(WORDS * 70))
    assert stated("tar", held.getvalue()) == len(held.getvalue())


@pytest.mark.parametrize("page", [512, 4096, 65536])
def test_a_database_is_as_long_as_its_pages(tmp_path: Path, page: int) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as base:
        base.execute(f"pragma page_size = {page}")
        base.execute("create table notes (id integer primary key, body blob)")
        base.executemany("insert into notes (body) values (?)", [(RANDOM[:900],)] * 400)
        base.execute("delete from notes where id % 3 = 0")
    base.close()
    assert stated("sqlite", path.read_bytes()) == path.stat().st_size


def test_compiled_python_ends_behind_its_code(tmp_path: Path) -> None:
    for number, source in enumerate((Path(struct.__file__), Path(tarfile.__file__))):
        made = tmp_path / f"{number}.pyc"
        py_compile.compile(str(source), cfile=str(made), doraise=True)
        assert stated("pyc", made.read_bytes()) == made.stat().st_size


@pytest.mark.parametrize("options", [[], ["-s"], ["-c"], ["-shared", "-fPIC"], ["-static"], ["-g"]])
def test_programs_end_behind_their_tables(tmp_path: Path, options: list[str]) -> None:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    source, made = tmp_path / "a.c", tmp_path / "a.out"
    source.write_text('#include <stdio.h>\nint main(void){puts("hello");return 0;}\n')
    subprocess.run(["gcc", *options, "-o", made, source], check=True, capture_output=True)
    assert stated("elf", made.read_bytes()) == made.stat().st_size


def test_an_archive_of_objects_ends_behind_its_last_member(tmp_path: Path) -> None:
    if not shutil.which("ar"):
        pytest.skip("needs ar")
    for name, size in (("one", 33), ("a" * 40, 1000), ("odd", 7)):
        (tmp_path / name).write_bytes(RANDOM[:size])
    made = tmp_path / "all.a"
    subprocess.run(["ar", "rc", made, *sorted(tmp_path.iterdir())], check=True)
    assert stated("ar", made.read_bytes()) == made.stat().st_size


def test_sound_ends_where_the_writer_stopped(tmp_path: Path) -> None:
    made = tmp_path / "a.wav"
    with wave.open(str(made), "wb") as sound:
        sound.setparams((2, 2, 44100, 0, "NONE", ""))
        sound.writeframes(RANDOM[:40_000])
    assert stated("riff", made.read_bytes()) == made.stat().st_size


def test_a_cpio_archive_ends_behind_its_padding(tmp_path: Path) -> None:
    if not shutil.which("cpio"):
        pytest.skip("needs cpio")
    (tmp_path / "a").write_bytes(RANDOM)
    command = ["cpio", "-o", "-H", "newc", "--quiet"]
    made = subprocess.run(command, input=b"a\n", cwd=tmp_path, capture_output=True, check=True)
    assert stated("cpio", made.stdout) == len(made.stdout)


def test_a_git_pack_and_its_index_end_behind_their_hashes(tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(WORDS * (number + 1) + RANDOM[:100])
    for command in (
        "init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a", "gc -q"
    ):  # fmt: skip
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    for kind, suffix in (("git-pack", "*.pack"), ("git-index", "*.idx")):
        (made,) = (tmp_path / ".git/objects/pack").glob(suffix)
        assert stated(kind, made.read_bytes()) == made.stat().st_size


def _chunk(name: bytes, body: bytes) -> bytes:
    checked = name + body
    return len(body).to_bytes(4, "big") + checked + zlib.crc32(checked).to_bytes(4, "big")


KINDS_ON_DISK = {
    "png": (".png",),
    "jpeg": (".jpg", ".jpeg"),
    "gif": (".gif",),
    "pdf": (".pdf",),
    "font": (".ttf", ".otf"),
    "mo": (".mo",),
    "elf": (".so",),
    "gzip": (".gz",),
    "pyc": (".pyc",),
    "zip": (".jar", ".whl", ".zip"),
    "ogg": (".ogg", ".oga"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS_ON_DISK))
def test_files_of_this_machine_are_as_long_as_they_say(kind: str) -> None:
    files = found_on_this_machine(KINDS_ON_DISK[kind], 200, 8 << 20)
    if not files:
        pytest.skip(f"no {kind} files here")
    wrong, asked = [], 0
    for path in files:
        made = path.read_bytes()
        head = np.frombuffer(made[:BLOCK].ljust(BLOCK, b"\0"), np.uint8).reshape(1, -1)
        if SIGNATURE_NAMES[match_signatures(head)[0]] != kind:
            continue  # a suffix says little; that most are known is asked below
        asked += 1
        told = length(kind, made + bytes(-len(made) % BLOCK))
        if told is None or told.size != len(made):
            wrong.append((path, len(made), told))
    assert asked > len(files) // 2
    assert len(wrong) <= asked // 20, wrong


def test_the_header_walk_of_a_picture_needs_no_decoder() -> None:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    rows = _chunk(b"IDAT", zlib.compress(bytes(72)))
    made = b"\x89PNG\r\n\x1a\n" + header + rows + _chunk(b"IEND", b"")
    assert stated("png", made) == len(made)


def test_a_cut_off_file_says_nothing() -> None:
    for kind, made in (("gzip", gzip.compress(RANDOM)), ("bzip2", bz2.compress(RANDOM))):
        assert length(kind, made[: len(made) // 2]) is None
    library = Path(_umath_linalg.__file__).read_bytes()
    assert length("elf", library) is not None
    assert length("elf", library[: 1 << 14]) is None


FFMPEG = ("ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi")
SOUND, PICTURE = "anoisesrc=d=2:a=0.3:seed=7", "testsrc2=s=320x240:d=2,noise=alls=30:allf=t"


@pytest.mark.parametrize(
    ("kind", "name", "source", "options"),
    [
        ("flac", "a.flac", SOUND, ("-c:a", "flac")),
        ("ogg", "a.ogg", SOUND, ("-c:a", "libvorbis")),
        ("mp3", "a.mp3", SOUND, ("-c:a", "libmp3lame")),
        ("mpeg-ts", "a.ts", PICTURE, ("-c:v", "mpeg2video")),
        ("mpeg-ps", "a.vob", PICTURE, ("-c:v", "mpeg2video", "-f", "vob")),
        ("flv", "a.flv", PICTURE, ("-c:v", "flv")),
        ("asf", "a.wmv", PICTURE, ("-c:v", "wmv2")),
        ("mp4", "a.mp4", PICTURE, ("-c:v", "mpeg4")),
    ],
)
def test_media_end_where_ffmpeg_stopped(
    tmp_path: Path, kind: str, name: str, source: str, options: tuple[str, ...]
) -> None:
    if not shutil.which("ffmpeg"):
        pytest.skip("needs ffmpeg")
    made = tmp_path / name
    subprocess.run([*FFMPEG, "-i", source, *options, made], check=True)
    assert stated(kind, made.read_bytes()) == made.stat().st_size


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("qcow2", ("-O", "qcow2")),
        ("qcow2", ("-c", "-O", "qcow2")),
        ("vmdk", ("-O", "vmdk")),
        ("vdi", ("-O", "vdi")),
    ],
)
def test_images_of_disks_end_where_qemu_stopped(
    tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    if not shutil.which("qemu-img"):
        pytest.skip("needs qemu-img")
    disk, made = tmp_path / "disk", tmp_path / "made"
    with disk.open("wb") as file:
        for at in (0, 5 << 20, 40 << 20):
            file.seek(at)
            file.write(RANDOM * 20)
        file.truncate(64 << 20)
    subprocess.run(["qemu-img", "convert", *options, disk, made], check=True)
    assert stated(kind, made.read_bytes()) == made.stat().st_size


def test_a_picture_of_photoshop_ends_where_imagemagick_stopped(tmp_path: Path) -> None:
    if not (program := shutil.which("convert", path="/usr/bin")):
        pytest.skip("needs ImageMagick")
    made = tmp_path / "a.psd"
    subprocess.run([program, "-size", "64x64", "plasma:", made], check=True)
    assert stated("psd", made.read_bytes()) == made.stat().st_size


def test_a_picture_with_restarts_has_them_in_order(tmp_path: Path) -> None:
    if not (shutil.which("jpegtran") and shutil.which("convert", path="/usr/bin")):
        pytest.skip("needs jpegtran and ImageMagick")
    plain, made = tmp_path / "a.jpg", tmp_path / "b.jpg"
    subprocess.run(["/usr/bin/convert", "-size", "640x640", "plasma:", plain], check=True)
    subprocess.run(["jpegtran", "-restart", "1", "-outfile", made, plain], check=True)
    content = made.read_bytes()
    assert stated("jpeg", content) == len(content)
    third = content.index(b"\xff\xd2")
    assert stated("jpeg", content[:third] + content[third + 2 :]) == -1
