"""The images in a source tarball of e2fsprogs, those of known content.

Other cases of e2fsprogs make their images by scripts, with the tools of that very version.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cases.tools import CasesError

KNOWN = Path(__file__).with_name("images.sha256")  # as sha256sum writes it
_MEMBER = re.compile(
    r"[^/]+/tests/(?P<case>\w[\w.-]*)/"
    r"(?:image(?P<number>\d*)(?:\.orig)?(?P<tar>\.tar)?|(?P<journal>journal))\.(?P<packed>gz|bz2)"
)
_UNPACKED = {"gz": gzip.decompress, "bz2": bz2.decompress}
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Case:
    """An image and the device that its journal is on, if that is not the image."""

    name: str
    image: Path
    journal: Path | None


def unpack_images(tarball: Path, folder: Path) -> tuple[list[Case], list[str]]:
    """Write the images of known content into `folder`; gives the names of the others too.

    Raises:
        CasesError: the tarball cannot be read.
    """
    known = {tuple(line.split("  ", 1)) for line in KNOWN.read_text().splitlines()}
    others: list[str] = []
    written: set[str] = set()
    try:
        for name, data in _images(tarball):
            if (hashlib.sha256(data).hexdigest(), name) in known:
                _write_sparse(folder / name, data)
                written.add(name)
            else:
                others.append(name)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        fault = str(error).splitlines()[0] if str(error) else "it ends early"
        raise CasesError(f"{tarball} cannot be read: {fault}") from None
    return [_case(folder / name) for name in sorted(written) if name.endswith(".img")], others


def _case(image: Path) -> Case:
    journal = image.with_suffix(".jnl")
    return Case(image.stem, image, journal if journal.is_file() else None)


def _images(tarball: Path) -> Iterator[tuple[str, bytes]]:
    """File name and content of each image and journal device."""
    with tarfile.open(tarball) as members:
        for member in members:
            found = _MEMBER.fullmatch(member.name)
            stream = members.extractfile(member) if found else None
            if not found or not stream:
                continue
            data = _UNPACKED[found["packed"]](stream.read())
            if found["tar"]:
                yield from _packed_together(found["case"], data)
            else:
                number = f"_{found['number']}" if found["number"] else ""
                yield f"{found['case']}{number}{'.jnl' if found['journal'] else '.img'}", data


def _packed_together(case: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as members:
        for member in members:
            stream = members.extractfile(member)
            if stream:
                yield f"{case}{'.jnl' if member.name.endswith('.jnl') else '.img'}", stream.read()


def _write_sparse(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            if piece.count(0) != len(piece):
                file.seek(start)
                file.write(piece)
        file.truncate(len(data))
