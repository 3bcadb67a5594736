"""What contents say of their names."""

from __future__ import annotations

import gettext
import gzip
import io
import py_compile
import struct
from pathlib import Path

import pytest

from ext4kit.matching.self_names import MentionIndex, catalogue_folder, find_names_in

OTHERS = [b"plain words of no meaning %d\n" % number * 20 for number in range(40)]


def packed(name: str, text: bytes) -> bytes:
    """A gzip member with the name of what was packed."""
    made = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=made, mtime=0) as member:
        member.write(text)
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "folder", "head"),
    [
        (b"report-2024.txt.gz", b"", packed("report-2024.txt", b"nothing of it\n")),
        (b"frobnicate.8.gz", b"", packed("", b'.\\" a page\n.TH FROBNICATE 8 "May"\n.SH NAME\n')),
        (b"Parser.pm", b"", b"# comment\npackage My::Deep::Parser;\nuse strict;\n"),
        (b"Hidden.pm", b"", b"package # not for the index\n  My::Hidden;\nuse strict;\n"),
        (b"_speed.so", b"", b"\x7fELF\0malloc\0PyInit__speed\0free\0"),
        (b"POSIX.so", b"", b"\x7fELF\0perl_alloc\0boot_POSIX\0Perl_xs\0"),
        (b"changelog.gz", b"tool-x", packed("", b"tool-x (1.2-3) unstable; urgency=low\n")),
    ],
)
def test_what_a_content_calls_itself_is_worth_much(name: bytes, folder: bytes, head: bytes) -> None:
    names = [(b"other-%d.txt" % number, b"") for number in range(20)]
    names[7] = (name, folder)
    mentions = MentionIndex(names)
    for one in [*OTHERS, head]:
        mentions.add_content(find_names_in(one, mentions.words))
    files, likelier = mentions.likelihood_ratios()[len(OTHERS)]
    assert files[likelier.argmax()] == 7
    assert likelier.max() >= 10


def test_a_compiled_module_names_its_source_and_the_version_of_python(tmp_path: Path) -> None:
    source = tmp_path / "pack" / "gadgets.py"
    source.parent.mkdir()
    source.write_text('"""See other_module.py."""\n\ndef first():\n    return "plain.py"\n')
    compiled = Path(py_compile.compile(str(source), doraise=True) or "")
    assert compiled.name.encode() in find_names_in(compiled.read_bytes(), frozenset()).name


def test_words_are_found_whole_bare_and_in_parts() -> None:
    text = b"See (Report-2024.final.txt), --quiet_mode-- a.b my-old.plans x%s ab " % (b"y" * 80)
    wanted = [b"report-2024.final.txt", b"report", b"final", b"2024.final.txt", b"quiet_mode"]
    wanted += [b"see", b"plans"]
    others = [b"txt", b"2024", b"ab", b"a", b"quiet", b"old.plans.x", b"x" + b"y" * 80, b"old"]
    assert find_names_in(text, frozenset(wanted + others)).words == frozenset(wanted)


def test_a_word_that_names_a_file_is_worth_a_little_and_a_usual_one_nothing() -> None:
    mentions = MentionIndex([(b"helpers.py", b""), (b"words", b""), None])
    for one in OTHERS:
        mentions.add_content(find_names_in(one, mentions.words))
    mentions.add_content(find_names_in(b"import os  # see helpers.py\n", mentions.words))
    found = mentions.likelihood_ratios()
    files, likelier = found[len(OTHERS)]
    assert files.tolist() == [0]
    assert 1 < likelier[0] < 10
    assert set(found) == {len(OTHERS)}


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x1f\x8b",
        b"\x1f\x8b\x08" + b"\xff" * 40,
        packed("a.txt", b"x" * 5000)[:30],
        b"\0" * 9000,
    ],
)
def test_damaged_heads_say_nothing_and_break_nothing(head: bytes) -> None:
    assert find_names_in(head, frozenset()).folder == frozenset()


def test_a_packed_head_that_grows_without_end_is_read_so_far_only() -> None:
    bomb = packed("bomb", b"word " * 4_000_000)
    assert find_names_in(bomb[:8192], frozenset([b"word", b"bomb"])).words == {b"word"}


def catalogue(project: str, language: str, order: str = "<", messages: int = 40) -> bytes:
    """A message catalogue as msgfmt makes it, which Python's reader agrees to."""
    header = f"Project-Id-Version: {project}\nLanguage: {language}\n"
    header += "Content-Type: text/plain; charset=UTF-8\n"
    texts = [(b"", header.encode())]
    texts += [(b"message %03d" % at, b"text %03d" % at) for at in range(messages)]
    tables, start = [b"", b""], 28 + 16 * len(texts)
    pieces = b""
    for which in (0, 1):
        for pair in texts:
            tables[which] += struct.pack(f"{order}II", len(pair[which]), start + len(pieces))
            pieces += pair[which] + b"\0"
    first = struct.pack(f"{order}7I", 0x950412DE, 0, len(texts), 28, 28 + 8 * len(texts), 0, 0)
    made = first + b"".join(tables) + pieces
    info = gettext.GNUTranslations(io.BytesIO(made)).info()
    assert (info["project-id-version"], info["language"]) == (project, language)
    return made


@pytest.mark.parametrize("order", "<>")
def test_a_message_catalogue_says_its_project_and_its_language(order: str) -> None:
    names = find_names_in(catalogue("GNU tool 1.2", "pt_BR", order), frozenset())
    assert names.name == {b"tool.mo"}
    assert names.folder == {catalogue_folder(b"pt_BR")}


def test_of_many_catalogues_each_is_of_its_own_project_and_language() -> None:
    pairs = [(project, language) for language in ("de", "da", "fr") for project in ("ld", "bfd")]
    mentions = MentionIndex(
        [(f"{one}.mo".encode(), catalogue_folder(two.encode())) for one, two in pairs]
    )
    for project, language in pairs:
        said = find_names_in(catalogue(f"{project} 2.3", language), mentions.words)
        mentions.add_content(said)
    for one in OTHERS:
        mentions.add_content(find_names_in(one, mentions.words))
    ratios = mentions.likelihood_ratios()
    for at in range(len(pairs)):
        files, likelier = ratios[at]
        assert files.tolist() == [at]
        assert likelier[0] >= 10


PAGE = b"""<!DOCTYPE html><html><head><title>abbr - make abbreviations - manual</title>
<link rel="prev" title="and" href="and.html"/><link rel="next" href='alias.html'>
<script src="../_static/underscore.js"></script></head><body>words</body></html>"""


def test_a_page_is_called_by_its_title_and_not_by_its_links() -> None:
    wanted = frozenset([b"and.html", b"alias.html", b"alias", b"underscore.js", b"abbr"])
    names = find_names_in(PAGE, wanted)
    assert names.name == names.words == {b"abbr"}


@pytest.mark.parametrize("size", [0, 4, 27, 28, 60, 400, 700])
def test_a_damaged_catalogue_says_nothing_and_breaks_nothing(size: int) -> None:
    whole = catalogue("tool 1", "de")
    find_names_in(whole[:size], frozenset())
    find_names_in(whole[:12] + b"\xff" * 16 + whole[28:], frozenset())


def test_documents_of_debian_packages_have_their_names() -> None:
    changes = b"tool (1.2-3) unstable; urgency=medium\n\n  * New.\n"
    assert find_names_in(packed("", changes), frozenset()).name == {
        b"changelog",
        b"changelog.debian",
    }
    form = b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
    assert find_names_in(form + b"Upstream-Name: tool\n", frozenset()).name == {b"copyright"}
