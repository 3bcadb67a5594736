"""Headers of volumes of many formats, kept with what blkid says of each.

`python -m tests.evidence.kept_volumes IMAGE...` packs images anew: their size, the sectors that
`identify` and blkid need, and what `blkid -p` says. The images are made by the mkfs tools of
Debian 12. Formats for which there is no tool are written by hand; blkid must name them as well.
"""

from __future__ import annotations

import base64
import json
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ext4kit.evidence.magics import VolumeSignature
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.signatures import identify

KEPT = Path(__file__).with_name("kept_volumes.jsonl.xz")
FIELDS = ("TYPE", "VERSION", "LABEL", "UUID")
_SECTOR = 512
_ENDS = 300 * 1024  # bytes at either end that are kept, as far as they are not zero
_ROOMS = (2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10)  # bytes of an image; the first that do


@dataclass(frozen=True, slots=True)
class KeptVolume:
    """One volume: its name, its size, its sectors by offset, and what blkid says of it."""

    name: str
    size: int
    blkid: tuple[str, ...]
    sectors: dict[int, bytes]

    def write(self, path: Path) -> Path:
        """A sparse image of it."""
        with path.open("wb") as file:
            file.truncate(self.size)
            for offset, raw in self.sectors.items():
                file.seek(offset)
                file.write(raw)
        return path


def kept_volumes() -> list[KeptVolume]:
    """Every volume that is kept."""
    lines = lzma.decompress(KEPT.read_bytes()).splitlines()
    return [
        KeptVolume(
            one["name"],
            one["size"],
            tuple(one["blkid"]),
            {int(at): base64.b85decode(raw) for at, raw in one["sectors"].items()},
        )
        for one in map(json.loads, lines)
    ]


def ask_blkid(path: Path) -> tuple[str, ...]:
    """Kind, version, label and UUID of a volume as blkid gives them, "" for none."""
    command = ["blkid", "-p", "-o", "udev", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def value(name: str) -> str:
        raw = said.get(f"ID_FS_{name}_ENC", said.get(f"ID_FS_{name}", "")).encode()
        plain = re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), raw)
        return plain.decode("utf-8", "backslashreplace")

    return tuple(value(name) for name in FIELDS)


class _Recorder(RawFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sectors: set[int] = set()

    def read(self, offset: int, length: int) -> memoryview:
        if length:
            self.sectors |= set(range(offset // _SECTOR, (offset + length - 1) // _SECTOR + 1))
        return super().read(offset, length)


def _packed(path: Path, room: int) -> Iterator[tuple[int, bytes]]:
    """Sectors of an image that are not zero: those read, then those near its ends."""
    source = _Recorder(path)
    identify(source)
    last = source.size // _SECTOR
    ends = (*range(min(last, _ENDS // _SECTOR)), *range(max(0, last - _ENDS // _SECTOR), last))
    for number in dict.fromkeys((*sorted(source.sectors), *ends)):
        length = min(_SECTOR, source.size - number * _SECTOR)
        raw = bytes(source.read(number * _SECTOR, length)) if length > 0 else b""
        if any(raw) and room > 0:
            room -= length
            yield number * _SECTOR, raw
    source.close()


def _kept(path: Path, room: int) -> KeptVolume | None:
    """The volume with so many bytes, if blkid and `identify` say the same of these."""
    said = ask_blkid(path)
    kept = KeptVolume(path.name, path.stat().st_size, said, dict(sorted(_packed(path, room))))
    copy = kept.write(path.with_name(path.name + ".kept"))
    are_same = _identified(copy) == _identified(path) and ask_blkid(copy) == said
    copy.unlink()
    return kept if said[0] and are_same else None


def _identified(path: Path) -> VolumeSignature:
    source = RawFile(path)
    try:
        return identify(source)
    finally:
        source.close()


def _main(paths: list[Path]) -> None:
    lines = []
    for path in sorted(paths, key=lambda one: one.name):
        kept = next(filter(None, (_kept(path, room) for room in _ROOMS)), None)
        if kept is None:
            sys.exit(f"{path}: blkid says {ask_blkid(path)}, and not of what is kept")
        sectors = {str(at): base64.b85encode(raw).decode() for at, raw in kept.sectors.items()}
        line = {"name": kept.name, "size": kept.size, "blkid": kept.blkid, "sectors": sectors}
        lines.append(line)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    KEPT.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    _main([Path(name) for name in sys.argv[1:]])
