"""Every feature bit and default mount option has the name that e2fsprogs prints for it."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from ext4kit.parsers.features import DEFAULT_MOUNT_OPTIONS, Compat, Features, Incompat, RoCompat
from ext4kit.parsers.superblock import SUPERBLOCK, SUPERBLOCK_OFFSET
from tests.parsers.reference import Image, make_image, run

WORDS = {
    "s_feature_compat": Compat,
    "s_feature_incompat": Incompat,
    "s_feature_ro_compat": RoCompat,
}
NAMED_BY_THE_KERNEL_ALONE = {"btree_dir", "has_snapshot"}
NOT_OPENED = {"compression", "journal_dev", "dirdata"} | {  # by debugfs
    f"FEATURE_I{bit}" for bit in (5, 11, *range(18, 32))
}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """An image without features."""
    image = make_image(tmp_path, 2, "-b", "1024", "-O", "none")
    for word in WORDS:
        set_word(image, word, 0)
    image.write(SUPERBLOCK_OFFSET + SUPERBLOCK.offset_of("s_desc_size"), b"\x40")  # for 64bit
    return image


def set_word(image: Image, name: str, value: int) -> None:
    image.write(SUPERBLOCK_OFFSET + SUPERBLOCK.offset_of(name), struct.pack("<I", value))


@pytest.mark.parametrize("word", WORDS)
def test_each_feature_has_the_name_that_debugfs_prints(image: Image, word: str) -> None:
    unnamed = set()
    for bit in range(32):
        set_word(image, word, 1 << bit)
        compat, incompat, ro_compat = ((word == each) << bit for each in WORDS)
        found = Features(Compat(compat), Incompat(incompat), RoCompat(ro_compat))
        (name,) = found.names
        printed = re.findall(r"^Filesystem features: +(\S+)$", image.debugfs("features"), re.M)
        if printed != [name]:
            unnamed.add(name)
            letter = word.removeprefix("s_feature_")[0].upper()
            assert printed in ([], [f"FEATURE_{letter}{bit}"])
    assert unnamed <= NAMED_BY_THE_KERNEL_ALONE | NOT_OPENED


def test_each_default_mount_option_has_the_name_that_dumpe2fs_prints(image: Image) -> None:
    for value, name in DEFAULT_MOUNT_OPTIONS.items():
        set_word(image, "s_default_mount_opts", value)
        printed = re.findall(
            r"^Default mount options: +(.*)$", run("dumpe2fs", "-h", image.path), re.M
        )
        assert printed == [name]
