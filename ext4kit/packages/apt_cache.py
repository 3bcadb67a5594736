"""The digests in the archives of packages that apt keeps, in /var/cache/apt/archives.

Source: deb(5): an `ar` archive with `control.tar`, in which `md5sums` is.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator

from ext4kit.packages.dpkg import md5sums
from ext4kit.packages.owned import text_of
from ext4kit.packages.roots import SystemRoot

_FOLDER = b"var/cache/apt/archives"
_NAME = re.compile(rb"([a-z0-9][a-z0-9+.-]+)_([^_]+)_[^_]+\.deb")
_MAGIC, _HEADER = b"!<arch>\n", 60
_MOST_READ = 1 << 20  # bytes of an archive; control.tar is at its start
_MOST_CONTROL = 64 << 20  # bytes, unpacked
_ERRORS = (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, tarfile.TarError)


def digests_in_cache(root: SystemRoot) -> Iterator[tuple[str, str, dict[bytes, bytes]]]:
    """(package, version, MD5 by path) of each archive; one that is damaged is left out."""
    names = [one.name for one in root.listing(_FOLDER) if _NAME.fullmatch(one.name)]
    for name, data in root.contents(_FOLDER, names, _MOST_READ):
        match = _NAME.fullmatch(name)
        digests = _digests(data)
        if match is not None and digests:
            version = match[2].replace(b"%3a", b":")
            yield text_of(match[1]), text_of(version), digests


def _digests(data: bytes) -> dict[bytes, bytes]:
    for name, member in _members(data):
        if name.startswith(b"control.tar"):
            try:
                return _md5sums_of(_unpacked(name, member))
            except _ERRORS:
                return {}
    return {}


def _members(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(name, content) of the members of an `ar` archive."""
    at = len(_MAGIC)
    while data.startswith(_MAGIC) and at + _HEADER <= len(data):
        header = data[at : at + _HEADER]
        text = header[48:58].strip()
        if not text.isdigit():
            return
        start, size = at + _HEADER, int(text)
        yield header[:16].strip().rstrip(b"/"), data[start : start + size]
        at = start + size + size % 2


def _unpacked(name: bytes, data: bytes) -> bytes:
    if name.endswith(b".xz"):
        return lzma.LZMADecompressor(memlimit=256 << 20).decompress(data, _MOST_CONTROL)
    if name.endswith(b".gz"):
        return zlib.decompressobj(31).decompress(data, _MOST_CONTROL)
    if name.endswith(b".zst"):
        try:
            from zstandard import ZstdDecompressor
        except ImportError:
            return b""
        with ZstdDecompressor().stream_reader(data) as stream:
            return stream.read(_MOST_CONTROL)
    return data


def _md5sums_of(data: bytes) -> dict[bytes, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.name.removeprefix("./") == "md5sums" and member.isreg():
                file = archive.extractfile(member)
                return {} if file is None else md5sums(file.read(_MOST_CONTROL))
    return {}
