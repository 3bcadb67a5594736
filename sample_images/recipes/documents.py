"""What lies in the folders of people and services: letters, logs, settings, tables, scripts.

And the real thing: a mix of files of the machine that the recipes run on.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from sample_images.recipes.contents import WORDS

Chance = random.Random


def document(seed: str, size: int) -> bytes:
    """A text of about `size` bytes, of the kind that the ending of `seed` asks for.

    It ends with a line end, as programs leave it, and never in a zero byte.
    """
    chance = random.Random(f"document {seed}")
    line = _LINES.get(Path(seed).suffix, _letter)
    head = _HEADS.get(Path(seed).suffix, "")
    parts = [f"{head}# {chance.getrandbits(64):x}\n"]
    length = len(parts[0])
    while length < size:
        parts.append(line(chance, len(parts)))
        length += len(parts[-1])
    return "".join(parts).encode()


def usual_size(chance: Chance, most: int) -> int:
    """Bytes: a few KiB for most files, much more for some, at most `most`."""
    return min(int(chance.lognormvariate(8.2, 1.5)) + 1, most)


def _words(chance: Chance, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))


def _letter(chance: Chance, _: int) -> str:
    return _words(chance, chance.randint(4, 14)) + (".\n\n" if chance.random() < 0.2 else "\n")


def _log(chance: Chance, number: int) -> str:
    clock = f"2026-{1 + number // 9000 % 12:02d}-11T{number // 300 % 24:02d}:{number // 5 % 60:02d}"
    address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.7"
    return f"{clock}:{chance.randrange(60):02d}Z {address} {_words(chance, 5)} {number}\n"


def _setting(chance: Chance, number: int) -> str:
    if number % 8 == 1:
        return f"\n[{chance.choice(WORDS)}-{number}]\n"
    return f"{chance.choice(WORDS)}_{chance.choice(WORDS)} = {chance.randrange(100_000)}\n"


def _row(chance: Chance, number: int) -> str:
    return f"{number},{chance.choice(WORDS)},{chance.random():.6f},{chance.randrange(10**9)}\n"


def _record(chance: Chance, number: int) -> str:
    fields = {"id": number, "name": _words(chance, 2), "tags": chance.sample(WORDS, 3)}
    return json.dumps({**fields, "value": chance.random()}) + "\n"


def _command(chance: Chance, number: int) -> str:
    return f'if [ "${chance.choice(WORDS)}" -gt {number} ]; then\n\techo {_words(chance, 4)}\nfi\n'


def _markup(chance: Chance, number: int) -> str:
    return f'<p id="{number}">{_words(chance, 9)} <b>{chance.choice(WORDS)}</b></p>\n'


_LINES: dict[str, Callable[[Chance, int], str]] = {
    ".log": _log,
    ".conf": _setting,
    ".ini": _setting,
    ".csv": _row,
    ".json": _record,
    ".sh": _command,
    ".html": _markup,
}
_HEADS = {".sh": "#!/bin/sh\n", ".html": "<!DOCTYPE html>\n<html><body>\n"}
SUFFIXES = (".txt", ".md", ".log", ".log", ".conf", ".ini", ".csv", ".json", ".sh", ".html")


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of the machine of one kind.

    Attributes:
        share: how many of them in a hundred of the mix.
        folder: below which they are looked for.
        suffixes: that one of the name's has to be; any name when empty.
    """

    share: int
    folder: str
    suffixes: frozenset[str]


REAL = tuple(
    Kind(share, folder, frozenset(suffixes.split()))
    for share, folder, suffixes in (
        (16, "/usr/bin", ""),
        (14, "/usr/lib", "so"),
        (14, "/usr/share", "png svg gif jpg ico xpm"),
        (14, "/usr/share/doc", "gz"),
        (8, "/usr/lib", "a jar zip whl tar o"),
        (8, "/var/cache", "db"),
        (8, "/usr/share", "mo ttf pfb dat"),
        (10, "/usr/lib", "py pl pm sh pyc"),
        (8, "/usr/share", "html txt pdf ps xml h"),
    )
)
DATABASES = 6  # in a hundred: SQLite databases as programs make them, where the machine has none


def real_files(number: int, most: int) -> Iterator[tuple[bytes, Path]]:
    """About `number` files of this machine: (path for the image, path here), in a mixed order.

    Args:
        number: how many.
        most: the largest, in bytes.
    """
    chosen: list[tuple[bytes, Path]] = []
    seen: set[bytes] = set()
    for kind in REAL:
        fresh = (path for path in _of_kind(kind) if _is_new(path, most, seen))
        for path in islice(fresh, -(-number * kind.share // 100)):
            chosen.append((str(path).lstrip("/").encode(), path))
    random.Random("real files").shuffle(chosen)
    yield from chosen


def _of_kind(kind: Kind) -> Iterable[Path]:
    """All files of a kind, the same order each time."""
    found = [
        path
        for path in _below(kind.folder)
        if not kind.suffixes or not kind.suffixes.isdisjoint(path.split("/")[-1].split(".")[1:])
    ]
    random.Random(f"kind {kind.folder} {sorted(kind.suffixes)}").shuffle(found)
    return map(Path, found)


@cache
def _below(folder: str) -> list[str]:
    """The paths of all that is below a folder, in order."""
    walked = os.walk(folder)
    return sorted(f"{where}/{name}" for where, _, names in walked for name in names)


def _is_new(path: Path, most: int, seen: set[bytes]) -> bool:
    """Whether this is a regular file of a fit size whose content was not there yet."""
    try:
        if path.is_symlink() or not path.is_file() or not 0 < path.stat().st_size <= most:
            return False
        digest = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return False
    if digest in seen:
        return False
    seen.add(digest)
    return True
