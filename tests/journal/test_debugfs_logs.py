"""Logs that debugfs wrote: the tag formats that today's kernel no longer makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.journal import Log, replay
from tests.environment import missing
from tests.journal.kernel_log import opened, run

CONTENT = bytes(range(256)) * 4
BLOCKS = (7001, 7002, 7003)

FORMATS = [
    ("-O ^64bit", "-c -v 2", 2),
    ("-O 64bit", "-c -v 2", 2),
    ("-O ^64bit", "-c -v 3", 3),
    ("-O 64bit", "-c -v 3", 3),
    ("-O ^64bit,^metadata_csum", "-c -v 1", 1),
    ("-O 64bit,^metadata_csum", "", 0),
    ("-O ^64bit,^metadata_csum", "", 0),
]


@pytest.mark.parametrize(("mkfs", "journal", "version"), FORMATS)
def test_every_tag_format_is_replayed(
    mkfs: str, journal: str, version: int, tmp_path: Path
) -> None:
    if reason := missing("debugfs", "mke2fs"):
        pytest.skip(reason)
    image, content, script = (tmp_path / name for name in ("a.img", "content", "script"))
    with image.open("wb") as file:
        file.truncate(16 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", *mkfs.split(), image)
    content.write_bytes(CONTENT)
    revokes = [] if version == 1 else [BLOCKS[1]]  # debugfs gives them a wrong checksum v1
    requests = [f"jo {journal}", *(f"jw -b {block} {content}" for block in BLOCKS)]
    requests += [f"jw -r {block}" for block in revokes]
    script.write_text("\n".join([*requests, "jc", ""]))
    done = subprocess.run(
        ["debugfs", "-w", "-f", str(script), str(image)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr

    fs = opened(image)
    log = Log.open(fs)
    assert log is not None
    assert log.features.checksum_version == version
    assert sorted(log.tags.block.tolist()) == list(BLOCKS)
    assert log.tags.valid.all()
    expected = True if version else None
    assert {transaction.checksum_ok for transaction in log.transactions} <= {expected, None}
    blocks = replay(log)
    rows = blocks.read_many(np.array(BLOCKS))
    replayed = [row.tobytes() == CONTENT for row in rows]
    assert replayed == [block not in revokes for block in BLOCKS]
    assert blocks.plan.revoked == len(revokes)
