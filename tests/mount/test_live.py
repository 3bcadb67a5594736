"""The live files of a mount are those that the kernel's own mount shows."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.filesystem import matrix
from tests.mount.mounting import Facts, facts_below, missing, mounted

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.kernel,
]
COMBINATIONS = (
    "default", "1k_blocks", "inline_data", "ea_inode", "bigalloc", "ext3_1k", "ext2", "inode_128",
    "unreplayed", "fast_commit", "no_filetype", "meta_bg", "no_checksums",
)  # fmt: skip


@contextmanager
def by_kernel(built: matrix.Built, folder: Path) -> Iterator[Path]:
    """The kernel's read-only mount, of a copy that it has replayed if the journal needs it."""
    image = built.image
    if built.combination.unreplayed:
        image = folder / "replayed.img"
        matrix.run("cp --sparse=always", built.image, image)
        with matrix.mounted(image):
            pass
    with matrix.mounted(image, "ro,noload") as root:
        yield root


@pytest.mark.heavy
@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_live_file_is_as_the_kernel_shows_it(name: str, tmp_path: Path) -> None:
    built = matrix.built(name)
    with by_kernel(built, tmp_path) as root:
        expected = facts_below(root)
    with mounted(built.image) as mount:
        found = facts_below(mount.root / "live")
    assert found.keys() == expected.keys()
    wrong = {
        (path, key): (found[path].get(key), value)
        for path, facts in expected.items()
        for key, value in facts.items()
        if found[path].get(key) != value and not (name == "fast_commit" and _is_dated(key, facts))
    }
    assert not wrong, (len(wrong), list(wrong.items())[:5])


def _is_dated(key: str, facts: Facts) -> bool:
    """Whether the kernel sets this value when it replays fast commits: times of directories."""
    return key in ("mtime_ns", "ctime_ns") and stat.S_ISDIR(int(str(facts["mode"])))


def test_usual_programs_read_the_mount(tmp_path: Path) -> None:
    built = matrix.built("1k_blocks")
    with mounted(built.image) as mount:
        live = mount.root / "live"
        for folder in ("sizes", "links", "names"):
            (copy := tmp_path / folder).mkdir()
            subprocess.run(["cp", "-a", f"{live}/{folder}/.", copy], check=True)
            subprocess.run(["diff", "-r", "--no-dereference", live / folder, copy], check=True)
        with (tmp_path / "tree.tar").open("wb") as archive:
            words: list[str | Path] = ["tar", "-C", live, "-cf", "-", "sizes", "links"]
            subprocess.run(words, stdout=archive, check=True)
        counted = subprocess.run(["find", live], capture_output=True, check=True).stdout
        assert len(counted.splitlines()) > 100
        done = subprocess.run(["grep", "-rc", "x", live / "sizes"], capture_output=True)
        assert done.returncode in (0, 1)
