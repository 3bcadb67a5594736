"""Conditions of rules against files whose state the kernel's tools made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.errors import RequestError
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import TriageOptions, triage
from ext4kit.triage.rules.patterns import expanded
from ext4kit.triage.rules.reading import read_rules
from sample_images.recipes import machine
from tests.report.scenes import acting, put
from tests.triage.test_reading_rules import RULE, written


def found_by(image: Path, folder: Path, keys: str, look: str = "[live]") -> dict[bytes, str]:
    """Path -> note of the files that match a rule with these keys."""
    text = RULE.replace("[live]", look).replace("paths: /etc/**\n", keys)
    rules = read_rules([written(folder, text)])
    with ext4kit.open(image) as opened:
        extent = TriageOptions(sources=JOURNAL_ONLY, verify=False, names=False, rules=rules)
        signs = triage(opened.volume().filesystem(), extent).suspicions
    return {
        seen.path or b"": seen.note
        for sign in signs
        if sign.rule.code == "our-rule"
        for seen in sign.sightings
    }


def made(folder: Path, *options: str) -> Path:
    image = folder / "image"
    machine.make_file_system(image, 16 << 20, ("-t", "ext4", "-J", "size=4", *options))
    return image


@pytest.mark.kernel
@pytest.mark.parametrize("inode_size", [128, 256, 1024])
def test_attributes_are_found_wherever_they_are_stored(tmp_path: Path, inode_size: int) -> None:
    image = made(tmp_path, "-I", str(inode_size))
    with acting(image) as root:
        for name, size in (("none", 0), ("small", 4), ("large", 900)):
            path = put(root / name)
            if size:
                os.setxattr(path, "user.mark", b"x" * size)
        (root / "link").symlink_to("small")
    assert set(found_by(image, tmp_path, "needs: [attributed]\n")) == {b"/small", b"/large"}
    by_value = "attributes: {user.mark: '\\Ax{5}'}\n"
    assert set(found_by(image, tmp_path, by_value)) == {b"/large"}


@pytest.mark.kernel
def test_files_of_users_are_told_from_those_of_services(tmp_path: Path) -> None:
    image = made(tmp_path)
    with acting(image) as root:
        for uid in (0, 33, 999, 1000, 60000, 65534, 100_000):
            os.chown(put(root / "etc" / str(uid)), uid, 1000)
    keys = "paths: /etc/**\nneeds: [of a user]\n"
    assert set(found_by(image, tmp_path, keys)) == {b"/etc/1000", b"/etc/60000"}


@pytest.mark.kernel
def test_comment_lines_do_not_count_and_continued_ones_are_joined(tmp_path: Path) -> None:
    image = made(tmp_path)
    with acting(image) as root:
        put(root / "etc/continued", b"run = \\\n  evil\n")
        put(root / "etc/comment", b"# run = evil\n  ;run = evil\nrun = \\\n")
        put(root / "etc/after", b"# a comment \\\nrun = evil\n")
    keys = "paths: /etc/**\ncontent: 'run =\\s*evil'\ncomments: '[#;]'\n"
    assert set(found_by(image, tmp_path, keys)) == {b"/etc/continued", b"/etc/after"}


@pytest.mark.kernel
def test_a_former_version_matches_by_what_the_file_has_no_longer(tmp_path: Path) -> None:
    image = made(tmp_path)
    with acting(image) as root:
        for name, lines in (
            ("kept", b"evil 1\n"),
            ("lost", b"evil 1\nevil 2\n"),
            ("gone", b"evil 3\n"),
        ):
            put(root / "etc" / name, lines)
        machine.sync(root)
        for name in ("kept", "lost"):
            put(root / "etc/new", b"evil 1\nother\n").rename(root / "etc" / name)
        (root / "etc/gone").unlink()
    keys = "paths: /etc/**\ncontent: '^evil \\d'\n"
    found = found_by(image, tmp_path, keys, "[deleted]")
    assert set(found) == {b"/etc/lost", b"/etc/gone"}
    assert found[b"/etc/lost"] == "evil 2; the present file has it no longer"
    assert found[b"/etc/gone"] == "evil 3"


@pytest.mark.kernel
def test_added_lines_are_those_that_a_former_version_had_not(tmp_path: Path) -> None:
    image = made(tmp_path)
    with acting(image) as root:
        put(root / "etc/group", b"sudo:x:27:anna\nadm:x:4:\n")
        put(root / "etc/same", b"sudo:x:27:anna\n")
        put(root / "etc/new", b"sudo:x:27:eve\n")
        machine.sync(root)
        put(root / "etc/.g", b"sudo:x:27:anna\nadm:x:4:eve\n").rename(root / "etc/group")
        put(root / "etc/.s", b"sudo:x:27:anna\nusers:x:100:\n").rename(root / "etc/same")
    found = found_by(image, tmp_path, "paths: /etc/*\nadded: '^(sudo|adm):[^\\n]*\\w$'\n")
    assert found == {b"/etc/group": "adm:x:4:eve"}


def test_a_rule_with_added_looks_at_live_files_alone(tmp_path: Path) -> None:
    text = RULE.replace("[live]", "[live, deleted]") + "added: '^x'\n"
    with pytest.raises(RequestError, match="added needs look"):
        read_rules([written(tmp_path, text)])


def test_an_unknown_phrase_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no phrase <<odd-thing>>; there are"):
        read_rules([written(tmp_path, RULE + "content: '<<odd-thing>>'\n")])


@pytest.mark.parametrize(
    "pattern", ["/{a{b,c},d}/x{1,2}", "/{,usr/}lib{,64}/{x,y{1,2{3,4}}}", "/a"]
)
def test_nested_braces_stand_for_what_bash_says(pattern: str) -> None:
    said = subprocess.run(
        ["bash", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True
    )
    assert sorted(expanded(pattern)) == sorted(said.stdout.split())


def test_many_nested_alternatives_are_not_multiplied() -> None:
    inner = ",".join(f"/{name}/{{x,y,z}}" for name in "abcdefghijklmnop")
    assert len(expanded("{" + inner + "}")) == 3 * 16
