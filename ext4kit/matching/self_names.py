"""Names that files contain of themselves, such as titles and package names.

A gzip member holds the name of the compressed file (RFC 1952). A manual page begins with its title,
a Perl module with its package, a Debian changelog with the package of its directory, a message
catalogue with its project and language. Texts and programs often contain their own name among other
words. The links of an HTML page are left out because they name other files. A word that occurs in
many carved contents has little weight.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ext4kit.arrays.types import Float64s, Int64s

HEAD = 8192  # first bytes of a content that are searched; maximum bytes of decompressed text
CATALOGUE_HEAD = 512 << 10  # number of bytes in which the header of a message catalogue is searched
_GZIP, _NAMED, _EXTRA = b"\x1f\x8b\x08", 8, 4
_FLAGS_AT, _FIXED = 3, 10  # offsets in the header of a gzip member
_GZIP_WINDOW = 31
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789_.+-"  # letters of words, in lower case
_WORD_LETTERS = bytes(one if one in _LETTERS else 0x20 for one in bytes(range(256)).lower())
_SHORTEST_WORD, _LONGEST_WORD = 3, 80  # lengths in letters
_TITLE = re.compile(rb'^\.(?:TH|Dt)\s+"?([A-Za-z0-9_.+:\-]+)', re.MULTILINE)
_PACKAGE = re.compile(rb"^\s*package(?:\s|#[^\n]*\n)+([\w:]+)", re.MULTILINE)
_MODULE = re.compile(rb"\0(?:PyInit_|boot_(?:\w+__)?)(\w+)\0")  # functions that load modules
_SOURCE = re.compile(rb"[\xda\xfaZz](.)([\x20-\x7e]*?/)?([\w\-]{1,80})\.py", re.DOTALL)
_PYTHONS = {3379: 36, 3394: 37, 3413: 38, 3425: 39, 3439: 310, 3495: 311, 3531: 312, 3571: 313,
            3627: 314}  # fmt: skip
CATALOGUES = b"LC_MESSAGES"  # directory of message catalogues, within one named after the language
_MO_HEADER, _MO_TRANSLATIONS = 28, 16  # size; where the offset of the table of translations is
_LANGUAGE = re.compile(rb"^Language: *([A-Za-z]{2,3}(?:_[A-Z]{2})?(?:@\w+)?)$", re.MULTILINE)
_PROJECT = re.compile(
    rb"^Project-Id-Version: *(?:GNU )?([A-Za-z][\w.+\-]*?)[ \-]v?\d", re.MULTILINE
)
_PYC_MARK = b"\r\n"  # follows the version number in a compiled Python module
_LINKS = re.compile(rb"""\b(?:href|src)\s*=\s*(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
_HTML_TITLE = re.compile(
    rb"<title>\s*([\w.+\-]+)\s*(?:[-:|<]|&\w+;|&#\d+;|\xe2\x80)", re.IGNORECASE
)
_CHANGES = re.compile(rb"([a-z0-9][a-z0-9+.\-]+) \([^)\n]+\)")
_COPYRIGHT = b"/copyright-format/1."  # in the first line of a Debian copyright file
_PACKED = (b".gz", b".bz2", b".xz")
_SHORTEST_STEM, _SHORTEST_PART = 4, 5  # in letters; shorter words occur by chance
_SAID_OF_ITSELF = 0.5  # share of contents that contain their own name in such a place
_MENTIONED = 0.2
_PACKED_NAME, _TITLES, _FOLDERS = 300.0, 100.0, 60.0  # maximum likelihood ratios
_FULL_NAME, _STEM, _WORD_ALONE = 4.0, 3.0, 2.5
_TOGETHER = 2.0  # maximum factor of a second word
_LEAST = 1.5


@dataclass(frozen=True, slots=True)
class NamesFound:
    """Names found in the first bytes of some content.

    Attributes:
        name: possible names of the file itself; folder: possible names of its directory; both in
            lower case.
        words: other words in the content that were searched for.
    """

    name: frozenset[bytes]
    folder: frozenset[bytes]
    words: frozenset[bytes]


def find_names_in(head: bytes, wanted: frozenset[bytes]) -> NamesFound:
    """Find names in the first bytes of some content.

    Args:
        head: the bytes.
        wanted: words to search for, in lower case; other words are ignored.
    """
    text, packed = _decompress_head(head)
    name = {_normalise(packed)} if packed else set()
    title = _TITLE.search(text, 0, HEAD // 2) if b".TH" in text or b".Dt" in text else None
    name |= {title[1].lower()} if title else set()
    package = _PACKAGE.search(text) if b"package" in text else None
    name |= {package[1].lower().rpartition(b"::")[2] + b".pm"} if package else set()
    name |= {module.lower() for module in _MODULE.findall(text)[:1]}
    name |= _compiled_module(head)
    page = _HTML_TITLE.search(text, 0, HEAD // 2) if b"<title>" in text else None
    name |= {page[1].lower()} if page else set()
    changes = _CHANGES.match(text)
    header = _catalogue_header(head)
    project, language = _PROJECT.search(header), _LANGUAGE.search(header)
    name |= {project[1].lower() + b".mo"} if project else set()
    folder = {changes[1]} if changes else set()
    name |= _debian_document(text, changes is not None)
    folder |= {catalogue_folder(language[1])} if language else set()
    if b"href=" in text or b"src=" in text:  # links name other files
        text = _LINKS.sub(b"", text)
    return NamesFound(frozenset(name), frozenset(folder), _words(text, wanted))


def _debian_document(text: bytes, is_changes: bool) -> set[bytes]:
    """Possible file names of a Debian document that is recognised by its form."""
    if is_changes and b"urgency=" in text:
        return {b"changelog.debian", b"changelog"}
    return {b"copyright"} if _COPYRIGHT in text else set()


def _compiled_module(head: bytes) -> set[bytes]:
    """File name of a compiled Python module, from the source file named in it.

    Source: CPython Lib/py_compile.py.
    """
    version = _PYTHONS.get(int.from_bytes(head[:2], "little"))
    if version is None or head[2:4] != _PYC_MARK:
        return set()
    found = {
        (bool(path[2]), path[3].lower())
        for path in _SOURCE.finditer(head)
        if path[1][0] == path.end() - path.start() - 2
    }
    full_paths = {one for one in found if one[0]}
    found = full_paths or found
    return {b"%s.cpython-%d.pyc" % (stem, version) for _, stem in found if len(found) == 1}


def _catalogue_header(head: bytes) -> bytes:
    """The header of a message catalogue: the translation of the empty message (GNU gettext)."""
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(head[:4])
    if order is None or len(head) < _MO_HEADER:
        return b""
    (table,) = struct.unpack_from(f"{order}I", head, _MO_TRANSLATIONS)
    length, start = struct.unpack_from(f"{order}II", head[table : table + 8].ljust(8, b"\0"))
    return head[start : start + min(length, HEAD)]


def catalogue_folder(language: bytes) -> bytes:
    """The directory of the message catalogues of a language, in the form that file names use."""
    return language.lower() + b"/" + CATALOGUES.lower()


def _decompress_head(head: bytes) -> tuple[bytes, bytes]:
    """(decompressed text, name of the compressed file or empty)."""
    if head[: len(_GZIP)] != _GZIP or len(head) <= _FIXED:
        return head[:HEAD], b""
    flags, name = head[_FLAGS_AT], b""
    if flags & _NAMED and not flags & _EXTRA:
        name = head[_FIXED:].partition(b"\0")[0]
    try:
        return zlib.decompressobj(_GZIP_WINDOW).decompress(head, HEAD), name
    except zlib.error:
        return b"", name


def _words(text: bytes, wanted: frozenset[bytes]) -> frozenset[bytes]:
    """Wanted words that are words of a text or parts of its words; in lower case."""
    words = set(text.translate(_WORD_LETTERS).split())
    found = {word for word in wanted & words if _SHORTEST_WORD <= len(word) <= _LONGEST_WORD}
    bare = [
        word.strip(b".-+")
        for word in words
        if not word.isalnum() and _SHORTEST_WORD <= len(word) <= _LONGEST_WORD
    ]
    found |= wanted.intersection(bare)
    for mark in (b".", b"-"):
        parts = wanted.intersection(mark.join(bare).split(mark))
        found |= {part for part in parts if len(part) >= _SHORTEST_PART}
    return frozenset(found)


def _normalise(name: bytes) -> bytes:
    """A name in lower case, without the extension of a compressor."""
    name = name.lower()
    return next((name.removesuffix(one) for one in _PACKED if name.endswith(one)), name)


def _stem(name: bytes) -> bytes:
    """A file name without its last extension."""
    stem, _, _ = name.rpartition(b".")
    return stem or name


@dataclass(slots=True)
class _NameIndex:
    """Files by full name, stem and directory."""

    full: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    stems: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    folders: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def rows_of(cls, names: Sequence[tuple[bytes, bytes] | None]) -> _NameIndex:
        found = cls()
        for file, known in enumerate(names):
            if known is None:
                continue
            name, folder = _normalise(known[0]), known[1].lower()
            found.full[name].append(file)
            stem = _stem(name)
            if len(stem) >= _SHORTEST_STEM and stem != name:
                found.stems[stem].append(file)
            if len(folder) >= _SHORTEST_STEM:
                found.folders[folder].append(file)
        return found

    @property
    def words(self) -> frozenset[bytes]:
        """All full names, stems and directories."""
        return frozenset([*self.full, *self.stems, *self.folders])


class MentionIndex:
    """Finds which files are named in which carved contents.

    Args:
        names: (name, name of the directory or empty) of each file; None for a file whose name is
            unknown.

    Attributes:
        words: words that can refer to a file.
    """

    def __init__(self, names: Sequence[tuple[bytes, bytes] | None]) -> None:
        self._known = _NameIndex.rows_of(names)
        self.words = self._known.words
        self._said: list[NamesFound] = []

    def add_content(self, names: NamesFound) -> None:
        """Add the names found in the next content; of the words, only those in `words` are kept."""
        self._said.append(replace(names, words=names.words & self.words))

    def likelihood_ratios(self) -> dict[int, tuple[Int64s, Float64s]]:
        """Content -> (int64: files that it may belong to, float: likelihood ratio of each)."""
        known, count = self._known, len(self._said)
        often = Counter(word for one in self._said for word in one.words)
        of_itself = Counter(word for one in self._said for word in one.name | one.folder)
        found: dict[int, tuple[Int64s, Float64s]] = {}
        for content, one in enumerate(self._said):
            worth: dict[int, list[float]] = defaultdict(list)
            _score_own_name(one, known, of_itself, count, worth)
            for word in one.words:
                _score_word(word, known, _MENTIONED * count / often[word], worth)
            if worth:
                files = sorted(worth)
                likelier = np.array([_combine(worth[file]) for file in files])
                found[content] = np.array(files, np.int64), likelier
        return found


def _score_own_name(
    one: NamesFound,
    known: _NameIndex,
    often: Counter[bytes],
    count: int,
    worth: dict[int, list[float]],
) -> None:
    """Score the own name and directory in a content; files that match both exclude all others."""
    named, inside = _by_own_name(one, known, often, count), defaultdict[int, list[float]](list)
    for word in one.folder & known.folders.keys():
        rare = _SAID_OF_ITSELF * count / often[word]
        _add_score(inside, known.folders[word], min(_FOLDERS, rare))
    both = named.keys() & inside.keys()
    for file in both:
        worth[file].append(min(_PACKED_NAME, max(named[file]) * max(inside[file])))
    if not both:
        for scores in (named, inside):
            for file, likelier in scores.items():
                worth[file] += likelier


def _by_own_name(
    one: NamesFound, known: _NameIndex, often: Counter[bytes], count: int
) -> dict[int, list[float]]:
    """Scores of the files whose name is among the own names in a content."""
    found: dict[int, list[float]] = defaultdict(list)
    for word in one.name:
        rare = _SAID_OF_ITSELF * count / often[word]
        if word in known.full:
            _add_score(found, known.full[word], min(_PACKED_NAME, rare))
        elif word in known.stems:
            _add_score(found, known.stems[word], min(_TITLES, rare))
    return found


def _score_word(word: bytes, known: _NameIndex, rare: float, worth: dict[int, list[float]]) -> None:
    if word in known.full:
        _add_score(worth, known.full[word], min(_FULL_NAME if b"." in word else _WORD_ALONE, rare))
    if word in known.stems:
        _add_score(worth, known.stems[word], min(_STEM, rare))
    if word in known.folders:
        _add_score(worth, known.folders[word], min(_WORD_ALONE, rare))


def _add_score(worth: dict[int, list[float]], files: list[int], likelier: float) -> None:
    if likelier > _LEAST:
        for file in files:
            worth[file].append(likelier)


def _combine(worth: list[float]) -> float:
    best, *further = sorted(worth, reverse=True)
    return best * min(further[0], _TOGETHER) if further else best
