"""What ext4kit reads of an image, held against debugfs and the kernel."""

from __future__ import annotations

import base64
import hashlib
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ext4kit
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.output.extraction import extract
from ext4kit.report.listing import entry_records, list_names, long_text
from ext4kit.verify import verify
from sample_images.recipes.score import read_records
from tests.filesystem.matrix_oracle import Tree, debugfs, debugfs_tree

SHOWN = 4  # differences of one kind
NUMBERS = ("mode", "uid", "gid", "size", "links_count", "mtime", "ctime", "crtime")
KERNEL_SAYS_SO = "superblock-errors"  # a count in the superblock that e2fsck -n passes over
INLINE_MOST = 1 << 11  # bytes; no inode is larger here
Record = dict[str, Any]


def complaint(image: Path) -> str:
    """The first thing that `e2fsck -fn` finds, or an empty string for a clean file system."""
    command = ["e2fsck", "-fn", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).splitlines()
    return next((line for line in lines if line.endswith("? no")), f"exit code {done.returncode}")


def look(image: Path, work: Path, tree: Tree | None) -> list[str]:
    """What is wrong, in words; `tree` is what the kernel reads, where it mounts the image."""
    try:
        with ext4kit.open(image) as opened:
            fs = opened.volume().filesystem()
            wrong = [f"verify: {code} {count}" for code, count in _findings(fs)]
            wrong += _differences(fs, image, work, tree)
            wrong += [f"problem: {each}" for each in list(fs.problems)[:SHOWN]]
    except Ext4kitError as error:
        return [f"cannot be read: {error}"]
    return wrong


def look_for_findings(image: Path) -> list[str]:
    """What `verify` finds, in words."""
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem()
        return [f"verify: {code} {count}" for code, count in _findings(fs)]


def _findings(fs: FileSystem) -> list[tuple[str, int]]:
    found = verify(fs).findings
    told = {each.code: each for each in found.kept}
    return [
        (f"{code} ({_told(told.get(code))})", count)
        for code, count in found.counts.items()
        if code != KERNEL_SAYS_SO
    ]


def _told(finding: object) -> str:
    return str(finding)[:300]


def _differences(fs: FileSystem, image: Path, work: Path, kernel: Tree | None) -> list[str]:
    (names,) = list_names(fs, b"/", recursive=True, hidden=False)
    listed = {_path(record): record for record in map(dict[str, Any], entry_records(fs, names))}
    if b"".join(long_text(fs, names, numbered=False)).count(b"\n") != len(listed):
        return ["ls -r -l shows another number of lines than there are records"]
    folders = [record["inode"] for record in listed.values() if record["type"] == "directory"]
    debugged = debugfs_tree(image, Path("/nowhere"), folders)
    wrong = _compare_paths("debugfs", debugged, listed)
    wrong += _compare_numbers("debugfs", debugged, listed)
    digests = _extracted(fs, image, work)
    files = dict(_sizes(debugged))
    wrong += _compare_values("bytes, debugfs", _dumped(image, work, files), digests)
    if kernel is None:
        return wrong
    wrong += _compare_paths("kernel", kernel, listed)
    wrong += _compare_numbers("kernel", kernel, listed)
    told = {n: node.digest for n, node in kernel.nodes.items() if node.digest is not None}
    wrong += _compare_values("bytes, kernel", told, digests)
    targets = {p: kernel.nodes[n].target for p, n in kernel.paths.items()}
    shown = {path: _target(record) for path, record in listed.items()}
    wrong += _compare_values("target", {p: t for p, t in targets.items() if t is not None}, shown)
    return wrong + _compare_xattrs(fs, kernel)


def _path(record: Record) -> bytes:
    return _bytes(record, "path")


def _target(record: Record) -> bytes | None:
    return _bytes(record, "target") if "target" in record else None


def _bytes(record: Record, key: str) -> bytes:
    """A name of a record as it is on disk."""
    if f"{key}_bytes" in record:
        return base64.b64decode(record[f"{key}_bytes"])
    return bytes(record[key].encode())


def _compare_paths(oracle: str, tree: Tree, listed: dict[bytes, Record]) -> list[str]:
    expected = {path: number for path, number in tree.paths.items() if path != b"/"}
    got = {path: record["inode"] for path, record in listed.items()}
    return _compare_values(f"inode number, {oracle}", expected, got, every=True)


def _compare_numbers(oracle: str, tree: Tree, listed: dict[bytes, Record]) -> list[str]:
    """Every field that the oracle and a record of `ls` both have."""
    wrong = []
    for name in NUMBERS:
        expected = {p: tree.nodes[n].numbers.get(name) for p, n in tree.paths.items() if p != b"/"}
        expected = {path: value for path, value in expected.items() if value is not None}
        got = {path: record.get(name) for path, record in listed.items()}
        if name == "crtime":  # the kernel shows 0 where the inode has none
            expected = {path: value for path, value in expected.items() if value}
        wrong += _compare_values(f"{name}, {oracle}", expected, got)
    return wrong


def _compare_values(
    what: str, expected: Mapping[Any, Any], got: Mapping[Any, Any], every: bool = False
) -> list[str]:
    """Where two answers differ; `every`: the second may not have more than the first."""
    keys = expected.keys() | got.keys() if every else expected.keys()
    differing = [key for key in keys if expected.get(key) != got.get(key)]
    return [
        f"{what}: {key!r} expected {expected.get(key)!r}, got {got.get(key)!r}"
        for key in sorted(differing)[:SHOWN]
    ]


def _extracted(fs: FileSystem, image: Path, work: Path) -> dict[int, str]:
    """Size and SHA-256 of each regular file that `extract` writes, by inode number."""
    out = work / "extracted"
    extract(fs, [b"/"], out, (image,))
    records = list(read_records(out))
    shutil.rmtree(out)
    return {
        record["inode"]: f"{record['size']}-{record['sha256']}"
        for record in records
        if record.get("sha256")
    }


def _sizes(tree: Tree) -> Iterator[tuple[int, int]]:
    """(inode number, size) of each regular file."""
    for number, node in tree.nodes.items():
        mode, size = node.numbers["mode"], node.numbers["size"]
        assert isinstance(mode, int) and isinstance(size, int)
        if stat.S_ISREG(mode):
            yield number, size


def _dumped(image: Path, work: Path, sizes: dict[int, int]) -> dict[int, str]:
    """Size and SHA-256 of what debugfs dumps of each regular file.

    Of inline data it dumps all that is stored, not up to the size.
    """
    out = work / "dumped"
    out.mkdir()
    debugfs(image, *[f"dump <{number}> {out}/{number}" for number in sorted(sizes)])
    found = {}
    for number, size in sizes.items():
        data = (out / str(number)).read_bytes()
        data = data[:size].ljust(size if len(data) <= INLINE_MOST else 0, b"\0")
        found[number] = f"{len(data)}-{hashlib.sha256(data).hexdigest()}"
    shutil.rmtree(out)
    return found


def _compare_xattrs(fs: FileSystem, tree: Tree) -> list[str]:
    expected = {number: node.xattrs for number, node in tree.nodes.items()}
    got = {number: fs.xattrs(fs.inode(number)) for number in expected}
    return _compare_values("attributes", expected, got)
