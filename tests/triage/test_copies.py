"""Of files that are copies of each other, a rule shows the first one and names the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import Sighting, TriageOptions, triage
from sample_images.recipes import machine
from tests.report.scenes import acting, fresh

FIRST, COPY = b"/home/anna/.ssh/authorized_keys", b"/home/bob/.ssh/authorized_keys"


def keys_after(image: Path, command: str) -> dict[bytes | None, Sighting]:
    """The sightings of keys, after a command that makes the second file."""
    with acting(fresh(image)) as root:
        for user in ("anna", "bob"):
            (root / f"home/{user}/.ssh").mkdir(parents=True)
        (root / FIRST.decode()[1:]).write_bytes(b"ssh-ed25519 AAAA anna\n")
        machine.sync(root)
        cp = f"cd {root / 'home'}; {command}"
        subprocess.run(["sh", "-ec", cp], check=True)
        machine.sync(root)
    with ext4kit.open(image) as opened:
        extent = TriageOptions(sources=JOURNAL_ONLY, verify=False, names=False)
        signs = triage(opened.volume().filesystem(), extent).suspicions
    return {
        seen.path: seen for one in signs if one.rule.code == "ssh-keys" for seen in one.sightings
    }


@pytest.mark.kernel
def test_a_copy_with_its_time_is_named_by_the_first(needs_kernel: None, tmp_path: Path) -> None:
    seen = keys_after(tmp_path / "image", "cp -p anna/.ssh/authorized_keys bob/.ssh/")
    assert set(seen) == {FIRST}
    assert COPY.decode() in seen[FIRST].note


@pytest.mark.kernel
@pytest.mark.parametrize(
    "command",
    [
        "cp anna/.ssh/authorized_keys bob/.ssh/",
        "sed s/AAAA/AAAB/ anna/.ssh/authorized_keys > bob/.ssh/authorized_keys\n"
        "touch -r anna/.ssh/authorized_keys bob/.ssh/authorized_keys",
    ],
    ids=["another time", "another key"],
)
def test_another_time_or_content_is_shown(needs_kernel: None, tmp_path: Path, command: str) -> None:
    assert set(keys_after(tmp_path / "image", command)) == {FIRST, COPY}
