"""The book of a random history: every life, every version of its bytes, every path it had."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

Key = tuple[int, int]  # inode, generation
PIECE = 1024  # bytes that are compared where not the whole file is right


@dataclass(frozen=True, slots=True)
class Version:
    """What a file held from one operation on.

    Attributes:
        operation: number of the operation that made it.
        time: ns since 1970 when it was made.
    """

    operation: int
    time: int
    size: int
    sha256: str


@dataclass(slots=True)
class Life:
    """One inode from its making to its end.

    Attributes:
        kind: "file", "directory" or "symlink".
        versions: of a file, oldest first.
        paths: every full path it ever had, no leading slash; last: those it had at the end.
        data: what it holds now; of a link its target.
        trimmed: SHA-256 of every version up to its last byte that is not zero; pieces: what
            `pieces_of` says of every version.
    """

    number: int
    generation: int
    kind: str
    versions: list[Version] = field(default_factory=list)
    paths: set[bytes] = field(default_factory=set)
    last: set[bytes] = field(default_factory=set)
    data: bytearray = field(default_factory=bytearray)
    trimmed: set[str] = field(default_factory=set)
    pieces: set[bytes] = field(default_factory=set)

    @property
    def digests(self) -> set[str]:
        """SHA-256 of everything that it ever held."""
        return {version.sha256 for version in self.versions}

    def keep(self, operation: int, time: int) -> None:
        """Write down what it holds, when that is new."""
        digest = hashlib.sha256(self.data).hexdigest()
        if not self.versions or self.versions[-1].sha256 != digest:
            self.versions.append(Version(operation, time, len(self.data), digest))
            self.trimmed.add(trimmed_digest(self.data))
            self.pieces.update(pieces_of(self.data))


def trimmed_digest(data: bytes | bytearray) -> str:
    """SHA-256 of bytes up to the last one that is not zero."""
    return hashlib.sha256(data.rstrip(b"\0")).hexdigest()


def pieces_of(data: bytes | bytearray) -> list[bytes]:
    """A digest of each piece that is not zero, and of where in the file it stands."""
    starts = range(0, len(data), PIECE)
    pieces = ((at, bytes(data[at : at + PIECE]).rstrip(b"\0")) for at in starts)
    return [
        hashlib.blake2b(piece, digest_size=12, salt=at.to_bytes(8, "little")).digest()
        for at, piece in pieces
        if piece
    ]


class Book:
    """Lives by inode and generation, and the tree as it is.

    Attributes:
        lives: all that ever were; a symlink has no generation that could be asked for: -1.
        tree: path to life, directories included, the root left out.
        links: lives of symbolic links by number, latest last.
    """

    def __init__(self) -> None:
        self.lives: dict[Key, Life] = {}
        self.tree: dict[bytes, Life] = {}
        self.links: dict[int, list[Life]] = {}

    def add(self, path: bytes, life: Life) -> Life:
        """A life that begins, under its first path."""
        if life.kind == "symlink":
            self.links.setdefault(life.number, []).append(life)
        else:
            self.lives[life.number, life.generation] = life
        self.name(path, life)
        return life

    def name(self, path: bytes, life: Life) -> None:
        """A life gets a path."""
        self.tree[path] = life
        life.paths.add(path)
        self._tell_last(life)

    def drop(self, path: bytes) -> Life:
        """A path goes; its life keeps it as its last one when it was."""
        life = self.tree.pop(path)
        self._tell_last(life)
        return life

    def move(self, old: bytes, new: bytes) -> None:
        """A file, or a directory with all below it, gets another path."""
        for path in [path for path in self.tree if path == old or path.startswith(old + b"/")]:
            life = self.tree.pop(path)
            self.name(new + path[len(old) :], life)

    def _tell_last(self, life: Life) -> None:
        named = {path for path, one in self.tree.items() if one is life}
        life.last = named or life.last

    def of_kind(self, kind: str) -> list[bytes]:
        """The paths of all files, directories or links."""
        return [path for path, life in self.tree.items() if life.kind == kind]

    def below(self, folder: bytes) -> list[bytes]:
        """All paths below a directory, the deepest first."""
        return sorted((path for path in self.tree if path.startswith(folder + b"/")), reverse=True)

    def save(self, path: Path) -> None:
        """Write all lives as JSON; what they held is told by its digest."""
        lives = [*self.lives.values(), *(life for lives in self.links.values() for life in lives)]
        path.write_text(json.dumps([_as_json(life) for life in lives], indent=1))


def _as_json(life: Life) -> dict[str, object]:
    return {
        "inode": life.number,
        "generation": life.generation,
        "kind": life.kind,
        "paths": sorted(path.decode() for path in life.paths),
        "last": sorted(path.decode() for path in life.last),
        "versions": [asdict(version) for version in life.versions],
    }
