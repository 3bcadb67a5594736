"""Fifty option sets by chance, and those that showed a fault once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.environment import missing, skip_if_revision_0
from tests.environment.kernel import missing_for_kernel
from tests.filesystem.options import running
from tests.filesystem.options.drawing import OptionSet

SETS = 20
TOOLS = ("chattr", "debugfs", "e2fsck", "e4defrag", "mke2fs", "resize2fs", "tune2fs")

# Options as mke2fs takes them, the block size, the seed of the filling, the changes.
FOUND = {
    "descriptors behind a boot block": ("-O bigalloc,meta_bg,^resize_inode", 1024, 0, ()),
    "clusters of bad blocks": ("-O bigalloc,^resize_inode", 1024, 0, ()),
    "clusters of the resize inode": ("-O bigalloc,resize_inode -C 8192 -g 512", 4096, 0, ()),
    "inline file with a hole": ("-O inline_data -I 256", 1024, 1, ()),
    "quota of inline links": ("-O inline_data,quota,project -I 256", 4096, 0, ()),
    "backups without resize_inode": ("-g 2048", 1024, 0, ("no resize_inode",)),
    "copies in the log that the disk contradicts": ("-O inline_data -I 256", 2048, 0, ()),
    "one reserved block, not named": ("-N 292 -E packed_meta_blocks=1", 4096, 1, ("shrink",)),
    "a revision that the kernel raised": ("-t ext2 -r 0 -g 1016", 4096, 3, ()),
    "times after 2262": ("-O ^has_journal", 4096, 0, ()),
}
BLOCKS = {"one reserved block, not named": 3457}  # so few that resize2fs moves some


@pytest.fixture(autouse=True)
def _possible(needs_kernel: None) -> None:
    if reason := missing_for_kernel() or missing(*TOOLS):
        pytest.skip(reason)


def _told(tally: running.Tally) -> str:
    return "\n".join(f"set {seed}, {stage}: {what}" for seed, stage, what in tally.wrong)


@pytest.mark.kernel
def test_option_sets_by_chance_read_as_they_were_made(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    first = request.config.option.seed
    tally = running.run(range(first, first + SETS))
    with capsys.disabled():
        print(f"\noption sets {first} to {first + SETS - 1}: {tally.line()}")
    assert not tally.wrong, _told(tally)
    assert tally.counts["clean"] > SETS // 3
    assert tally.counts["right"] > 0


@pytest.mark.kernel
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_stays_mended(name: str, tmp_path: Path) -> None:
    options, block_size, seed, changes = FOUND[name]
    skip_if_revision_0(options)
    chosen = OptionSet(
        seed=seed,
        options=(*(() if "-t " in options else ("-t", "ext4")), *options.split()),
        block_size=block_size,
        blocks=BLOCKS.get(name, 6000),
        room=BLOCKS.get(name, 6000),
        bad_blocks=(4001, 4003) if name == "clusters of bad blocks" else (),
        mount_options="noatime,data=journal" if "log" in name else "noatime",
        changes=changes,
    )
    tally = running.try_set(chosen)
    assert not tally.wrong, _told(tally)
    assert tally.counts["clean"] == 1, tally.unclean
    assert tally.counts["changes"] == len(changes)
