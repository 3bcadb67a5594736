"""Our outputs read back: names as bytes, and what `fls` would print of them."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_ESCAPES = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
SHORTEST_STORED_TARGET = 60  # from here on a symlink's target lies in a block


def exact(text: str) -> bytes:
    r"""The bytes of a name that is shown with `\xNN`, `\uNNNN` and `\\`."""
    parts, end = [], 0
    for found in _ESCAPES.finditer(text):
        parts.append(text[end : found.start()].encode())
        parts.append(_unescaped(found[1]))
        end = found.end()
    return b"".join([*parts, text[end:].encode()])


def _unescaped(code: str) -> bytes:
    if code == "\\":
        return b"\\"
    number = int(code[1:], 16)
    return bytes([number]) if code[0] == "x" else chr(number).encode()


def raw_path(record: dict[str, Any], key: str = "path") -> bytes:
    """The exact bytes of a name in a record."""
    coded = record.get(f"{key}_bytes")
    text: str = record[key]
    return text.encode() if coded is None else base64.b64decode(coded)


def body_lines(text: str) -> list[list[str]]:
    """The fields of a bodyfile's lines, percent-encoding undone as mactime does."""
    return [[unquote(field) for field in line.split("|")] for line in text.splitlines()]


def as_fls_prints(fields: list[str], has_crtime: bool) -> str:
    """A line of ours as The Sleuth Kit's fls 4.11 prints the same file.

    What it does otherwise: control characters of a name become `^`, `|` stays as it is, a target
    that lies in a block is left out, and creation times are told of ext4 alone.
    """
    name, size = fields[1], int(fields[6])
    if fields[3].startswith("l/") and size >= SHORTEST_STORED_TARGET:
        name = name.rpartition(" -> ")[0]
    plain = bytes(ord("^") if byte < 32 or byte == 127 else byte for byte in exact(name))
    times = fields[7:10] + [fields[10] if has_crtime else "0"]
    return "|".join(["0", plain.decode(errors="surrogateescape"), *fields[2:7], *times])


def fls_lines(image: Path, *options: str) -> list[str]:
    """What `fls -r -m /` says, less the folder for orphans that it makes up."""
    command = ["fls", "-r", "-m", "/", *options, str(image)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    lines = found.decode("utf-8", "surrogateescape").split("\n")[:-1]
    return [line for line in lines if "|/$OrphanFiles" not in line]
