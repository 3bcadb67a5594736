"""Classes of content, and how well each class matches a name."""

from __future__ import annotations

import re
import struct
from collections import Counter

import numpy as np

from ext4kit.arrays.types import Float64s, Int64s
from ext4kit.filetypes.formats import FORMATS
from ext4kit.filetypes.identify import text_encoding
from ext4kit.filetypes.signatures import SIGNATURE_NAMES

TEXT_CLASSES = (
    "prose",
    "json",
    "csv",
    "ini",
    "log",
    "c",
    "python",
    "perl",
    "shell",
    "markup",
    "roff",
)
# subclasses of the classes elf, markup and zip
PARTS_OF_CLASSES = ("program", "object", "svg", "html", "jar", "office")
CONTENT_CLASSES = (*SIGNATURE_NAMES[1:], *TEXT_CLASSES, *PARTS_OF_CLASSES, "binary")
CLASS_INDEX = {name: at for at, name in enumerate(CONTENT_CLASSES)}
ANY_NAME = 0  # row of the likelihood table for a name without information
P_UNEXPECTED = 0.04  # share of files whose content class is unexpected for their name
_MARKUP = frozenset(("html", "xml"))
_SVG, _HTML = re.compile(rb"<svg[\s>]"), re.compile(rb"<!doctype html|<html[\s>]", re.IGNORECASE)
_RELOCATABLE, _INTERPRETED = 1, 3  # ET_REL and PT_INTERP of ELF (elf.h)
_OFFICE = (b"mimetype", b"[Content_Types].xml", b"_rels/.rels", b"docProps/")
_MEMBER_NAME_AT = 30  # offset of the first member's name in a zip archive
_PLAIN = frozenset(("script", "utf-16", "utf-32"))  # signatures no more specific than "text"
_LINES = 40  # number of lines of a text that are tested
_BRACKETS = re.compile(rb"\s*[{}\[\]\"]")
_CLOCK = re.compile(rb".{0,40}\d\d:\d\d:\d\d")
_MARKED = re.compile(rb"\s*<[/!?a-zA-Z]")
_ROFF = re.compile(rb"[.'](?:\\\"|[A-Z][A-Za-z]\b)")
_EXCLUSIVE_PATTERNS = (  # class, pattern of a line, minimum share of such lines
    ("json", _BRACKETS, 0.7),
    ("log", _CLOCK, 0.6),
    ("markup", _MARKED, 0.4),
    ("roff", _ROFF, 0.25),
)
_PYTHON = re.compile(
    rb"import |from \w[\w.]* import|def |class |@\w|\s+(?:self\.|return\b|def )|\"\"\""
)
_PERL = re.compile(rb"package [\w:]+|use [\w:]+|sub \w+|\s*my [$@%(]|=(?:head|cut|pod|over|item)")
_SHELL = re.compile(
    rb"\s*(?:if \[|fi\b|then\b|else\b|done\b|for \w+ in|case |esac|echo |exit |export |\w+=)"
)
_C = re.compile(rb"\s*(?:#\s*(?:include|define|if|endif|pragma)|/\*|\*/|\*\s|//|.*[;{}]\s*$)")
_SETTING = re.compile(rb"\s*(?:\[[^\]]*\]\s*$|[\w.\- ]{1,50}\s*[=:])")
_SCORED_PATTERNS = (  # class, pattern of a line, weight of such a line
    ("python", _PYTHON, 2),
    ("perl", _PERL, 2),
    ("c", _C, 1),
    ("ini", _SETTING, 1),
    ("shell", _SHELL, 1),
)
_MIN_SHARE = 0.45
_INTERPRETERS = ((b"python", "python"), (b"perl", "perl"), (b"sh", "shell"))


def classify_content(head: bytes, signature: int) -> int:
    """The class of some content, as an index in `CONTENT_CLASSES`.

    Args:
        head: the first few KiB of the content.
        signature: index of its signature, as carving found it.
    """
    name = SIGNATURE_NAMES[signature]
    if not name or name in _PLAIN:
        kind = _classify_text(head) if head and text_encoding(head) else "binary"
    else:
        kind = "markup" if name in _MARKUP else name
    if kind in _PARTS:
        kind = _PARTS[kind](head)
    return CLASS_INDEX[kind]


def _elf_kind(head: bytes) -> str:
    """The class of an ELF file: `program`, `object`, or `elf` for a shared library."""
    if len(head) < struct.calcsize("<16sH"):
        return "elf"
    order = ">" if head[5] == 2 else "<"
    if struct.unpack_from(f"{order}H", head, 16)[0] == _RELOCATABLE:
        return "object"
    place, size_at, kind_of = (32, 54, "Q") if head[4] == 2 else (28, 42, "I")
    try:
        start = struct.unpack_from(order + kind_of, head, place)[0]
        size, count = struct.unpack_from(f"{order}HH", head, size_at)
        types = [struct.unpack_from(f"{order}I", head, start + size * at)[0] for at in range(count)]
    except struct.error:  # the head is too short
        return "elf"
    return "program" if _INTERPRETED in types else "elf"


def _markup_kind(head: bytes) -> str:
    """The class of a markup file: `svg`, `html`, or `markup` for all others."""
    drawing, page = _SVG.search(head), _HTML.search(head)
    if drawing and not (page and page.start() < drawing.start()):  # pages can contain drawings
        return "svg"
    return "html" if page else "markup"


def _zip_kind(head: bytes) -> str:
    """The class of a zip archive: `jar`, `office`, or `zip` for all others."""
    first = head[_MEMBER_NAME_AT:]
    if first.startswith(b"META-INF/"):
        return "jar"
    return "office" if first.startswith(_OFFICE) else "zip"


