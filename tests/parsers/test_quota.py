"""Quota files: what debugfs lists of those that e2fsck wrote."""

from __future__ import annotations

import os

import pytest

from ext4kit.errors import CorruptError
from ext4kit.parsers.quota import BLOCK, MAGICS, parse_quota
from tests.parsers.reference import Image, make_image, run

KINDS = ("user", "group", "project")  # in order of `MAGICS`
OWNERS = ((5, 6, 7), (70_000, 5, 3_000_000_000), (3_000_000_000, 80_000, 0))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("quota")
    (folder / "tree").mkdir()
    for number, size in enumerate((1, 5000, 70_000)):
        (folder / "tree" / f"file-{number}").write_bytes(os.urandom(size))
    image = make_image(
        folder, 8, "-b", "1024", "-O", "quota,project", "-E", "quotatype=usrquota:grpquota:prjquota"
    )
    for number, owners in enumerate(OWNERS):
        for field, owner in zip(("uid", "gid", "projid"), owners, strict=True):
            image.debugfs(f"set_inode_field /file-{number} {field} {owner}", write=True)
    run("e2fsck", "-fy", image.path, accept=(0, 1))
    return image


def listed(image: Image, kind: str) -> list[tuple[int, int, int]]:
    """(id, bytes, inodes) of each line of debugfs."""
    rows = [line.split() for line in image.debugfs(f"list_quota {kind}").splitlines()]
    return sorted((int(row[0]), int(row[1]), int(row[4])) for row in rows if row[0].isdigit())


def quota_file(image: Image, kind: str) -> bytes:
    target = f"<{image.header[f'{kind.title()} quota inode']}>"
    return b"".join(map(image.block, image.data_blocks(target)))


@pytest.mark.parametrize("kind", KINDS)
def test_usage_is_what_debugfs_lists(image: Image, kind: str) -> None:
    expected = listed(image, kind)
    assert len(expected) >= 3
    columns = parse_quota(quota_file(image, kind), KINDS.index(kind))
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_is_refused(image: Image, kind: str) -> None:
    for other in set(range(len(MAGICS))) - {KINDS.index(kind)}:
        with pytest.raises(CorruptError, match="magic"):
            parse_quota(quota_file(image, kind), other)


def test_what_a_cut_file_points_at_in_vain_is_passed_over(image: Image) -> None:
    data = quota_file(image, "user")
    everyone = set(parse_quota(data, 0)[0].tolist())
    for blocks in range(1, len(data) // BLOCK):
        assert set(parse_quota(data[: blocks * BLOCK + 7], 0)[0].tolist()) <= everyone
