"""A deletion time is given where the evidence has one or bounds it, with what it rests on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ext4kit.recovery.deletion import _bounds
from ext4kit.recovery.model import DeletionGround
from tests.conftest import Cli, Images
from tests.filesystem.matrix_oracle import debugfs
from tests.recovery.made_history import INODES, LATER, MADE, State, ToldInodes, state

SECOND = 1_000_000_000
GONE = {"links_count": 0, "whole": False}


def deleted(cli: Cli, image: Path, *options: str) -> list[dict[str, Any]]:
    done = cli("deleted", image, "--json", "-q", *options)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return [line for line in lines if line["record"] == "deleted"]


def made(folder: Path) -> Path:
    """An image with some files, made without mounting."""
    root, image = folder / "tree", folder / "image"
    root.mkdir()
    for number in range(40):
        (root / f"folder{number}").mkdir()
        (root / f"folder{number}/file").write_bytes(b"x" * 5000)
    make_file_system(image, "-N", "4000", "-d", str(root))
    return image


def make_file_system(image: Path, *options: str) -> None:
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", *options, str(image), "40M"]
    subprocess.run(make, check=True, capture_output=True)


def test_an_orphan_that_the_journal_does_not_show_is_dated_by_its_ctime(
    ext4kit: Cli, tmp_path: Path
) -> None:
    image = made(tmp_path)
    number = int(re.findall(rb"Inode: (\d+)", debugfs(image, "stat /folder7/file"))[0])
    debugfs(
        image, "unlink /folder7/file", f"set_inode_field <{number}> links_count 0",
        f"set_inode_field <{number}> ctime @1700000000",
        f"set_super_value last_orphan {number}", write=True,
    )  # fmt: skip
    (orphan,) = deleted(ext4kit, image)
    assert (orphan["inode"], orphan["dtime"]) == (number, None)
    assert orphan["deleted_between"] == [None, None]
    assert orphan["deleted_at"] // SECOND == 1700000000
    assert orphan["deleted_at_ground"] == "unlinked"
    recent = deleted(ext4kit, image, "--deleted-since", "@1700000001")
    assert recent == []
    assert deleted(ext4kit, image, "--deleted-since", "@1699999999") == [orphan]


def test_files_of_an_overwritten_file_system_were_gone_when_the_present_one_was_made(
    ext4kit: Cli, tmp_path: Path
) -> None:
    image = made(tmp_path)
    make_file_system(image, "-N", "64", "-E", "nodiscard,lazy_itable_init=1")
    debugfs(image, "set_super_value mkfs_time 1750000000", write=True)
    files = deleted(ext4kit, image, "--lost")
    assert files
    assert {file["deleted_at"] for file in files} == {1750000000 * SECOND}
    assert {file["deleted_at_ground"] for file in files} == {"overwritten"}


def test_every_file_of_a_sample_but_carved_content_is_dated(ext4kit: Cli, unpacked: Images) -> None:
    grounds = set()
    for name in ("orphan_file", "removed_on_5_10"):
        for file in deleted(ext4kit, unpacked(name).image):
            assert (file["deleted_at"] is None) == (file["grade"] == "carved")
            assert file["dtime"] in (None, file["deleted_at"])
            if file["deleted_at_ground"] == "commit":
                assert file["deleted_at"] == file["deleted_between"][1]["time"]
            grounds.add(file["deleted_at_ground"])
    assert grounds == {"freed", "commit", None}


def bounds(*states: State) -> list[Any]:
    """(time, ground) of the bounds of the instances of some states, a candidate each."""
    columns = {name: np.array([one[name] for one in states]) for name in states[0]}
    life = columns["life"]
    last = np.flatnonzero(np.append(life[1:] != life[:-1], True))
    gone = (columns["links_count"] == 0) & (columns["dtime"] > INODES)
    history: Any = SimpleNamespace(
        states=SimpleNamespace(table=ToldInodes(**columns), instance=life),
        last_rows=last, number=columns["number"][last], is_freed=gone,
    )  # fmt: skip
    found: Any = SimpleNamespace(state_row=last, superseded=np.zeros(len(last), bool))
    bound, unlinked = _bounds(history, found)
    grounds = np.where(unlinked, DeletionGround.UNLINKED, DeletionGround.REUSED).tolist()
    pairs = zip(bound.tolist(), grounds, strict=True)
    return [(time, ground) if time else None for time, ground in pairs]


def test_the_next_file_with_an_inode_number_was_created_after_the_deletion() -> None:
    first, second = state(life=0), state(life=1, crtime=LATER, ctime=LATER)
    other = state(life=2, number=13, crtime=LATER + 1)
    assert bounds(first, second, other) == [(LATER, DeletionGround.REUSED), None, None]
    later_change = state(life=0, ctime=LATER + SECOND)
    assert bounds(later_change, second)[0] is None  # they cannot both be right
    small = second | {"extra_isize": 0}  # its inode has no creation time
    assert bounds(first, small)[0] is None


def test_a_freed_inode_is_not_dated_by_its_ctime() -> None:
    assert bounds(state(ctime=LATER, **GONE)) == [(LATER, DeletionGround.UNLINKED)]
    assert bounds(state(ctime=LATER, dtime=MADE // SECOND, **GONE)) == [None]
