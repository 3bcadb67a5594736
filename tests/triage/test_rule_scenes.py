"""Each rule is matched by its positive scene and not by its negative one, as the kernel acts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import Rule, TriageOptions, triage
from ext4kit.triage.rules.reading import own_rules
from ext4kit.triage.rules.rule import Look
from sample_images.recipes import machine
from tests.report.scenes import acting, plain
from tests.report.test_suspicions import found

SHELL = (
    # commits this file system alone; then the clock of inodes, which moves on in ticks, is another
    "sync() { command sync -f .; sleep 0.05; }\nset -eu\nPATH=/usr/sbin:/sbin:$PATH\n"
)


@pytest.fixture(scope="module")
def system(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain(tmp_path_factory.mktemp("rule-scenes"))


def signs_after(system: Path, script: str, image: Path) -> dict[str, set[bytes | None]]:
    """The signs of the plain system after a script has run in its root directory."""
    machine.copy_sparse(system, image)
    with acting(image) as root:
        subprocess.run(["sh", "-c", SHELL + script], cwd=root, check=True, capture_output=True)
    with ext4kit.open(image) as opened:
        extent = TriageOptions(sources=JOURNAL_ONLY, verify=False, names=False)
        return found(triage(opened.volume().filesystem(), extent))


WITH_SCENES = [rule for rule in own_rules() if rule.positive]


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("rule", WITH_SCENES, ids=lambda rule: rule.code)
def test_the_positive_scene_is_seen(system: Path, tmp_path: Path, rule: Rule) -> None:
    assert rule.code in signs_after(system, rule.positive, tmp_path / "image")


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("rule", WITH_SCENES, ids=lambda rule: rule.code)
def test_the_negative_scene_is_not(system: Path, tmp_path: Path, rule: Rule) -> None:
    assert rule.code not in signs_after(system, rule.negative, tmp_path / "image")


def test_every_rule_has_both_scenes() -> None:
    """But those of facts that other modules collect, and some that need a minute's wait."""
    elsewhere = {Look.OWN, Look.HINTS}
    without = {
        rule.code
        for rule in own_rules()
        if not (rule.positive and rule.negative) and not rule.look & elsewhere
    }
    assert without == {"times-set-back", "borrowed-time"}
