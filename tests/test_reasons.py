"""The catalogue of reasons: codes are unique and well formed, sentences say the same everywhere."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest

from ext4kit import reasons
from ext4kit.reasons import CATALOGUE, Reason, coded, texts
from tests.environment import ROOT

CATALOGUE_FILE = ROOT / "ext4kit/reasons.py"
SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "ext4kit").rglob("*.py")
    if path != CATALOGUE_FILE
]


def test_each_code_is_there_once_and_names_its_constant() -> None:
    assert [
        code for code, count in Counter(one.code for one in CATALOGUE).items() if count > 1
    ] == []
    for one in CATALOGUE:
        assert re.fullmatch("[a-z-]+", one.code)
        assert getattr(reasons, one.code.upper().replace("-", "_")) is one


def test_each_sentence_is_one_and_ends_as_one() -> None:
    for one in CATALOGUE:
        assert re.fullmatch(r"[A-Z{].*[^.]\.", one.text), one
        assert ". " not in one.text, one
    assert len({one.text for one in CATALOGUE}) == len(CATALOGUE)


def test_each_reason_has_a_producer() -> None:
    names = {one.code.upper().replace("-", "_") for one in CATALOGUE}
    used = {word for text in SOURCES for word in re.findall(r"\w+", text)}
    assert names - used == set()


def test_a_reason_is_made_in_the_catalogue_alone() -> None:
    importing = [text for text in SOURCES if "ext4kit.reasons import" in text]
    assert len(importing) > 10
    assert [text for text in importing if re.search(r"\bReason\(", text)] == []


def test_every_code_and_sentence_is_documented() -> None:
    page = (ROOT / "docs/reasons.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, re.MULTILINE)
    assert rows == [tuple(one) for one in CATALOGUE]


def test_values_take_the_place_of_their_names() -> None:
    one = reasons.READ_ERROR.filled(length=4096, offset=8192, why="{bad} sector")
    assert one == Reason("read-error", "4096 bytes at offset 8192 could not be read: {bad} sector.")
    with pytest.raises(KeyError):
        reasons.READ_ERROR.filled(length=4096)
    values = {"n", "size", "block", "why", "length", "offset", "limit", "path", "tid", "number"}
    values |= {"total"}
    fields = {name for each in CATALOGUE for _, name, _, _ in string.Formatter().parse(each.text)}
    assert fields - {None} == values


def test_records_have_the_sentences_with_and_without_codes_in_the_same_order() -> None:
    two = [reasons.SHARED_BLOCKS, reasons.ENCRYPTED]
    assert texts(two) == [
        "Another inode also maps some of these blocks.",
        "The content is encrypted.",
    ]
    assert coded(two) == [
        {"code": "shared-blocks", "text": texts(two)[0]},
        {"code": "encrypted", "text": texts(two)[1]},
    ]
