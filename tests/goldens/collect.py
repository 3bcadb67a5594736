"""What users run on an image, and what comes out, of the ext4kit that Python finds.

As a program, `collect.py CHECKOUT IMAGE` prints an `Output` a line. The checkout may be older than
this file, which uses nothing but its command line.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import ext4kit
from ext4kit.cli import main

Record = dict[str, Any]
Output = tuple[str, int, list[Record]]  # command, exit code, records printed and of the manifest

RUNS = (
    "info IMAGE -g",
    "verify IMAGE",
    "ls IMAGE -r -l",
    "deleted IMAGE",
    "deleted IMAGE --sources all",
    "deleted IMAGE --sources all --versions --names",
    "deleted IMAGE --sources journal",
    "deleted IMAGE --sources journal,blocks",
    "deleted IMAGE --lost",
    "recover IMAGE -o OUT",
    "recover IMAGE -o OUT --versions",
    "timeline IMAGE",
    "journal list IMAGE",
    "journal audit IMAGE",
    "report IMAGE",
)
LOST = ("info IMAGE --lost", "ls IMAGE -r -l --lost", "recover IMAGE -o OUT --lost")
CRASH = "internal error"  # a record of it stands for what a command ended with


def collect(image: Path) -> Iterator[Output]:
    """Run all commands on an image, in this process, as if not as root, who gets exact modes."""
    made: dict[str, list[Record]] = {}
    umask = os.umask(0o022)
    not_root = mock.patch.object(os, "geteuid", lambda: 1000, create=True)
    try:
        with not_root, tempfile.TemporaryDirectory() as folder:
            for command in RUNS:
                output = _run(command, image, Path(folder) / "out")
                made[command] = output[2]
                yield output
            for command in _further(made):
                yield _run(command, image, Path(folder) / "out")
    finally:
        os.umask(umask)


def _further(made: dict[str, list[Record]]) -> Iterator[str]:
    """Commands about what this image has: a lost file system, transactions, inodes, blocks."""
    if made["deleted IMAGE --lost"]:
        yield from LOST
    log = [one for one in made["journal list IMAGE"] if one.get("committed")]
    tids = [one["transaction"] for one in log]
    for tid in dict.fromkeys(tids[at] for at in (0, len(tids) // 2, -1) if tids):
        yield f"ls IMAGE -r -l --as-of {tid}"
    if tids:
        yield f"extract IMAGE / -o OUT --as-of {tids[len(tids) // 2]}"
    yield "journal history IMAGE <2> --entries"
    deleted = [one["inode"] for one in made["deleted IMAGE"] if one.get("inode")]
    for inode in dict.fromkeys(deleted[at] for at in (0, -1) if deleted):
        yield f"journal history IMAGE <{inode}>"
    tables = [part["blocks"] for one in log for part in one["touched"] if "first_inode" in part]
    for block in (1, *(blocks[0] for blocks in tables[:1])):
        yield f"journal history IMAGE --block {block}"


def _run(command: str, image: Path, out: Path) -> Output:
    stands_for = {"IMAGE": str(image), "OUT": str(out)}
    words = [stands_for.get(word, word) for word in command.split()]
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(io.StringIO()) as stderr:
        code = main.run([*words, "--json", "-q"])
    stdout.seek(0)
    records = [json.loads(line) for line in stdout]
    if CRASH in stderr.getvalue():
        records.append({"record": CRASH, "text": stderr.getvalue()})
    if out.is_dir():
        records += _written(out)
        shutil.rmtree(out)
    return command, code, records


def _written(out: Path) -> Iterator[Record]:
    """The manifest's records, each with the file as it was written; then what else is there."""
    others = {str(path.relative_to(out)) for path in out.rglob("*")}
    for line in (out / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["output"] is not None:
            others.discard(record["output"])
            record["written"] = _file(out / record["output"], record)
        yield {"record": "manifest", **record}
    modes = [[path, oct((out / path).stat().st_mode)] for path in sorted(others)]
    yield {"record": "tree", "others": modes}


def _file(path: Path, record: Record) -> list[Any]:
    """Mode, whether atime and mtime are those of the record, and the SHA-256 of a file."""
    info = path.stat()
    times = [info.st_atime_ns == record.get("atime"), info.st_mtime_ns == record.get("mtime")]
    content = path.read_bytes() if path.is_file() else b""
    return [oct(info.st_mode), *times, hashlib.sha256(content).hexdigest()]


if __name__ == "__main__":
    if not Path(str(ext4kit.__file__)).resolve().is_relative_to(Path(sys.argv[1]).resolve()):
        sys.exit(f"{ext4kit.__file__} is not of the checkout {sys.argv[1]}")
    # Keys of names are random in each process, and order names of one inode and transaction.
    os.urandom = lambda size: random.Random(0).randbytes(size)
    for each in collect(Path(sys.argv[2])):
        print(json.dumps(each))
