"""A name is shown on one line, harmless, and no two names look the same."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4kit.fields import json_name
from ext4kit.report.safe import printable, printable_lines, printable_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"plain name.txt", "plain name.txt"),
        ("Grüße 日本".encode(), "Grüße 日本"),
        (b"a\nb\tc\x7f", r"a\x0ab\x09c\x7f"),
        (b"\x1b[2J\x9b", r"\x1b[2J\x9b"),
        ("\u009b31m".encode(), r"\u009b31m"),
        ("a\u202eb\u2066c\u200fd\u061ce".encode(), r"a\u202eb\u2066c\u200fd\u061ce"),
        ("a\u2028b\u2029c".encode(), r"a\u2028b\u2029c"),
        (b"\xff\xfe", r"\xff\xfe"),
        (rb"\xff", r"\\xff"),
        (b"[bold red]x[/]", "[bold red]x[/]"),
        ("\U000e0041".encode(), r"\U000e0041"),
    ],
)
def test_names_are_shown(name: bytes, expected: str) -> None:
    assert printable(name) == expected


@given(st.binary())
def test_any_name_is_one_line_without_control_characters(name: bytes) -> None:
    text = printable(name)
    assert len(text.splitlines()) <= 1
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text)
    text.encode()  # no surrogates are left


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_different_names_look_different(one: bytes, other: bytes) -> None:
    assert (printable(one) == printable(other)) == (one == other)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=6))
def test_many_names_are_shown_as_each_alone(names: list[bytes]) -> None:
    assert printable_lines(names) == "".join(printable(name) + "\n" for name in names)


def test_messages_keep_their_backslashes() -> None:
    assert printable_text("a\\b\x1b\u202e") == "a\\b\\x1b\\u202e"


@given(st.binary())
def test_json_keeps_the_exact_bytes(name: bytes) -> None:
    record = json_name(name)
    exact = record.get("path_bytes")
    assert (base64.b64decode(exact) if exact else record["path"].encode()) == name
