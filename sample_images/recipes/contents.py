"""Contents and names for the sample files: always the same for the same name."""

from __future__ import annotations

import random
from dataclasses import dataclass

KIB = 1024
WORDS = (
    *("ledger", "invoice", "harbour", "password", "meeting", "tunnel", "archive", "signal"),
    *("copper", "winter", "transfer", "account", "garden", "packet", "kernel", "orbit"),
    *("marble", "contract", "delivery", "private", "number", "station"),
)

ODD_NAMES: tuple[bytes, ...] = (
    b"two words.txt",
    b"  leading and trailing  ",
    b"line\nbreak.log",
    b"[bold]not markup[/bold]",
    b"\x1b[31mred\x1b[0m",
    b"latin1-\xe9t\xe9.txt",
    b"\xff\xfe broken",
    "right\u202egpj.exe".encode(),
    "überprüfung – 漢字".encode(),
    b"-rf",
    b"%2e%2e%2fescape",
    b"..hidden",
    b"...",
    b"back\\slash",
    b"quote'\"$(id)`id`",
    b"tab\there\rreturn",
    b"n" * 255,
    b"\xc3" + b"m" * 254,
)


@dataclass(frozen=True, slots=True)
class Content:
    """What a sample file holds.

    Attributes:
        pieces: (byte offset, bytes), ascending and apart; between them are holes.
        size: bytes, at or behind the end of the last piece.
    """

    pieces: tuple[tuple[int, bytes], ...]
    size: int

    @classmethod
    def of(cls, data: bytes) -> Content:
        """A file without holes."""
        return cls(((0, data),) if data else (), len(data))


def text(seed: str, size: int) -> bytes:
    """Lines of words, as a log or a letter has them; compresses well.  `size` in bytes."""
    chance = random.Random(f"text {seed}")
    lines = [f"{seed} {number:x}" for number in (chance.getrandbits(32) for _ in range(2))]
    lines += [" ".join(chance.choices(WORDS, k=9)) for _ in range(40)]
    block = ("\n".join(lines) + "\n").encode()
    parts: list[bytes] = []
    length = 0
    while length < size:
        parts.append(b"%d " % len(parts) + block)
        length += len(parts[-1])
    return b"".join(parts)[:size]


def noise(seed: str, size: int) -> bytes:
    """Bytes as an archive or a picture has them.  `size` in bytes."""
    return random.Random(f"noise {seed}").randbytes(size)


def plain(seed: str, size: int) -> Content:
    """A file of `size` bytes: text for most seeds, noise for some, zero bytes at some ends."""
    kind = random.Random(f"kind {seed}").random()
    data = noise(seed, size) if kind < 0.3 else text(seed, size)
    if kind > 0.92 and size > 64:
        zeros = min(size // 4, 300)
        data = data[:-zeros] + bytes(zeros)
    elif data.endswith(b"\0"):
        data = data[:-1] + b"."
    return Content.of(data)


def sparse(seed: str) -> Content:
    """A few pieces with holes of up to some MiB between them, at times a hole at the end."""
    chance = random.Random(f"sparse {seed}")
    pieces: list[tuple[int, bytes]] = []
    offset = chance.choice((0, 8 * KIB, 64 * KIB))
    for number in range(chance.randint(1, 4)):
        piece = text(f"{seed} piece {number}", chance.randint(1, 24 * KIB))
        pieces.append((offset, piece))
        offset += len(piece) + chance.randint(20 * KIB, 2048 * KIB)
    end = pieces[-1][0] + len(pieces[-1][1])
    return Content(tuple(pieces), end + chance.choice((0, 0, 100_000)))


def mixed(seed: str, small: bool = False) -> Content:
    """One file of the usual mix: empty, tiny, some KiB, some hundred KiB, some MiB, sparse.

    Args:
        seed: decides about everything.
        small: leave out what is bigger than some ten KiB.
    """
    chance = random.Random(f"mix {seed}")
    lot = chance.random()
    if lot < 0.04:
        return Content.of(b"")
    if lot < 0.14:
        return plain(seed, chance.randint(1, 59))
    if lot < 0.20:
        return sparse(seed)
    if small or lot < 0.72:
        return plain(seed, chance.randint(60, 16 * KIB))
    if lot < 0.97:
        return plain(seed, chance.randint(16 * KIB, 200 * KIB))
    return plain(seed, chance.randint(1024 * KIB, 3 * 1024 * KIB))
