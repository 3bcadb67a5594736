"""Matches in bytes, held against GNU grep, and patterns held against published examples."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from ext4kit.errors import RequestError
from ext4kit.search.engine import MAX_MATCH, Engine
from ext4kit.search.patterns import (
    Pattern,
    feature_patterns,
    hex_pattern,
    regex_pattern,
    text_patterns,
    word_patterns,
)

LETTERS = b"abAB01 .@-\n\0\xc3\xa4\xff"


def found(patterns: list[Pattern], data: bytes) -> list[tuple[int, int]]:
    matches = Engine(patterns).matches(data)
    return sorted(zip(matches.start.tolist(), matches.end.tolist(), strict=True))


def grepped(data: bytes, tmp_path: Path, *options: str) -> list[tuple[int, int]]:
    """(start, end) of each match, as `grep -abo` has them in lines of any bytes."""
    path = tmp_path / "data"
    path.write_bytes(data)
    command: list[str | Path] = ["grep", "-abo", *options, path]
    done = subprocess.run(command, capture_output=True, env={"LC_ALL": "C"}, check=False)
    starts = [line.partition(b":") for line in done.stdout.split(b"\n") if b":" in line]
    return [(int(start), int(start) + len(text)) for start, _, text in starts]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "expression",
    ["ab", "[a-b]+", "[01]{2,5}", "a.b|b0", "(ab|A)+B?", r"\b[ab]{2}\b", "a[^0]*0", "0|01|011"],
)
def test_regular_expressions_match_as_in_grep(tmp_path: Path, expression: str, seed: int) -> None:
    rng = random.Random(seed)
    letters = LETTERS.replace(b"\0", b"").replace(b"\n", b"")  # grep ends lines there
    data = bytes(rng.choice(letters[:10]) for _ in range(3000))
    assert found([regex_pattern(expression)], data) == grepped(data, tmp_path, "-E", expression)


@pytest.mark.parametrize("seed", range(6))
def test_texts_are_found_in_each_encoding(seed: int) -> None:
    rng = random.Random(seed)
    noise = bytes(rng.choice(LETTERS) for _ in range(2000))
    text = "Übung 7"
    placed, data = [], noise
    for codec in ("utf-8", "utf-16-le", "latin-1"):
        placed.append((len(data), len(data) + len(text.encode(codec))))
        data += text.encode(codec) + noise
    assert found(text_patterns(text), data) == placed
    lower = data.replace("Ü".encode(), "ü".encode()).replace(b"bung", b"BUNG")
    assert placed[0] in found(text_patterns(text, ignores_case=True), lower)
    assert placed[0] not in found(text_patterns(text), lower)


def test_bytes_and_words(tmp_path: Path) -> None:
    assert found([hex_pattern("00 ?? ff")], b"\1\0\x0a\xff\0\0\xff") == [(1, 4), (4, 7)]
    words = tmp_path / "words"
    words.write_bytes(b"alpha\nbeta\n\nalpha\n" + b"".join(b"w%06d\n" % at for at in range(9000)))
    patterns = word_patterns(words)
    assert len(patterns) == 9002
    assert found(patterns, b"xx w004711 beta w00471") == [(3, 10), (11, 15)]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("card", b"4111 1111 1111 1111", b"4111 1111 1111 1112"),  # of the test numbers of Visa
        ("iban", b"GB82 WEST 1234 5698 7654 32", b"GB82 WEST 1234 5698 7654 33"),  # ISO 13616
        ("iban", b"DE89370400440532013000", b"DE88370400440532013000"),
        ("ip", b"192.0.2.255", b"192.0.2.256"),
        ("mac", b"00:1b:44:11:3a:b7", b"00:1b:44:11:3a:g7"),
        ("wallet", b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"),
        ("wallet", b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
         b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5"),
        ("email", b"a.person@example.org", b"a.person@example."),
        ("phone", b"+49 30 901820", b"49 30 901820"),
        ("key", b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----BEGIN CERTIFICATE-----"),
        ("url", b"https://example.org/a?b=c", b"https:/example"),
        ("domain", b"www.example.org", b"www.example.0rg"),
    ],
)  # fmt: skip
def test_features_have_the_check_that_they_state(name: str, right: bytes, wrong: bytes) -> None:
    patterns = feature_patterns([name])
    assert found(patterns, b"(" + right + b") ") == [(1, 1 + len(right))]
    assert found(patterns, b"(" + wrong + b") ") == []


@pytest.mark.parametrize("expression", ["(", "a**b(", "x*", "[z-a]"])
def test_a_pattern_that_is_none_is_refused(expression: str) -> None:
    with pytest.raises(RequestError, match="--regex"):
        regex_pattern(expression)


@pytest.mark.parametrize("digits", ["", "0", "xy", "??"])
def test_digits_that_are_none_are_refused(digits: str) -> None:
    with pytest.raises(RequestError, match="--hex"):
        hex_pattern(digits)


def test_a_match_has_a_limit_and_a_hostile_pattern_an_end() -> None:
    assert found([regex_pattern("b[a]+")], b"b" + b"a" * 3 * MAX_MATCH)[0] == (0, MAX_MATCH)
    found([regex_pattern("(a+)+c")], b"a" * 20_000)


def test_literals_are_found_without_the_library(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['hyperscan'] = None\n"
        "from ext4kit.search.engine import Engine\n"
        "from ext4kit.search.patterns import text_patterns\n"
        "print(*Engine(text_patterns('ab', True)).matches(b'xAb a\\0B\\0 ab').start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "4", "9"]
