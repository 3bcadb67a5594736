"""`journal list`: the transactions that debugfs sees, and blocks that are what the tools say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.journal.kernel_log import KINDS, Built, Kind, build, kernel_missing, logdump, run

pytestmark = pytest.mark.kernel

CHOSEN = (KINDS[0], KINDS[1], KINDS[4])
ROOT = 2
Listing = list[dict[str, Any]]


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda kind: kind.name)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    reason = kernel_missing()
    if reason:
        pytest.skip(reason)
    kind: Kind = request.param
    return build(kind, tmp_path_factory.mktemp("journal-list"))


def listing(ext4kit: Cli, image: Path, *options: str) -> Listing:
    done = ext4kit("journal", "list", "--json", image, *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def touched(records: Listing) -> dict[str, dict[int, dict[str, Any]]]:
    """Content -> block -> the newest record that has the block.

    A block that was revoked since is free, or has data of another file that are not in the log.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for record in records:
        for block in record["revoked"]:
            for parts in found.values():
                parts.pop(block, None)
        for part in record["touched"]:
            for block in part["blocks"]:
                for others in found.values():
                    others.pop(block, None)
                found.setdefault(part["content"], {})[block] = part
    return found


def test_every_copy_and_revoke_to_replay_is_listed(built: Built, ext4kit: Cli) -> None:
    records = listing(ext4kit, built.dirty)
    due = [record for record in records if record["state"] == "to replay"]
    dump = logdump(built.dirty, "-a")
    copies = {
        (block, record["transaction"])
        for record in due
        for part in record["touched"]
        for block in part["blocks"]
    }
    assert copies == {(block, sequence) for block, sequence, _ in dump.copies}
    revokes = {(block, each["transaction"]) for each in due for block in each["revoked"]}
    assert revokes == dump.revokes
    for record in due:
        assert record["copies"] == sum(len(part["blocks"]) for part in record["touched"])
        assert record["revokes"] == len(record["revoked"])


def test_states_follow_from_the_end_of_the_log(built: Built, ext4kit: Cli) -> None:
    states = [record["state"] for record in listing(ext4kit, built.dirty)]
    assert set(states) <= {"to replay", "checkpointed", "stale"}
    assert states[-1] == "to replay"
    assert states == sorted(states, key=["stale", "checkpointed", "to replay"].index)
    after = [record["state"] for record in listing(ext4kit, built.clean)]
    assert set(after) <= {"checkpointed", "stale"}


def test_blocks_with_a_fixed_place_are_what_dumpe2fs_says(built: Built, ext4kit: Cli) -> None:
    found = touched(listing(ext4kit, built.clean))
    text = run("dumpe2fs", built.clean)
    groups = re.split(r"(?m)^Group \d+:", text)[1:]
    for label, content in (("Block bitmap", "block bitmap"), ("Inode bitmap", "inode bitmap")):
        expected = {
            int(hit[1]): number
            for number, group in enumerate(groups)
            if (hit := re.search(rf"{label} at (\d+)", group))
        }
        assert found[content]
        for block, part in found[content].items():
            assert part["group"] == expected[block]
    tables = [
        (int(hit[1]), int(hit[2]))
        for group in groups
        if (hit := re.search(r"Inode table at (\d+)-(\d+)", group))
    ]
    assert found["inodes"]
    for block in found["inodes"]:
        assert any(first <= block <= last for first, last in tables)


def inode_at(image: Path, inode: int) -> int:
    """The block of the inode table that holds an inode, as debugfs says."""
    hit = re.search(r"located at block (\d+)", run("debugfs", "-R", f"imap <{inode}>", image))
    assert hit
    return int(hit[1])


def test_inodes_are_where_debugfs_finds_them(built: Built, ext4kit: Cli) -> None:
    inodes = touched(listing(ext4kit, built.clean))["inodes"]
    for block, part in list(inodes.items())[:6]:
        assert inode_at(built.clean, part["first_inode"]) == block
        assert inode_at(built.clean, part["last_inode"]) == block


def test_owners_are_those_that_debugfs_names(built: Built, ext4kit: Cli) -> None:
    found = touched(listing(ext4kit, built.clean))
    kinds = ["directory", "file data"] if "journal" in built.kind.mount else ["directory"]
    for content in kinds:
        parts = found[content]
        asked = run("debugfs", "-R", f"icheck {' '.join(map(str, parts))}", built.clean)
        owner = dict(re.findall(r"(?m)^(\d+)\s+(\d+)$", asked))
        assert owner
        for block, inode in owner.items():
            assert parts[int(block)]["inode"] == int(inode)


def test_the_table_names_what_was_touched(built: Built, ext4kit: Cli) -> None:
    done = ext4kit("journal", "list", built.clean)
    assert done.returncode == 0
    heading, *lines = done.stdout.splitlines()
    assert heading.split()[:4] == ["transaction", "committed", "mount", "state"]
    records = listing(ext4kit, built.clean)
    assert len(lines) == len(records)
    for line, record in zip(lines, records, strict=True):
        assert line.split()[0] == str(record["transaction"])
        assert record["state"] in line
    assert any(f"directory of inode {ROOT}" in line for line in lines)
