"""Contents in which log lines are looked for."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Protocol

from ext4kit.errors import AccessError
from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.logs.kinds import login_kind
from ext4kit.logs.result import Origin
from ext4kit.parsers.journald import MAGIC
from ext4kit.problems import Problems, Severity
from ext4kit.recovery import DeletedFile
from ext4kit.recovery.model import TransactionTime

MOST_UNPACKED = 1 << 30  # bytes of a compressed log
MOST_WHOLE = 256 << 20  # bytes of a binary log; journald starts a new file at 128 MiB
_PIECE = 1 << 20
TEXT, LOGINS, LASTLOG, JOURNAL = "text", "logins", "lastlog", "journal"


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _zstd(stream: IO[bytes]) -> _Reader:
    import zstandard  # an extra

    return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)


_PACKINGS: dict[bytes, Callable[[IO[bytes]], _Reader]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}


@dataclass(frozen=True, eq=False)
class LogSource:
    """A content in which log lines are looked for.

    Attributes:
        origin: what it is.
        content: its bytes as stored.
        latest: ns since 1970; no line of it is later.
        problems: gets what cannot be read.
        path: of the file.
        inode: number of the file.
        file: of a deleted file or an earlier version.
        form: TEXT, LOGINS, LASTLOG or JOURNAL; "" where the content tells.
        copy: of a journal copy: its transaction.
        generation: of its inode.
        uid: owner of the file.
    """

    origin: Origin
    content: Content
    latest: int
    problems: Problems = field(repr=False)
    path: bytes | None = None
    inode: int | None = None
    file: DeletedFile | None = None
    form: str = ""
    copy: TransactionTime | None = None
    generation: int | None = None
    uid: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is a log as it is."""
        return self.origin is Origin.LIVE

    @cached_property
    def head(self) -> bytes:
        """Its first bytes."""
        try:
            return self.content.read(0, 512)
        except AccessError:
            return b""

    @cached_property
    def packing(self) -> Callable[[IO[bytes]], _Reader] | None:
        """What opens a compressed content; None for others."""
        return next(
            (each for magic, each in _PACKINGS.items() if self.head.startswith(magic)), None
        )

    @cached_property
    def family(self) -> str:
        """TEXT, LOGINS, LASTLOG or JOURNAL."""
        if self.form:
            return self.form
        if self.head.startswith(MAGIC):
            return JOURNAL
        kind = login_kind(self.path)
        return TEXT if kind is None else LASTLOG if kind == LASTLOG else LOGINS

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of the content without compression and without what has no bytes."""
        if self.packing is not None:
            yield from self._unpacked()
            return
        for chunk in self.content.chunks():
            if chunk.data is not None:
                yield chunk.offset, bytes(chunk.data)
            elif chunk.lost:
                self.problems.add(self.name, f"bytes could not be read: {chunk.lost}")

    def whole(self) -> bytes:
        """All bytes, zeros for those that are missing; at most `MOST_WHOLE`."""
        data = io.BytesIO()
        for offset, piece in self.pieces():
            if offset + len(piece) > MOST_WHOLE:
                what = f"only the first {MOST_WHOLE >> 20} MiB were read"
                self.problems.add(self.name, what, Severity.WARNING)
                break
            data.seek(offset)
            data.write(piece)
        return data.getvalue()

    @property
    def name(self) -> str:
        """For problems."""
        if self.path is not None:
            return self.path.decode("utf-8", "backslashreplace")
        return f"inode {self.inode}" if self.inode else f"block {self.place_of(0)[0]}"

    def place_of(self, offset: int) -> tuple[int, int] | tuple[None, None]:
        """(block, byte of the file system) of a byte of the content; None for no such place."""
        if self.packing is None:
            for start, length, place in self.content.segments():
                if start <= offset < start + length and place is not None:
                    position = place + offset - start
                    return position // self.content.blocks.block_size, position
        return None, None

    def _unpacked(self) -> Iterator[tuple[int, bytes]]:
        assert self.packing is not None
        done = 0
        try:
            stream = self.packing(self.content.open())
            while piece := stream.read(_PIECE):
                yield done, piece
                done += len(piece)
                if done > MOST_UNPACKED:
                    self.problems.add(self.name, f"only {done:,} bytes were decompressed")
                    return
        except ModuleNotFoundError:
            text = "is compressed with Zstandard; install ext4kit[zstd] to read it"
            self.problems.add(self.name, text, Severity.WARNING)
        except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, AccessError) as error:
            what = f"the compressed log is damaged after {done:,} bytes: {error}"
            self.problems.add(self.name, what, Severity.WARNING)


def run_content(blocks: BlockReader, first: int, count: int) -> Content:
    """The bytes of consecutive blocks."""
    return Content(blocks, count * blocks.block_size, Runs.consecutive(first, count))
