"""Names for what was carved: by the programs that made it, and by file(1) on real files."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import puremagic
import pytest

from ext4kit.filetypes.formats import FORMATS
from ext4kit.filetypes.identify import HEAD_BYTES, Kind, identify, text_encoding
from ext4kit.filetypes.signatures import SIGNATURE_INDEX, match_signatures
from tests.carving.held import found_on_this_machine

SAMPLE = "Grüße, Welt: naïve café, 1 € für 2 Äpfel.\n" * 20


def named(content: bytes) -> Kind:
    """What the content is, by its start alone."""
    row = np.frombuffer(content[:4096].ljust(4096, b"\0"), np.uint8).reshape(1, -1)
    return identify(content[:HEAD_BYTES], int(match_signatures(row)[0]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_the_encoding_of_text_is_the_one_it_was_written_in(encoding: str) -> None:
    raw = SAMPLE.encode(encoding)
    assert text_encoding(raw).replace("utf-8-sig", "utf-8") == encoding.replace("-sig", "")
    assert raw.decode(text_encoding(raw)) == SAMPLE


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "ascii"])
def test_plain_letters_are_known_without_a_mark(encoding: str) -> None:
    assert text_encoding("plain letters only\n".encode(encoding)) == encoding


@pytest.mark.parametrize("before", [SAMPLE.encode(), b"plain letters only "])
@pytest.mark.parametrize("character", ["ä", "€", "😀"])
def test_a_character_cut_off_at_the_end_of_the_head_does_not_matter(
    before: bytes, character: str
) -> None:
    whole = before + character.encode()
    for gone in range(1, len(character.encode())):
        assert text_encoding(whole[:-gone]) == text_encoding(whole) == "utf-8"


def test_bytes_of_every_kind_are_no_text() -> None:
    assert text_encoding(bytes(range(256))) == ""


@pytest.mark.parametrize(
    ("member", "extension"),
    [("META-INF/MANIFEST.MF", ".jar"), ("word/document.xml", ".docx"), ("notes", ".zip")],
)
def test_archives_are_named_by_what_they_hold(member: str, extension: str) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(member, "content")
    assert named(held.getvalue()).extension == extension


def test_documents_that_name_their_type_are_believed() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
    assert named(held.getvalue()).mime == "application/vnd.oasis.opendocument.text"


def test_databases_streams_programs_and_scripts_have_their_extension(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a") as base:
        base.execute("create table t (a)")
    base.close()
    assert named((tmp_path / "a").read_bytes()).extension == ".sqlite"
    assert named(gzip.compress(b"a")).extension == ".gz"
    assert named(b"#!/usr/bin/env python3\nprint(1)\n").extension == ".py"
    assert named(b"#!/bin/sh\nexit 0\n") == Kind(".sh", "text/x-shellscript", "ascii")
    assert named(json.dumps({"a": [1, 2]}).encode()).mime == "application/json"
    assert named(b"[" * 60_000).extension == ".txt"
    assert named(b"just words\n") == Kind(".txt", "text/plain", "ascii")
    assert named(b"\x07\x01\x02\x00\x99" * 50).extension == ".bin"


@pytest.mark.parametrize(
    ("head", "number", "extension"),
    [
        (b"BM is a short name\n", "bmp", ".txt"),
        (b"SQLite format 2 was text\n", "sqlite", ".txt"),
        (b"%PDF-1.4\n1 0 obj\n", "pdf", ".pdf"),
        (b"!<arch>\nnote/           0           0     0     644     5         `\n", "ar", ".a"),
    ],
)
def test_text_that_begins_like_a_binary_format_is_text(
    head: bytes, number: str, extension: str
) -> None:
    assert identify(head, SIGNATURE_INDEX[number]).extension == extension


def test_every_signature_has_a_name_for_its_files() -> None:
    """Those without a fixed one: what it is depends on more than the signature."""
    looked_into = {"elf", "ole", "zip", "hwdb", "font", "mp4", "riff", "aiff", "script"}
    looked_into |= {"utf-16", "utf-32"}
    assert {one.name for one in FORMATS if not isinstance(one.kind, tuple)} == looked_into


def test_the_library_is_not_imported_before_it_is_needed() -> None:
    asked = "import ext4kit.filetypes.identify, sys; print('puremagic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


MIMES = {  # suffix of real files -> what file(1) may call them
    ".png": {"image/png"},
    ".gz": {"application/gzip"},
    ".so": {"application/x-sharedlib", "application/x-pie-executable"},
    ".svg": {"image/svg+xml"},
    ".mo": {"application/x-gettext-translation"},
    ".ttf": {"font/sfnt", "font/ttf"},
}


@pytest.mark.heavy
@pytest.mark.parametrize("suffix", sorted(MIMES))
def test_real_files_are_what_another_tool_says(suffix: str) -> None:
    if not shutil.which("file"):
        pytest.skip("needs file")
    paths = found_on_this_machine((suffix,), 10)
    command = ["file", "-b", "--mime-type", "--", *map(str, paths)]
    said = (
        subprocess.run(command, capture_output=True, text=True).stdout.splitlines() if paths else []
    )
    judged = [path for path, told in zip(paths, said, strict=True) if told in MIMES[suffix]]
    if not judged:  # a suffix can lie
        pytest.skip(f"no {suffix} files here")
    wrong = [path for path in judged if named(path.read_bytes()).mime not in MIMES[suffix]]
    assert wrong == []


def test_a_head_is_looked_up_once_however_often_its_kind_is_asked_for() -> None:
    head = b"Rar!\x1a\7\0" + bytes(range(256)) * 16
    with mock.patch.object(puremagic, "magic_string", wraps=puremagic.magic_string) as library:
        assert len({identify(bytes(bytearray(head))) for _ in range(3)}) == 1
    assert library.call_count == 1
