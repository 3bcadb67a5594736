"""Categories of file types that a user can select: pictures, documents, mail and so on.

The type is identified from the content (`identify`). Text shows little of its purpose, so its
category is decided by the extension of the name and by the first lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from fnmatch import fnmatchcase
from mimetypes import guess_type
from pathlib import PurePosixPath

import numpy as np

from ext4kit.filetypes.identify import Kind, identify
from ext4kit.filetypes.signatures import match_signatures

_COMPARED = 4096  # bytes at the start of a content in which signatures are searched


class Category(StrEnum):
    """A category of file types."""

    PICTURES = "pictures"
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENTS = "documents"
    ARCHIVES = "archives"
    DATABASES = "databases"
    MAIL = "mail"
    CODE = "code"
    LOGS = "logs"
    EXECUTABLES = "executables"


_MIMES = {  # glob patterns
    Category.PICTURES: ("image/*",),
    Category.AUDIO: ("audio/*", "application/ogg"),
    Category.VIDEO: ("video/*",),
    Category.DOCUMENTS: (
        "application/pdf", "application/rtf", "application/postscript", "application/msword",
        "application/vnd.openxmlformats-*", "application/vnd.oasis.opendocument.*",
        "application/vnd.ms-*", "application/epub+zip", "application/x-ole-storage",
    ),
    Category.ARCHIVES: (
        "application/zip", "application/gzip", "application/x-bzip2", "application/x-xz",
        "application/x-zstd", "application/x-lz4", "application/x-7z-compressed",
        "application/vnd.ms-cab-compressed", "application/x-cpio", "application/x-rpm",
        "application/x-tar", "application/java-archive", "application/x-archive",
        "application/vnd.rar", "application/x-rar*", "application/vnd.squashfs",
        "application/vnd.debian.binary-package",
    ),
    Category.DATABASES: (
        "application/vnd.sqlite3", "application/x-gdbm", "application/x-berkeley-db",
        "application/x-msaccess", "application/vnd.dbf",
    ),
    Category.MAIL: ("message/*", "application/mbox", "application/vnd.ms-outlook"),
    Category.CODE: (
        "text/x-*", "text/javascript", "application/x-python-code", "application/java-vm",
        "application/json",
    ),
    Category.LOGS: ("application/x-systemd-journal",),
    Category.EXECUTABLES: (
        "application/x-executable", "application/x-pie-executable", "application/x-sharedlib",
        "application/vnd.microsoft.portable-executable", "application/x-dex", "application/wasm",
    ),
}  # fmt: skip
_EXTENSIONS = {  # extensions of text files, whose content does not show the category
    Category.CODE: frozenset({
        "awk", "bat", "c", "cc", "cpp", "cs", "css", "cxx", "go", "h", "hpp", "htm", "html", "java",
        "js", "json", "jsx", "kt", "lua", "m", "mjs", "php", "pl", "pm", "ps1", "py", "r", "rb",
        "rs", "s", "scala", "sh", "sql", "swift", "tcl", "toml", "ts", "tsx", "vb", "vue", "xml",
        "yaml", "yml",
    }),
    Category.LOGS: frozenset({"log"}),
    Category.MAIL: frozenset({"eml", "mbox"}),
}  # fmt: skip
_MAIL = re.compile(rb"(From |Return-Path:|Delivered-To:|Received:|Message-ID:)[^\n]+\n", re.I)
_LOG = re.compile(
    rb"[\[<(]?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )|[^\n]{7,60}"
    rb"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:"
)


def identify_head(head: bytes) -> Kind:
    """The type of a file, identified from the start of its content; `head` must not be empty."""
    block = np.frombuffer(head[:_COMPARED].ljust(_COMPARED, b"\0"), np.uint8)
    return identify(head, int(match_signatures(block[None])[0]))


def category_of(kind: Kind, head: bytes, name: bytes) -> Category | None:
    """The category of a file; None if it belongs to no category."""
    if kind.encoding and (found := _category_of_text(head, name)):
        return found
    for category, mimes in _MIMES.items():
        if any(fnmatchcase(kind.mime, mime) for mime in mimes):
            return category
    return Category.DOCUMENTS if kind.encoding else None


def category_of_name(name: bytes) -> Category | None:
    """The category that the extension of a name stands for; None if the extension is unknown."""
    text = name.decode("latin-1").lower()
    suffix = PurePosixPath(text).suffix[1:]
    for category, suffixes in _EXTENSIONS.items():
        if suffix in suffixes:
            return category
    mime = guess_type(f"x.{suffix}")[0] or ""
    for category, mimes in _MIMES.items():
        if any(fnmatchcase(mime, each) for each in mimes):
            return category
    return Category.DOCUMENTS if mime.startswith("text/") else None


def _category_of_text(head: bytes, name: bytes) -> Category | None:
    suffix = PurePosixPath(name.decode("latin-1")).suffix[1:].lower()
    for category, suffixes in _EXTENSIONS.items():
        if suffix in suffixes:
            return category
    if _MAIL.match(head):
        return Category.MAIL
    return Category.LOGS if _LOG.match(head) else None


def has_type(
    head: bytes, name: bytes, categories: Collection[Category], mimes: Collection[str]
) -> bool:
    """Whether a file has one of the categories, or a MIME type that matches one of the globs.

    Args:
        head: start of the content; a file without content has no type.
        name: name of the file, b"" if unknown.
        categories: the categories to test.
        mimes: glob patterns of MIME types.
    """
    if not head:
        return False
    kind = identify_head(head)
    by_mime = any(fnmatchcase(kind.mime, mime) for mime in mimes)
    return by_mime or bool(categories and category_of(kind, head, name) in categories)
