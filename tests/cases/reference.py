"""What the installed e2fsprogs says of an image: the answers that tests hold ext4kit against.

A record has what the tests ask for:

    name, image, journal_device, bytes, features
    category        `fast-commit` or `other`
    damage          why a replay need not be complete; empty for a sound image
    expected        the answer in one line
    e2fsck_fn_exit  exit code of `e2fsck -fn`: 0 clean, 4 errors, 8 unusable; `timeout` without end
    replay          of an image that waits for one:
        reference       `blocks`, or `listing` of fast commits, which may come to lie elsewhere
        aborted         the reference gave up in the middle
        masked_ranges   primary superblock and journal superblock: any replay may write them
        masked_sha256   of the image after the replay, with the masked ranges as zeros
        blocks          block -> SHA-256 of what the replay changes apart from these
    e2fsprogs       version that was asked
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cases.images import Case
from tests.cases.tools import CasesError, ask, copy_sparse

_PIECE = 1 << 20  # a multiple of every block size
_SUPERBLOCK = (1024, 2048)
_MORE_THAN_REPLAY = re.compile(r"Pass 1|orphan", re.IGNORECASE)
_ERRORS = 4  # exit code of e2fsck: errors in a file system that it can use
_ABORTED = re.compile(r"checksum error|while recovering journal")


def version() -> str:
    """Of the installed e2fsck."""
    found = re.search(rb"e2fsck (\S+)", ask("e2fsck", "-V").stderr)
    if not found:
        raise CasesError("e2fsck -V tells no version")
    return found[1].decode()


def answers(case: Case, folder: Path) -> dict[str, Any]:
    """The record of an image; trees that a replay gives are written into `folder`."""
    header = _Header.of(case.image)
    record: dict[str, Any] = {
        "name": case.name,
        "image": f"images/{case.image.name}",
        "bytes": case.image.stat().st_size,
        "features": header.features,
        "category": "fast-commit" if "fast_commit" in header.features else "other",
        "e2fsck_fn_exit": _verdict(case),
    }
    if case.journal:
        record["journal_device"] = f"images/{case.journal.name}"
    said = ""
    if "needs_recovery" in header.features:
        said, replay = _replay(case, header, folder)
        record |= {"replay": replay} if replay else {}
    record["damage"] = list(_damage(record))
    record["expected"] = f"e2fsck -fn: {record['e2fsck_fn_exit']}"
    if found := re.search(r"transaction (\d+) was corrupt", said):
        record["expected"] += f"; transaction {found[1]} corrupt"
    return record


def _verdict(case: Case) -> int | str:
    device = ("-j", case.journal) if case.journal else ()
    try:
        return ask("e2fsck", "-fn", *device, case.image).returncode
    except subprocess.TimeoutExpired:
        return "timeout"


def _damage(record: dict[str, Any]) -> Iterator[str]:
    """`e2fsck -fn` replays nothing, and so finds errors in sound images that wait for it."""
    code = record["e2fsck_fn_exit"]
    if code and ("replay" not in record or code != _ERRORS):
        yield "e2fsck -fn finds errors"
    if "corrupt" in record["name"]:
        yield "e2fsprogs calls it corrupt"


@dataclass(frozen=True, slots=True)
class _Header:
    """What dumpe2fs reads of the superblock; nothing of one that it does not take."""

    features: list[str]
    block_size: int
    journal_inode: int

    @classmethod
    def of(cls, image: Path) -> _Header:
        text = ask("dumpe2fs", "-h", image).stdout.decode(errors="replace")
        fields = dict(re.findall(r"^([^:\n]+): +(.*)$", text, re.MULTILINE))
        return cls(
            [word for word in fields.get("Filesystem features", "").split() if word[0] != "("],
            int(fields.get("Block size", 0)),
            int(fields.get("Journal inode", 0)),
        )


# -- replay -----------------------------------------------------------------------------------


def _replay(case: Case, header: _Header, folder: Path) -> tuple[str, dict[str, Any] | None]:
    """What e2fsck says of a replay, and its outcome; None where e2fsprogs gives none."""
    copy = case.image.with_suffix(".replayed")
    masked = [_SUPERBLOCK, *_journal_superblock(case.image, header)]
    by_listing = "fast_commit" in header.features
    try:
        said = _by_e2fsck(case, copy)
        if _MORE_THAN_REPLAY.search(said):
            if by_listing or len(masked) == 1:
                return said, None
            _by_debugfs(case, copy)
        if by_listing:
            _write_listing(copy, folder / "ref" / case.name)
        return said, {
            "reference": "listing" if by_listing else "blocks",
            "aborted": bool(_ABORTED.search(said)),
            "blocks": _changed(case.image, copy, header.block_size, masked),
            "masked_ranges": masked,
            "masked_sha256": _digest(copy, masked),
        }
    except subprocess.TimeoutExpired:
        return "", None
    finally:
        copy.unlink(missing_ok=True)


def _by_e2fsck(case: Case, copy: Path) -> str:
    """It knows every journal, but releases orphans too, and may go on to repair."""
    copy_sparse(case.image, copy)
    journal = copy.with_suffix(".replayed-jnl")
    device = ("-j", copy_sparse(case.journal, journal)) if case.journal else ()
    try:
        done = ask("e2fsck", "-y", "-E", "journal_only", *device, copy)
    finally:
        journal.unlink(missing_ok=True)
    return (done.stdout + done.stderr).decode(errors="replace")


def _by_debugfs(case: Case, copy: Path) -> None:
    """It replays and does nothing else, but knows a sound journal inode alone.

    Neither fast commits, nor an external journal, nor the copy of the inode in the superblock.
    """
    copy.unlink()
    ask("debugfs", "-w", "-R", "journal_run", copy_sparse(case.image, copy))


def _journal_superblock(image: Path, header: _Header) -> Iterator[tuple[int, int]]:
    if header.journal_inode:
        said = ask("debugfs", "-R", f"bmap <{header.journal_inode}> 0", image).stdout.strip()
        if said.isdigit() and int(said):
            yield int(said) * header.block_size, (int(said) + 1) * header.block_size


def _changed(
    before: Path, after: Path, block_size: int, masked: list[tuple[int, int]]
) -> dict[str, str]:
    """Block -> SHA-256 of its new content, of the blocks that are not alike and not masked."""
    spared = {start // block_size for start, _ in masked}
    found: dict[str, str] = {}
    with before.open("rb") as old, after.open("rb") as new:
        for start in range(0, before.stat().st_size, _PIECE):
            was, now = old.read(_PIECE), new.read(_PIECE)
            for at in range(0, len(now) if was != now else 0, block_size):
                number, block = (start + at) // block_size, now[at : at + block_size]
                if block != was[at : at + block_size] and number not in spared:
                    found[str(number)] = hashlib.sha256(block).hexdigest()
    return found


def _digest(path: Path, masked: list[tuple[int, int]]) -> str:
    """SHA-256 of a file with the masked ranges as zeros."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for start in range(0, path.stat().st_size, _PIECE):
            data = bytearray(stream.read(_PIECE))
            for first, end in masked:
                inside = slice(max(first - start, 0), max(end - start, 0))
                data[inside] = bytes(len(data[inside]))
            digest.update(data)
    return digest.hexdigest()


# -- trees ------------------------------------------------------------------------------------


def _write_listing(image: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    lines = [json.dumps(row) for row in _walk(image, "", 2)]
    (folder / "listing_after_replay.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _walk(image: Path, path: str, directory: int) -> Iterator[dict[str, Any]]:
    """Everything below a directory, read by debugfs."""
    said = ask("debugfs", "-R", f"ls -p <{directory}>", image).stdout.decode(errors="replace")
    for line in said.splitlines():
        if not line.startswith("/"):
            continue
        number, mode, _, _, name, size = line.split("/")[1:7]
        if name in (".", "..") or number == "0":
            continue
        below = f"{path}/{name}"
        row: dict[str, Any] = {"path": below, "ino": int(number), "type": "other", "size": None}
        if mode.startswith("10"):
            content = ask("debugfs", "-R", f"cat <{number}>", image).stdout
            digest = hashlib.sha256(content).hexdigest()
            row |= {"type": "file", "size": int(size), "sha256": digest}
        yield row
        if mode.startswith("04"):
            yield from _walk(image, below, int(number))
