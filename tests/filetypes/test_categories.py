"""Categories of files that other programs wrote."""

from __future__ import annotations

import email.message
import io
import logging
import mailbox
import sqlite3
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from ext4kit.filetypes.categories import Category, category_of, has_type, identify_head


def _category(head: bytes, name: bytes = b"") -> Category | None:
    return category_of(identify_head(head), head, name)


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    header = (1).to_bytes(4) + (1).to_bytes(4) + bytes([8, 0, 0, 0, 0])
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _archives() -> list[bytes]:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a", "text")
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a"))
    return [zipped.getvalue(), tarred.getvalue()]


def test_contents_of_other_programs(tmp_path: Path) -> None:
    assert _category(_png()) is Category.PICTURES
    for archive in _archives():
        assert _category(archive) is Category.ARCHIVES
    with sqlite3.connect(tmp_path / "a.db") as base:
        base.execute("CREATE TABLE t (a)")
    assert _category((tmp_path / "a.db").read_bytes()) is Category.DATABASES
    if sys.platform == "linux":
        program = Path(sys.executable).resolve().read_bytes()[:65_536]
        assert _category(program) is Category.EXECUTABLES


def test_text_by_its_first_lines_and_its_name(tmp_path: Path) -> None:
    message = email.message.EmailMessage()
    message["Received"], message["From"] = "from a by b; Mon, 1 Jan 2026 00:00:00 +0000", "a@b.org"
    message.set_content("text\n")
    assert _category(bytes(message)) is Category.MAIL
    box = mailbox.mbox(tmp_path / "box")
    box.add(message)
    box.close()
    assert _category((tmp_path / "box").read_bytes()) is Category.MAIL
    log = tmp_path / "log"
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.emit(logging.LogRecord("a", logging.INFO, "", 0, "text", (), None))
    handler.close()
    assert _category(log.read_bytes()) is Category.LOGS
    assert _category(b"Nov  4 10:00:01 host daemon[1]: text\n") is Category.LOGS
    access = b'192.0.2.1 - - [04/Nov/2026:10:00:01 +0000] "GET / HTTP/1.1" 200 1\n'
    assert _category(access) is Category.LOGS
    assert _category(b"#!/usr/bin/env python3\nprint()\n") is Category.CODE
    assert _category(b"int main(void) { return 0; }\n", b"a.c") is Category.CODE
    assert _category(b"Dear Sir,\n", b"letter") is Category.DOCUMENTS
    assert _category(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n") is Category.DOCUMENTS


@pytest.mark.parametrize("head", [b"\x93\x01\xff\xfe" * 64, bytes(4096)])
def test_unknown_content_is_of_no_category(head: bytes) -> None:
    assert _category(head) is None
    assert not has_type(head, b"a.jpg", [Category.PICTURES], ["image/*"])


def test_a_type_is_one_of_the_categories_or_of_the_patterns() -> None:
    assert has_type(_png(), b"", [], ["image/p*"])
    assert has_type(_png(), b"", [Category.PICTURES], ["text/*"])
    assert not has_type(_png(), b"", [Category.MAIL], ["text/*"])
    assert not has_type(b"", b"a.png", [Category.PICTURES], ["*/*"])
