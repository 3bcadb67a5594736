"""Each rule is met by what it is about, and by nothing on a system that was left alone."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.report.triage.case import story_text
from ext4kit.triage import Triage, TriageOptions, triage
from ext4kit.triage.rules.reading import own_rules
from ext4kit.triage.rules.rule import Look
from ext4kit.triage.suspicions.search import _RuleMatcher
from sample_images.intrusion import unpack
from sample_images.recipes import machine
from tests.report.scenes import ACTS, GROUPS, HISTORY, acting, broken_into, fresh, plain, put, shown
from tests.writing_kernel import IN_USER_MODE

PACKAGED = {
    "packaged-changed", "packaged-data-changed", "packaged-rights", "foreign-program",
    "package-list",
}  # fmt: skip
QUICK = TriageOptions(sources=JOURNAL_ONLY, verify=False)


LAG = 10**9 if IN_USER_MODE else 10**7  # ns


def summary_of(image: Path) -> Triage:
    with ext4kit.open(image) as opened:
        return triage(opened.volume().filesystem(), QUICK)


def found(summary: Triage) -> dict[str, set[bytes | None]]:
    return {one.rule.code: {seen.path for seen in one.sightings} for one in summary.suspicions}


@pytest.fixture(scope="module")
def plain_image(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain(tmp_path_factory.mktemp("scenes"))


@pytest.mark.kernel
def test_a_plain_system_gives_no_alarm(plain_image: Path) -> None:
    assert found(summary_of(plain_image)) == {}


@pytest.mark.kernel
@pytest.mark.parametrize("codes", GROUPS, ids=lambda codes: codes[0])
def test_each_act_is_seen_and_named(plain_image: Path, codes: tuple[str, ...]) -> None:
    seen = found(summary_of(broken_into(plain_image, codes)))
    for code in codes:
        assert ACTS[code][1] in seen.get(code, set()), code


def test_every_act_is_of_a_rule() -> None:
    """Rules with scenes of their own are acted out in tests/triage/test_rule_scenes.py."""
    assert set(ACTS) <= {rule.code for rule in own_rules()}
    assert {code for group in GROUPS for code in group} == set(ACTS)


@pytest.mark.kernel
def test_times_changed_behind_the_journal_are_seen(plain_image: Path) -> None:
    image = plain_image.with_name("edited.img")
    machine.copy_sparse(plain_image, image)
    command = "set_inode_field /var/www/html/new.html crtime @1000000000"
    subprocess.run(["debugfs", "-w", "-R", command, image], capture_output=True, check=True)
    assert b"/var/www/html/new.html" in found(summary_of(image))["edited-outside"]


@pytest.mark.kernel
def test_a_program_deleted_while_it_was_open_is_seen(tmp_path: Path) -> None:
    image = fresh(tmp_path / "running.img")
    with acting(image) as root:
        program = put(root / "opt/agent", b"\x7fELF" * 3000, 0o755)
        other = put(root / "opt/data")
        machine.sync(root)
        with program.open("rb"), other.open("rb"):
            program.unlink()
            other.unlink()
            machine.sync(root)
            machine.copy_sparse(image, tmp_path / "cut.img")
    seen = found(summary_of(tmp_path / "cut.img"))
    assert seen == {"running-deleted": {b"/opt/agent"}}


@pytest.mark.kernel
def test_a_sign_has_a_story_with_both_times_of_each_step(tmp_path: Path) -> None:
    """The inode's times are those that stat gave; commits lie between the calls of sync."""
    image = fresh(tmp_path / "story.img")
    syncs = []
    with acting(image) as root:
        machine.sync(root)
        syncs.append(time.time_ns())
        program = put(root / "usr/local/bin/helper", b"\x7fELF", 0o755)
        born = subprocess.run(["stat", "-c", "%.W", program], capture_output=True, check=True)
        machine.sync(root)
        syncs.append(time.time_ns())
        program.chmod(0o4755)
        changed = program.stat().st_ctime_ns
        machine.sync(root)
        syncs.append(time.time_ns())
        program.unlink()
        machine.sync(root)
        syncs.append(time.time_ns())
    sign = next(one for one in summary_of(image).suspicions if one.rule.code == "setuid-gained")
    story = sign.sightings[0].story
    assert [step.what for step in story] == ["made", "setuid", "deleted"]
    made, setuid, deleted = story
    seconds, _, fraction = born.stdout.decode().strip().partition(".")
    assert made.time == int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
    assert setuid.time == changed
    assert deleted.time is not None and 0 <= syncs[3] // 10**9 - deleted.time // 10**9 <= 1
    for step, before, after in zip(story, syncs, syncs[1:], strict=False):
        assert step.commit is not None and before - LAG <= step.commit <= after
    text = story_text(story)
    assert [part.split()[0] for part in text.split(" -> ")] == ["made", "setuid", "deleted"]
    assert text.count("committed") == 3


def test_a_file_whose_entry_says_directory_holds_no_paths(tmp_path: Path) -> None:
    image = fresh(tmp_path / "lie.img")
    subprocess.run(["debugfs", "-w", "-R", "write /dev/null lie", image], check=True)
    data = image.read_bytes()
    image.write_bytes(data.replace(b"\x03\x01lie", b"\x03\x02lie"))
    assert data.count(b"\x03\x01lie") == 1
    with ext4kit.open(image) as opened:
        matcher = _RuleMatcher(opened.volume().filesystem(), b"", (), 0)
        assert matcher.inode_at(b"/lie/passwd") == 0
        assert matcher.inode_at(b"/lie") > 0


def test_the_story_of_the_sample_is_told(tmp_path: Path) -> None:
    """What sample_images/intrusion/guest.py does, and nothing of the week before it."""
    summary = summary_of(unpack(tmp_path))
    seen = found(summary)
    assert seen["setuid-gained"] == {b"/usr/local/bin/.systemd-helper"}
    assert seen["history-removed"] == {shown(HISTORY)}
    assert seen["log-swapped"] == {b"/var/log/auth.log"}
    assert seen["start-up"] == {b"/etc/cron.d/sysstat-collect"}
    assert seen["running-deleted"] == {b"/dev/shm/.x/agent"}
    assert seen["times-set-back"] == seen["start-up"] | seen["setuid-gained"]
    times = [one.when or 0 for rule in summary.suspicions for one in rule.sightings]
    first = 1_772_331_240 * 10**9  # 2026-03-01 02:14, when they came
    assert min(times) >= first


def test_every_rule_has_a_reason_and_a_code_of_its_own() -> None:
    rules = own_rules()
    assert len({rule.code for rule in rules}) == len(rules)
    assert all(len(rule.why) > 20 and rule.attack or rule.family == "known" for rule in rules)
    alone = {rule.code for rule in rules if Look.OWN in rule.look}
    own = {"running-deleted", "lines-removed", "lines-gone"}
    wiping = {"wiped", "maybe-wiped", "disk-filled", "overwritten-deleted"}
    assert alone == {
        *own,
        *wiping,
        *PACKAGED,
        "known-bad",
        "disguise",
    }  # orphans, states, names, hashes
