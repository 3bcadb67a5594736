"""Rules of a user: what is wrong with them is told in one line, and what is right takes effect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ext4kit.errors import RequestError
from ext4kit.triage.rules.reading import own_rules, read_rules
from ext4kit.triage.rules.rule import Look, Trait, Weight
from tests.conftest import Cli, Images

PAGE = Path(__file__).parents[2] / "docs/rules.md"
RULE = """
code: our-rule
weight: look
title: A title
why: it is one of ours
look: [live]
paths: /etc/**
"""


def written(folder: Path, text: str, name: str = "ours.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_example_of_the_page_is_a_rule(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    *_, rule = read_rules([written(tmp_path, example[1], "example.yaml")])
    assert (rule.code, rule.family, rule.weight) == ("our-backdoor", "example", Weight.STRONG)
    assert rule.look == {Look.LIVE, Look.DELETED, Look.EVENTS}
    assert rule.needs == {Trait.REGULAR, Trait.STORED}
    assert rule.accepts(b"/usr/bin/netdiagd")
    assert not rule.accepts(b"/usr/bin/netdiag")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("code: our-rule", "code: Our Rule"), "code 'Our Rule' is not of the form"),
        (("weight: look", "weight: heavy"), "weight has 'heavy'; there are strong, look"),
        (("title: A title\n", ""), "title is missing"),
        (("look: [live]", "look: [alive]"), "look has 'alive'; there are live, deleted"),
        (("look: [live]\n", ""), "look is missing"),
        (("look: [live]", "look: [events]"), "look events and events need each other"),
        (("paths: /etc/**", "paths: etc/*"), "a pattern of paths begins with /"),
        (("paths: /etc/**", "paths: <etc>/*"), "there is no place <etc>; there are web, temp"),
        (("paths: /etc/**", "path: /etc/**"), "there is no key path"),
        (("paths: /etc/**", "content: '['"), "content is no regular expression"),
        (("paths: /etc/**", "attack: [persistence]"), "attack 'persistence' is not of the form"),
        (("paths: /etc/**", "needs: [shiny]"), "needs has 'shiny'; there are regular"),
        (("paths: /etc/**", "needs: {regular: yes}"), "needs is neither a text nor a list"),
        (("paths: /etc/**", "hints: [late]"), "hints has 'late'; there are before-creation"),
        (("paths: /etc/**", "attributes: [user.x]"), "attributes is no list of names"),
        (("paths: /etc/**", "paths: ['/" + "{1,2,3,4,5,6,7,8,9}" * 5 + "']"), "stands for more"),
        (("code: our-rule", "code: [our-rule"), "line"),
        ((RULE, "- a list"), "a rule is a list of keys with values"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    text = "# a comment\n" + RULE
    assert text.count(change[0]) == 1
    path = written(tmp_path, text.replace(*change))
    with pytest.raises(RequestError) as caught:
        read_rules([path])
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{path}, line ")
    assert "\n" not in str(caught.value)


def test_a_rule_takes_the_place_of_one_with_its_code(tmp_path: Path) -> None:
    path = written(tmp_path, RULE.replace("our-rule", "preload"))
    found = read_rules([path])
    assert [rule.code for rule in found] == [rule.code for rule in own_rules()]
    assert next(rule for rule in found if rule.code == "preload").title == "A title"


def test_a_code_stands_for_one_rule(tmp_path: Path) -> None:
    written(tmp_path, RULE, "one.yaml")
    written(tmp_path, RULE, "two.yml")
    with pytest.raises(RequestError, match="our-rule is defined twice"):
        read_rules([tmp_path])


def test_a_folder_without_rules_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no rules: there is no"):
        read_rules([tmp_path])


def test_the_command_lists_explains_and_counts(
    tmp_path: Path, ext4kit: Cli, unpacked: Images
) -> None:
    path = written(tmp_path, RULE.replace("/etc/**", "/**"))
    listed = ext4kit("rules", "--rules", path)
    assert f"{len(own_rules()) + 1} rules" in listed.stdout
    one = ext4kit("rules", "our-rule", "--rules", path)
    assert "why: it is one of ours" in one.stdout
    image = unpacked("rm_rf_tree").image
    (record,) = map(
        json.loads,
        ext4kit("rules", "our-rule", "--rules", path, "--on", image, "--json").stdout.splitlines(),
    )
    names = ext4kit("ls", "-r", image, "--json").stdout.splitlines()
    assert record["matches"] == len({json.loads(name)["inode"] for name in names})
    matched = ext4kit("rules", "our-rule", "--rules", path, "--on", image).stdout
    shown = [json.loads(name)["path"] for name in names]
    assert "there  " in matched
    assert any(f"  there  {one}" in matched for one in shown)
    wrong = ext4kit("rules", "our-rul", "--rules", path)
    assert wrong.returncode == 2
    assert "near: our-rule" in wrong.stderr
