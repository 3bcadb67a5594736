"""What is searched for: texts in their encodings, regular expressions, bytes, words, features."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ext4kit.errors import AccessError, RequestError

ENCODINGS = {"UTF-8": "utf-8", "UTF-16LE": "utf-16-le", "Latin-1": "latin-1"}
MAX_WORDS = 1_000_000
_MAX_WORD_FILE = 256 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Pattern:
    """One expression.

    Attributes:
        name: what the user gave, or the name of the feature.
        expression: regular expression over bytes.
        encoding: of a text; "" for bytes.
        ignores_case: of ASCII letters.
        literal: the bytes, if the expression stands for these alone; b"" otherwise.
        is_right: whether matched bytes are what they look like, as by a check digit.
    """

    name: str
    expression: bytes
    encoding: str = ""
    ignores_case: bool = False
    literal: bytes = b""
    is_right: Callable[[bytes], bool] | None = None


@dataclass(frozen=True, slots=True)
class HashPattern(Pattern):
    """A list of hashes: the whole content of a file has one of these."""


def text_patterns(text: str, ignores_case: bool = False) -> list[Pattern]:
    """A text in each encoding in which it has other bytes.

    Raises:
        RequestError: it is empty.
    """
    if not text:
        raise RequestError("an empty text is in every file; give at least one character")
    found: dict[bytes, Pattern] = {}
    for name, codec in ENCODINGS.items():
        try:
            data = text.encode(codec)
        except UnicodeEncodeError:
            continue
        plain = not ignores_case or text.isascii()
        expression = _literal(data) if plain else _any_case(text, codec)
        literal = data if plain else b""
        found.setdefault(data, Pattern(text, expression, name, ignores_case, literal))
    return list(found.values())


def _literal(data: bytes) -> bytes:
    """An expression that stands for some bytes."""
    return b"".join(bytes([one]) if chr(one).isalnum() and one < 128 else b"\\x%02x" % one
                    for one in data)  # fmt: skip


def _any_case(text: str, codec: str) -> bytes:
    """An expression for a text in upper and lower case, of letters outside of ASCII too."""
    parts = []
    for letter in text:
        forms: dict[bytes, None] = {}
        for form in (letter, letter.lower(), letter.upper()):
            if len(form) == 1:
                try:
                    forms[_literal(form.encode(codec))] = None
                except UnicodeEncodeError:
                    continue
        parts.append(b"(?:" + b"|".join(forms) + b")" if len(forms) > 1 else next(iter(forms)))
    return b"".join(parts)


def regex_pattern(expression: str, ignores_case: bool = False) -> Pattern:
    """A regular expression over bytes; letters outside of ASCII stand for their UTF-8 bytes.

    Raises:
        RequestError: it is not valid, or matches nothing at all.
    """
    raw = expression.encode("utf-8", "surrogateescape")
    try:
        compiled = re.compile(raw)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise RequestError(f"--regex {expression}: {error.msg}{where}") from error
    if compiled.match(b""):
        raise RequestError(f"--regex {expression}: matches the empty text, which is everywhere")
    return Pattern(expression, raw, ignores_case=ignores_case)


def hex_pattern(text: str) -> Pattern:
    """Bytes given as hexadecimal digits, with or without blanks; `??` is any byte.

    Raises:
        RequestError: these are no such digits.
    """
    digits = re.sub(r"[\s:]", "", text)
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    if not pairs or not all(re.fullmatch(r"[0-9A-Fa-f]{2}|\?\?", pair) for pair in pairs):
        raise RequestError(f"--hex {text}: give pairs of hexadecimal digits, ?? for any byte")
    if all(pair == "??" for pair in pairs):
        raise RequestError(f"--hex {text}: give at least one byte")
    known = [b"" if pair == "??" else bytes([int(pair, 16)]) for pair in pairs]
    expression = b"".join(_literal(byte) if byte else rb"[\x00-\xff]" for byte in known)
    return Pattern(text, expression, literal=b"".join(known) if all(known) else b"")


def word_patterns(path: Path, ignores_case: bool = False) -> list[Pattern]:
    """A text of each line of a file, in UTF-8; lines that are empty are left out.

    Raises:
        AccessError: it cannot be read.
        RequestError: it has no words, or too many.
    """
    try:
        size = path.stat().st_size
        lines = path.read_bytes().splitlines() if size <= _MAX_WORD_FILE else []
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from error
    words = dict.fromkeys(line for line in lines if line.strip())
    if size > _MAX_WORD_FILE or len(words) > MAX_WORDS:
        raise RequestError(f"{path}: more than {MAX_WORDS:,} words; split the list")
    if not words:
        raise RequestError(f"{path}: has no words; give one on each line")
    return [
        Pattern(
            word.decode("utf-8", "backslashreplace"), _literal(word), "UTF-8", ignores_case, word
        )
        for word in words
    ]


# ------------------------------------------------------------------------------------ features


def _luhn(digits: Iterable[int]) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(list(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 * (doubled > 9)
    return total % 10 == 0


def _is_card(data: bytes) -> bool:
    digits = [byte - 48 for byte in data if 48 <= byte < 58]
    return len(set(digits)) > 1 and _luhn(digits)


def _is_iban(data: bytes) -> bool:
    """Whether the check digits are right: ISO 13616-1, by ISO/IEC 7064 MOD 97-10."""
    text = data.replace(b" ", b"").decode("ascii")
    turned = text[4:] + text[:4]
    return int("".join(str(int(letter, 36)) for letter in turned)) % 97 == 1


def _is_ip(data: bytes) -> bool:
    parts = data.split(b".")
    return all(int(part) < 256 and (part == b"0" or part[:1] != b"0") for part in parts)


_BASE58 = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _is_wallet(data: bytes) -> bool:
    """Whether a Bitcoin address has the right check sum: base58check or bech32 (BIP 173, 350)."""
    if data[:3].lower() == b"bc1":
        return _bech32_ok(data.lower().decode("ascii"))
    from hashlib import sha256

    number = 0
    for letter in data:
        number = number * 58 + _BASE58.index(letter)
    try:
        raw = number.to_bytes(25, "big")
    except OverflowError:
        return False
    return sha256(sha256(raw[:21]).digest()).digest()[:4] == raw[21:]


def _bech32_ok(text: str) -> bool:
    letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    values = [ord(one) >> 5 for one in "bc"] + [0] + [ord(one) & 31 for one in "bc"]
    values += [letters.index(one) for one in text[3:]]
    check = 1
    for value in values:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for bit, factor in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= factor if top >> bit & 1 else 0
    return check in (1, 0x2BC830A3)


def _is_email(data: bytes) -> bool:
    name, _, domain = data.partition(b"@")
    return len(name) <= 64 and _is_domain(domain)  # RFC 5321, 4.5.3.1


def _is_domain(data: bytes) -> bool:
    """Whether its labels have the lengths and hyphens of RFC 1035, 2.3.1."""
    labels = data.split(b".")
    sound = (0 < len(one) < 64 and b"-" not in (one[:1], one[-1:]) for one in labels)
    return len(data) <= 253 and all(sound)


_FEATURES: dict[str, tuple[bytes, Callable[[bytes], bool] | None]] = {
    "email": (rb"[a-z0-9][a-z0-9._%+-]*@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z]+\b", _is_email),
    "url": (rb"(?:https?|ftp|file)://[a-z0-9._~:/?#@!$&*+,;=%-]{4}"
            rb"[a-z0-9._~:/?#@!$&*+,;=%-]*", None),
    "domain": (rb"\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\."
               rb"(?:com|org|net|edu|gov|info|biz|onion|de|fr|uk|ru|cn|eu|nl|it|es|pl|ch|at|io)"
               rb"\b",
               _is_domain),
    "ip": (rb"\b(?:\d{1,3}\.){3}\d{1,3}\b", _is_ip),
    "mac": (rb"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", None),
    "iban": (rb"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b", _is_iban),
    "card": (rb"\b(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|3[47]\d\d|3[068]\d\d)"
             rb"(?:[ -]?\d{4}){2}[ -]?\d{1,4}\b", _is_card),
    "phone": (rb"\+[1-9]\d{0,2}(?:[ ./-]?\(?\d{1,4}\)?){2,5}\b", None),
    "key": (rb"-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP PRIVATE KEY BLOCK)-----"
            rb"|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bssh-(?:rsa|ed25519) AAAA",
            None),
    "wallet": (rb"\b(?:[13][1-9A-HJ-NP-Za-km-z]{25,34}|bc1[02-9ac-hj-np-z]{11,71})\b", _is_wallet),
}  # fmt: skip
FEATURES = tuple(_FEATURES)
_WITH_CASE = ("iban", "key", "wallet")


def feature_patterns(names: Iterable[str]) -> list[Pattern]:
    """The patterns of features: in ASCII, with the check that each kind has.

    Raises:
        RequestError: there is no such feature.
    """
    found = []
    for name in names:
        if name not in _FEATURES:
            raise RequestError(f"no feature {name!r} (there are: {', '.join(FEATURES)})")
        expression, check = _FEATURES[name]
        ignores = name not in _WITH_CASE
        found.append(Pattern(name, expression, "", ignores, is_right=check))
    return found
