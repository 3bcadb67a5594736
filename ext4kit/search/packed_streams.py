"""Streams of packed files and of what is in them: gzip, xz, bzip2, zstd and deflate, with bounds.

A stream has `read` alone. What precedes damage is still read; then the damage is raised.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import IO, NamedTuple, Protocol, cast

from ext4kit.errors import AccessError, Ext4kitError
from ext4kit.filetypes.formats import BY_NAME

PIECE = 256 << 10  # bytes unpacked at a time
HEAD = 512  # bytes that tell what a stream is
COMPRESSED = ("gzip", "bzip2", "xz", "zstd")
PACKED = (*COMPRESSED, "tar", "zip", "sqlite")
_READ = 4 << 10  # packed bytes at a time; of these all can be lost to damage
_MOST_MEMORY = 256 << 20  # bytes for a dictionary or window
_ZSTD_WINDOW = 128 << 20  # bytes
_LZMA_PROPERTIES = 5  # bytes


class NotUnpackedError(Ext4kitError):
    """Something cannot be unpacked, or not to its end; the text says why."""


class Reader(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class PackedPart(NamedTuple):
    """Something that a packed file holds.

    Attributes:
        name: of the member.
        stream: its bytes, which are read before the next part is asked for.
        base: byte in the packed file, if they are stored there as they are.
        refusal: why there is no stream.
    """

    name: str
    stream: Reader | None
    base: int | None = None
    refusal: str = ""


def packing_of(head: bytes) -> str:
    """The name of the format that can be unpacked; "" for others.

    Args:
        head: the first `HEAD` bytes.
    """
    for name in PACKED:
        one = BY_NAME[name]
        if any(head.startswith(start.magic) for start in one.magics) or any(
            all(head[at : at + len(magic)] == magic for at, magic in parts) for parts in one.inside
        ):
            return name
    return ""


class Pieces:
    """A stream of pieces that are made when they are read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, of one piece."""
        while not self._rest:
            more = next(self._pieces, None)
            if more is None:
                return b""
            self._rest = more
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def read_fully(stream: Reader, size: int) -> bytes:
    """`size` bytes; fewer at the end."""
    parts, left = [], size
    while left and (data := stream.read(min(left, PIECE))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


class _Decoder(Protocol):
    """What `lzma` and `bz2` have."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Inflater:
    """Deflate, with the interface of `lzma` and `bz2`.

    Args:
        bits: format of the stream, as for `zlib.decompressobj`.
    """

    def __init__(self, bits: int) -> None:
        self._decoder, self._rest, self.needs_input = zlib.decompressobj(bits), b"", True

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        found = self._decoder.decompress(self._rest + data, max_length)
        self._rest = self._decoder.unconsumed_tail
        self.needs_input = not self._rest and len(found) < max_length
        return found


def _xz() -> _Decoder:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY)


_STREAMS: dict[str, Callable[[], _Decoder]] = {
    "gzip": lambda: _Inflater(31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": _xz,
}
_ONE_STREAM: dict[str, Callable[[], _Decoder]] = {
    "deflate": lambda: _Inflater(-15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": _xz,
}


def decompressed(stream: Reader, kind: str) -> Iterator[bytes]:
    """The pieces of a compressed file, all of its streams.

    Raises:
        NotUnpackedError: it is damaged, or needs too much memory or a missing library.
    """
    if kind == "zstd":
        return _with_zstd(stream)
    return _decoded(stream, _STREAMS[kind], is_single=False)


def decompressed_member(stream: Reader, method: str) -> Iterator[bytes]:
    """The pieces of a member of an archive: deflate, bzip2, xz, zstd or lzma.

    Raises:
        NotUnpackedError: as `decompressed`.
    """
    if method == "zstd":
        return _with_zstd(stream)
    if method == "lzma":
        return _decoded(stream, lambda: _zip_lzma(stream), is_single=True)
    return _decoded(stream, _ONE_STREAM[method], is_single=True)


def _zip_lzma(stream: Reader) -> _Decoder:
    """LZMA as zip archives have it (APPNOTE.TXT, 5.8.8): version, size and properties first."""
    head = read_fully(stream, 4 + _LZMA_PROPERTIES)
    window = int.from_bytes(head[5:9], "little")
    if len(head) < 9 or head[2:4] != b"\5\0" or window > _MOST_MEMORY or head[4] >= 9 * 5 * 5:
        raise NotUnpackedError("its LZMA properties are damaged or need too much memory")
    rest, lc = divmod(head[4], 9)
    pb, lp = divmod(rest, 5)
    if lc + lp > 4:
        raise NotUnpackedError("its LZMA properties are not valid")
    form = {"id": lzma.FILTER_LZMA1, "dict_size": max(window, 4096), "lc": lc, "lp": lp, "pb": pb}
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[form])


def _decoded(stream: Reader, make: Callable[[], _Decoder], is_single: bool) -> Iterator[bytes]:
    """The pieces of one stream, or of several with zeros between them."""
    decoder, done = make(), 0
    try:
        while True:
            given = b""
            if decoder.eof:
                given = b"" if is_single else decoder.unused_data or stream.read(_READ)
                given = given.lstrip(b"\0")
                if not given:
                    return
                decoder = make()
            elif decoder.needs_input:
                given = stream.read(_READ)
                if not given:
                    raise NotUnpackedError(f"it ends within its data, after {done:,} bytes")
            if piece := decoder.decompress(given, PIECE):
                done += len(piece)
                yield piece
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        raise NotUnpackedError(_damage(done, error)) from error


def _with_zstd(stream: Reader) -> Iterator[bytes]:
    if find_spec("zstandard") is None:
        raise NotUnpackedError("needs the package zstandard: pip install 'ext4kit[zstd]'")
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    source, done = cast("IO[bytes]", stream), 0  # it only calls `read`
    try:
        reader = unpacker.stream_reader(source, read_size=_READ, read_across_frames=True)
        while piece := reader.read(PIECE):
            done += len(piece)
            yield piece
    except zstandard.ZstdError as error:
        raise NotUnpackedError(_damage(done, error)) from error


def _damage(done: int, error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, AccessError) or "limit" in text or "too much memory" in text:
        return f"{text}, after {done:,} bytes"
    return f"it is damaged after {done:,} bytes: {text}"
