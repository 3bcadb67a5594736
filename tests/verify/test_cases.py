"""Verify and e2fsck on the images of e2fsprogs' own tests, where they are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ext4kit
from ext4kit.errors import UnsupportedError
from ext4kit.evidence.raw import open_raw
from ext4kit.verify import verify
from tests.cases import MISSING, records, unpack

CASES = [record for record in records() if record["e2fsck_fn_exit"] != "timeout"]
LEAST_AGREEMENT = 0.95
EXPLAINED = {  # the reasons stand in docs/verify.md
    "f_bad_gdt_csum",
    "f_uninit_enable",
    "f_desc_size_bad",
    "f_first_meta_bg_too_big",
    "f_resize_inode.s6",
    "f_resize_inode.s8",
    "f_extent_too_deep",
    "f_readonly_fsck",
    "f_zero_inode_size",
    "j_corrupt_ext_jnl_sb_csum",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    devices = [record["journal_device"] for record in CASES if record.get("journal_device")]
    unpack(folder, (*(record["image"] for record in CASES), *devices))
    return folder


def is_clean(record: dict[str, Any], images: Path) -> bool:
    """What verify says of the disk as it is: `e2fsck -fn` replays nothing either."""
    device = record.get("journal_device")
    journal = open_raw(images / device) if device else None
    try:
        with ext4kit.open(images / record["image"]) as image:
            fs = image.volume().filesystem(replay=False, journal=journal)
            return verify(fs).is_clean and not fs.problems.errors
    except UnsupportedError:
        return False


@pytest.mark.heavy
@pytest.mark.skipif(not CASES, reason=MISSING)
def test_the_verdict_is_that_of_e2fsck(images: Path) -> None:
    differing = {
        record["name"]
        for record in CASES
        if is_clean(record, images) != (record["e2fsck_fn_exit"] == 0)
    }
    assert differing <= EXPLAINED
    assert len(differing) <= (1 - LEAST_AGREEMENT) * len(CASES)
