"""Fast-commit tags: sizes of the kernel's structures, debugfs's listing, and hostile bytes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.journal import Log
from ext4kit.journal.fast_commits.scan import scan_fast_commits
from ext4kit.parsers import fast_commit
from ext4kit.parsers.fast_commit import (
    EntryValue,
    InodeValue,
    RangeValue,
    TagKind,
    parse_value,
    read_tags,
)
from tests.cases import MISSING, records, unpack
from tests.journal.kernel_log import opened

CASES = [one["image"] for one in records() if one["category"] == "fast-commit"]
SPELLED = {"CREAT": "CREAT_DENTRY", "LINK": "ADD_ENTRY", "UNLINK": "DEL_ENTRY"}


def test_structures_have_the_sizes_of_the_kernels() -> None:
    sizes = {
        "TAG": 4,
        "HEAD": 8,
        "TAIL": 8,
        "ADD_RANGE": 16,
        "DEL_RANGE": 12,
        "DENTRY_INFO": 8,
        "INODE": 4,
    }
    assert {name: getattr(fast_commit, name).size for name in sizes} == sizes
    assert fast_commit.ADD_RANGE.offset_of("ee_start_lo") == 12
    assert fast_commit.TAIL.offset_of("fc_crc") == 4


def _told(image: Path) -> list[str]:
    """The tags to apply, in debugfs's words."""
    log = Log.open(opened(image))
    assert log is not None
    found = scan_fast_commits(log)
    return [_line(kind, value) for _, kind, value in found.tag_values(log, found.to_replay)]


def _line(kind: int, value: bytes) -> str:
    name = TagKind(kind).name
    what = parse_value(kind, value)
    if isinstance(what, EntryValue):
        name = SPELLED[name]
        return f'{name}, parent {what.parent}, ino {what.inode}, name "{what.name.decode()}"'
    if isinstance(what, RangeValue):
        place = f"pblk {what.physical}, " if what.physical >= 0 else ""
        return f"{name}, inode {what.inode}, lblk {what.logical}, {place}len {what.length}"
    if isinstance(what, InodeValue):
        return f"{name}, inode {what.inode}"
    return name


def _listed(image: Path) -> Iterator[str]:
    """The tags that debugfs lists, without what heads and tails say."""
    done = subprocess.run(["debugfs", "-R", "logdump -a", image], capture_output=True, check=True)
    area = done.stdout.decode(errors="replace").partition("*** Fast Commit Area ***")[2]
    for line in re.findall(r"^tag (.*)$", area, re.MULTILINE):
        yield re.sub(r"^(HEAD|TAIL), .*", r"\1", line)


@pytest.mark.skipif(not CASES, reason=MISSING)
def test_tags_are_those_that_debugfs_lists(tmp_path: Path) -> None:
    unpack(tmp_path, CASES)
    compared = []
    for image in CASES:
        told, listed = _told(tmp_path / image), list(_listed(tmp_path / image))
        assert len(told) <= len(listed)
        for got, line in zip(told, listed, strict=False):  # its names go on to the next zero byte
            assert line == got or (got.endswith('"') and line.startswith(got[:-1])), got
        compared.append(len(told))
    assert max(compared) > 10


@given(st.binary(min_size=64, max_size=64), st.integers(0, 9), st.integers(0, 70))
def test_no_tag_runs_out_of_its_block(data: bytes, kind: int, length: int) -> None:
    start = kind.to_bytes(2, "little") + length.to_bytes(2, "little")
    rows = np.frombuffer(start + data[4:] + data, np.uint8).reshape(2, 64)
    tags = read_tags(rows)
    ends = tags.offset + fast_commit.TAG.size + tags.length
    assert (ends[tags.sound] <= 64).all()
    follows = tags.row[1:] == tags.row[:-1]
    assert (tags.offset[1:] == ends[:-1])[follows].all()
    assert tags.sound[:-1][follows].all()
    for row in np.flatnonzero(tags.sound).tolist():
        begin = int(tags.offset[row]) + fast_commit.TAG.size
        value = rows[tags.row[row], begin : begin + int(tags.length[row])].tobytes()
        parse_value(int(tags.kind[row]), value)
