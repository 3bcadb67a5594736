"""The conditions of contents: what is searched first, and how much is read."""

from __future__ import annotations

import re
from typing import cast

import pytest

from ext4kit.filesystem.content import Content
from ext4kit.problems import Problems
from ext4kit.triage.rules.rule import Rule, Weight
from ext4kit.triage.suspicions import conditions
from ext4kit.triage.suspicions.conditions import Conditions, Examined
from tests.triage.in_memory import InMemory


def file_of(data: bytes) -> Examined:
    return Examined(b"/x", lambda: cast("Content", InMemory(data)))


def rule_with(content: bytes | None, *mentions: bytes) -> Rule:
    pattern = None if content is None else re.compile(content)
    return Rule("ours", "ours", Weight.LOOK, "A title", "ours", mentions=mentions, content=pattern)


def test_one_of_the_texts_must_be_mentioned() -> None:
    checked = Conditions(Problems())
    rule = rule_with(b"e.al", b"$_GET", b"$_POST")
    assert checked.note(rule, file_of(b"eval $_POST")) == "eval"
    assert checked.note(rule, file_of(b"eval $_FILES")) is None
    assert checked.note(rule, file_of(b"$_POST")) is None
    assert checked.note(rule_with(None, b"key"), file_of(b"a key")) == "key"
    assert checked.note(rule_with(None, b"key"), file_of(b"a lock")) is None


def test_a_content_counts_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_BYTES", 100)
    problems = Problems()
    checked = Conditions(problems)
    one = file_of(b"x" * 60)
    for _ in range(5):
        assert checked.note(rule_with(b"x"), one) is not None
    assert not list(problems)
    assert checked.note(rule_with(b"x"), file_of(b"x" * 60)) is not None
    assert len(list(problems)) == 1
    assert checked.note(rule_with(b"x"), file_of(b"x")) is None