_PARTS = {"elf": _elf_kind, "markup": _markup_kind, "zip": _zip_kind}


def _classify_text(head: bytes) -> str:
    first, *lines = head.splitlines()[: _LINES + 1]
    if first.startswith(b"#!"):
        return next((kind for word, kind in _INTERPRETERS if word in first), "prose")
    whole = lines[:-1] if len(lines) > 2 else [first, *lines]  # the last line may be cut
    lines = [line for line in whole if line.strip()]
    if not lines:
        return "prose"
    for kind, pattern, share in _EXCLUSIVE_PATTERNS:
        if _matching_share(pattern, lines) > share:
            return kind
    if _is_delimited_table(lines):
        return "csv"
    shares = {
        kind: times * _matching_share(pattern, lines) for kind, pattern, times in _SCORED_PATTERNS
    }
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _MIN_SHARE else "prose"


def _matching_share(pattern: re.Pattern[bytes], lines: list[bytes]) -> float:
    return sum(1 for line in lines if pattern.match(line)) / len(lines)


def _is_delimited_table(lines: list[bytes]) -> bool:
    """Whether nearly all lines have the same number of fields."""
    for mark in (b",", b";", b"\t", b"|"):
        fields, times = Counter(line.count(mark) for line in lines).most_common(1)[0]
        if fields >= 2 and times > 0.8 * len(lines) and len(lines) > 1:
            return True
    return False


_EXPECTED_OF = {
    "zip whl egg apk xpi": "zip jar office",
    "jar war": "jar zip",
    "docx xlsx pptx odt ods odp epub": "office zip",
    "so": "elf program",
    "o ko": "object",
    "sqlite sqlite3 db": "sqlite berkeley binary",
    "html htm xhtml": "html markup prose",
    "svg": "svg",
    "xml xsl xslt ui": "markup html",
    "json ipynb": "json",
    "csv tsv": "csv",
    "ini conf cfg properties desktop service toml makefile": "ini prose shell",
    "log": "log prose",
    "c h cpp cc cxx hpp java js css go rs cs php swift kt": "c prose",
    "py pyi": "python prose",
    "pl pm pod t": "perl prose",
    "sh bash zsh": "shell",
    "md": "prose ini c",
    "txt text rst tex readme license copying changelog authors news copyright": "prose",
    "yml yaml": "ini prose",
    "1 2 3 4 5 6 7 8": "roff",
    "eml mbox": "prose ini",
    "sql": "prose c",
}
_PLAIN_NAME = "-"  # stands for the extension of a name without one
_OF_PLAIN_NAMES = {
    "program": 0.34,
    "shell": 0.15,
    "prose": 0.15,
    "python": 0.08,
    "perl": 0.07,
    "binary": 0.06,
}
_EXPECTED = {name: [one.name] for one in FORMATS for name in one.names.split()} | {
    name: kinds.split() for names, kinds in _EXPECTED_OF.items() for name in names.split()
}
# classes of compressed files, which a name shows by its extension
_SAID_BY_NAMES = [CLASS_INDEX[kind] for kind in ("gzip", "bzip2", "xz", "zstd")]
_WEIGHTS = (0.8, 0.15, 0.05)  # of the first, second and third expected class
_UNSEEN, _UNSEEN_TOGETHER = 0.5, 46.5  # pseudocounts of one class; of all classes
_LONGEST = 8  # letters of a file name extension
_WHOLE_NAMES = frozenset(
    ["makefile", "readme", "license", "copying", "changelog", "authors", "news", "copyright"]
)  # names that show the kind without an extension; a program `ps` or `log` is of another kind


def name_class_of(name: bytes | None) -> str:
    """The part of a name that indicates the kind of content; empty if no part does."""
    text = (name or b"").decode("latin-1").lower()
    stem, _, last = text.rpartition(".")
    if ".so." in text:  # a shared library with its version
        return "so"
    if not stem:
        return text if text in _WHOLE_NAMES or not text else _PLAIN_NAME
    return last if len(last) <= _LONGEST else ""


def likelihood_ratios(endings: list[str], contents: Int64s) -> Float64s:
    """Table (endings, CONTENT_CLASSES): likelihood ratio of a content class given a name.

    Args:
        endings: distinct extensions. Row 0 of the result is for any name, row n + 1 for extension
            n.
        contents: int64, class of each carved content; the prior share of each class is estimated
            from these.
    """
    seen = np.bincount(contents, minlength=len(CONTENT_CLASSES))
    usual = (seen + _UNSEEN) / (len(contents) + _UNSEEN_TOGETHER)
    table = np.ones((len(endings) + 1, len(CONTENT_CLASSES)))
    for row, one in enumerate(endings, ANY_NAME + 1):
        if one == _PLAIN_NAME:
            share = (1 - sum(_OF_PLAIN_NAMES.values())) * usual
            for kind, likely in _OF_PLAIN_NAMES.items():
                share[CLASS_INDEX[kind]] += likely
            table[row] = share / usual
            table[row, _SAID_BY_NAMES] = P_UNEXPECTED
            continue
        expected = _EXPECTED.get(one)
        if expected is None:
            table[row, _SAID_BY_NAMES] = P_UNEXPECTED if one else 1
            continue
        share = P_UNEXPECTED * usual
        weights = np.array(_WEIGHTS[: len(expected)])
        share[[CLASS_INDEX[kind] for kind in expected]] += (
            (1 - P_UNEXPECTED) * weights / weights.sum()
        )
        table[row] = share / usual
    return table
