"""Files that programs saved over: the old content comes back under the path it had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sample_images.recipes.machine import make_file_system, mounted, sync
from sample_images.recipes.saving.patterns import PATTERNS
from sample_images.recipes.saving.programs import installed, pattern_of
from sample_images.recipes.saving.scenes import LAYOUTS, SYNCS, build, judge
from tests.conftest import Cli

pytestmark = pytest.mark.kernel
MIB = 1 << 20
# With a commit between the steps alone, what the first step replaced was never on the disk.
WHOLE_UNTIL_BETWEEN = {
    "truncate_only", "truncate_to_a_block", "write_and_rename", "write_apart_and_rename",
    "exchange",
}  # fmt: skip
SCENES = [
    pytest.param(layout, at, marks=() if layout == "ext4" else pytest.mark.slow)
    for layout in LAYOUTS
    for at in SYNCS
]


@pytest.mark.parametrize(("layout", "sync_at"), SCENES)
def test_the_old_content_has_its_path(
    needs_kernel: None, layout: str, sync_at: str, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    verdicts = judge(image, build(image, layout, sync_at))
    assert {path: one.wrong for path, one in verdicts.items() if one.wrong} == {}
    expected = {"before": set(PATTERNS), "always": set(PATTERNS), "between": WHOLE_UNTIL_BETWEEN}
    named = {path.split(b"/")[1].decode() for path, one in verdicts.items() if one.path}
    assert named >= expected.get(sync_at, set())


@pytest.mark.parametrize(
    "layout", ["ext4", *(pytest.param(one, marks=pytest.mark.slow) for one in list(LAYOUTS)[1:])]
)
def test_what_programs_replaced_has_its_path_or_its_reason(
    needs_kernel: None, layout: str, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    ways = {name: pattern_of(name) for name in installed()}
    verdicts = judge(image, build(image, layout, "before", ways))
    assert {path: one.wrong for path, one in verdicts.items() if one.wrong} == {}
    assert [path for path, one in verdicts.items() if not (one.path or one.reused)] == []
    assert sum(one.path for one in verdicts.values()) > 0.7 * len(verdicts)


@pytest.fixture
def image(needs_kernel: None, tmp_path: Path) -> Path:
    """/d/saved was truncated, /d/new~ was /d/kept before it was removed, /d/whole never changed."""
    path = tmp_path / "disk.img"
    make_file_system(path, 64 * MIB, ("-t", "ext4", "-J", "size=4"))
    with mounted(path, "defaults") as top:
        (top / "d").mkdir()
        for name in ("saved", "kept", "whole"):
            (top / "d" / name).write_bytes(name.encode() * 2000)
        sync(top)
        (top / "d/saved").write_bytes(b"")
        (top / "d/kept").rename(top / "d/new~")
        sync(top)
        (top / "d/new~").unlink()
    return path


def test_a_file_that_exists_has_its_earlier_versions_counted(
    ext4kit: Cli, image: Path, tmp_path: Path
) -> None:
    for command in (("deleted",), ("recover", "-o", tmp_path / "none")):
        done = ext4kit(command[0], image, "/d/saved", *command[1:])
        assert done.returncode == 1
        assert "/d/saved: the file exists; 1 earlier version: add --versions" in done.stderr
    done = ext4kit("deleted", image, "/d/whole", "--versions")
    assert "no such deleted file: /d/whole; the file exists, and no earlier version" in done.stderr


def test_an_earlier_version_is_recovered_by_its_path(
    ext4kit: Cli, image: Path, tmp_path: Path
) -> None:
    done = ext4kit("recover", image, "/d/saved", "--versions", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert (tmp_path / "out/files/d/saved").read_bytes() == b"saved" * 2000


def test_a_deleted_file_is_found_by_a_path_that_it_had_before(ext4kit: Cli, image: Path) -> None:
    done = ext4kit("deleted", image, "/d/kept", "--json")
    assert done.returncode == 0
    (file,) = (line for line in map(json.loads, done.stdout.splitlines()) if "grade" in line)
    assert (file["path"], file["former_paths"]) == ("/d/new~", [{"path": "/d/kept"}])
    assert "/d/new~  [formerly /d/kept]" in ext4kit("deleted", image, "/d/kept").stdout
