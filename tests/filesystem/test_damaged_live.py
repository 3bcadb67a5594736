"""A live file that the kernel refuses is written all the same, and what is wrong is told."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit as library
from sample_images.recipes.machine import mounted
from tests.conftest import Cli
from tests.fuzz import images
from tests.hostile.victim import MAP, Victim

PATH = "/sub/file 6"
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(bool(images.missing()), reason=images.missing()),
]


def _out_of_order(victim: Victim) -> None:
    victim.root(PATH, (4, 4, 5000), (0, 4, 5100))
    victim.size(PATH, 8 * 1024)


def _overlapping(victim: Victim) -> None:
    victim.root(PATH, (0, 4, 5000), (2, 4, 5100))
    victim.size(PATH, 6 * 1024)


def _bad_checksum(victim: Victim) -> None:
    place = victim.inode(PATH)
    victim.image[place.offset + MAP + 40] ^= 1  # its checksum is not mended


DAMAGE: dict[str, tuple[Callable[[Victim], None], str, int]] = {
    "out of order": (_out_of_order, "live-map-damaged", errno.EUCLEAN),
    "overlapping": (_overlapping, "live-map-damaged", errno.EUCLEAN),
    "checksum": (_bad_checksum, "live-inode-checksum", errno.EBADMSG),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_the_kernel_refuses_is_told_where_it_is_read(
    ext4kit: Cli, needs_kernel: None, name: str, tmp_path: Path
) -> None:
    damage, code, error = DAMAGE[name]
    victim = Victim()
    damage(victim)
    image = victim.write(tmp_path / "image")
    with mounted(image, "ro,noload") as top, pytest.raises(OSError) as refused:
        (top / PATH[1:]).read_bytes()
    assert refused.value.errno == error
    text = f"({errno.errorcode[error]})"
    done = ext4kit("cat", image, PATH)
    assert done.returncode == 1
    assert text in done.stderr
    done = ext4kit("extract", image, "/sub", "-o", tmp_path / "out")
    assert done.returncode == 1
    lines = (tmp_path / "out/manifest.jsonl").read_text().splitlines()
    found = {one["path"]: one for one in map(json.loads, lines)}
    assert [each["code"] for each in found[PATH]["reasons"]] == [code]
    assert found[PATH]["output"]
    assert [path for path, one in found.items() if one["reasons"]] == [PATH]
    with library.open(image) as opened:
        fs = opened.volumes[0].filesystem()
        fs.open(PATH).close()
        assert any(text in problem.what for problem in fs.problems)
