"""Contents of which every part of 512 bytes says of which file it is, and which part of it."""

from __future__ import annotations

import re
import zlib

PART = 512
LEAST = 40  # bytes of a part that tell whose it is
_HEAD = re.compile(rb"file ([0-9a-f]{8}) part ([0-9]{7}) ")


def tag_of(name: bytes) -> str:
    """What stands for a file in its parts: no name, which would help to find whose they are."""
    return f"{zlib.crc32(name):08x}"


def part(tag: str, number: int) -> bytes:
    """One part of a file: a line of text, full to its end."""
    head = f"file {tag} part {number:07d} ".encode()
    return (head * (PART // len(head) + 1))[: PART - 1] + b"\n"


def content(tag: str, size: int, first: int = 0) -> bytes:
    """So many bytes of a file from part `first` on."""
    return b"".join(part(tag, first + at) for at in range(-(-size // PART)))[:size]


def identifying_size(size: int) -> int:
    """The next size whose last part is long enough to tell whose it is."""
    rest = size % PART
    return size + LEAST - rest if 0 < rest < LEAST else size


def identify(data: bytes) -> tuple[str, int] | None:
    """The tag and the number that a part tells; None when it is no such part, or a damaged one."""
    head = _HEAD.match(data)
    if head is None:
        return None
    tag, number = head[1].decode(), int(head[2])
    return (tag, number) if part(tag, number).startswith(data.rstrip(b"\0")) else None
