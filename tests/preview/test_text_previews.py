"""A preview of text has every character of the file, from any byte on, and reads no more."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from ext4kit.preview.model import Preview
from ext4kit.preview.previews import kinds_for, preview
from tests.preview.contents import BLOCK, bytes_read, mapped, node_of, pages

POEM = "Größe und Maß\nnaïve café\n\n日本語のテキスト\tx\nlast line without end"
LONG = "word " * 400


def rows(found: Preview) -> list[tuple[str, str]]:
    """(label, text) of each row."""
    return [(line.spans[0].text.strip(), "".join(s.text for s in line.spans[1:]))
            for line in found.lines]  # fmt: skip


def joined(found: list[Preview]) -> dict[int, str]:
    """The lines of all pages, by number; rows without a number go on with the line before."""
    lines: dict[int, str] = {}
    number = 0
    for label, text in (row for page in found for row in rows(page)):
        if label:
            number = int(label.replace(",", ""))
            assert number not in lines
        lines[number] = lines.get(number, "") + text
    return lines


@pytest.mark.parametrize("most_lines", [1, 3, 200])
@pytest.mark.parametrize(
    ("encoding", "mark", "text"),
    [
        ("UTF-8", b"", POEM),
        ("UTF-8", b"\xef\xbb\xbf", POEM),
        ("UTF-16LE", b"\xff\xfe", POEM),
        ("UTF-16BE", b"\xfe\xff", POEM),
        ("UTF-16LE", b"", "plain letters\nof wide text\n" * 3),
        ("LATIN1", b"", "Größe und Maß\nnaïve café\n"),
        ("CP1252", b"", "„Größe“ – 5 €\n"),
        ("UTF-8", b"", LONG + "\n" + LONG),
        ("UTF-8", b"", "x\n" * 3000),
    ],
    ids=lambda value: value[:9] if isinstance(value, str) else value.hex(),
)
def test_pages_have_the_lines_that_iconv_reads(
    encoding: str, mark: bytes, text: str, most_lines: int
) -> None:
    data = mark + text.encode(encoding)
    words = ("iconv", "-f", encoding, "-t", "UTF-8")
    expected = subprocess.run(words, input=data[len(mark) :], capture_output=True, check=True)
    lines = expected.stdout.decode().removesuffix("\n").split("\n")
    assert kinds_for(node_of(data))[0] == "text"
    found = joined(list(pages(node_of(data), "text", most_lines, 40)))
    assert len(found) == len(lines)
    for number, line in enumerate(lines, 1):
        assert found[number] == line.expandtabs(8), number


def test_a_row_has_no_more_cells_than_the_width() -> None:
    data = (LONG + "\n" + "語" * 100 + "\n" + "\x1b[31m" * 50).encode()
    (found,) = pages(node_of(data), "text", 200, 40)
    for line in found.lines:
        assert sum(2 if letter == "語" else 1 for letter in line.text) <= 40


def test_what_has_no_shape_is_made_visible() -> None:
    data = "a\x1b[31mb\u202ec\x00\x7f\n".encode() + b"\xff\xc3 end\n"
    (found,) = pages(node_of(b"ok\n" + data), "text", 10)
    texts = [text for _, text in rows(found)]
    assert texts == ["ok", r"a\x1b[31mb\u202ec\x00\x7f", r"\xff\xc3 end"]
    escapes = [span.text for line in found.lines for span in line.spans if span.role == "escape"]
    assert r"\x1b" in escapes
    assert r"\u202e\x00\x7f"[:6] in "".join(escapes)


def test_line_ends_of_windows_are_told_and_not_shown() -> None:
    (found,) = pages(node_of(b"one\r\ntwo\r\nth\rree\r\n"), "text", 10)
    assert [text for _, text in rows(found)] == ["one", "two", r"th\x0dree"]
    assert "CR LF" in found.note


def test_any_byte_can_be_the_first() -> None:
    data = ("é日\n𝄞x\n" * 40).encode()
    node = node_of(data)
    for offset in range(len(data)):
        found = preview(node, "text", offset, 3)
        assert offset - 3 <= found.offset <= offset
        rest = data[found.offset :].decode()  # fails unless it is the start of a character
        first = rows(found)[0]
        assert first[1] == rest.split("\n")[0]
        starts_line = found.offset == 0 or data[found.offset - 1] == 0x0A
        assert bool(first[0]) == starts_line


def test_rows_of_unknown_line_numbers_have_bytes() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1000))
    at = data.index(b"line 500\n")
    found = preview(node_of(data), "text", at, 2)
    assert rows(found) == [(f"{at:,}", "line 500"), (f"{at + 9:,}", "line 501")]
    again = preview(node_of(data), "text", at, 2, line=501)
    assert [label for label, _ in rows(again)] == ["501", "502"]
    assert again.next_line == 503


@pytest.mark.parametrize("offset", [0, 1 << 29, (1 << 30) - 50])
def test_a_line_of_a_gigabyte_is_read_where_it_is_shown(offset: int) -> None:
    count = (1 << 30) // BLOCK
    node = mapped(b"", 1 << 30, [(0, count, 0, False)], blocks_count=count)
    found = preview(node, "text", offset, 200, 80)
    assert found.kind == "text"
    shown = sum(len(text) for _, text in rows(found))
    assert shown == min((1 << 30) - offset, shown)
    assert (found.next_offset is None) == (offset > (1 << 30) - 100)
    assert bytes_read(node) < 64 << 10


def test_the_end_of_sixteen_tebibytes_is_read_alone() -> None:
    end = 16 << 40
    last = end // BLOCK - 1
    node = mapped(b"start\n".ljust(BLOCK, b"\n") + b"the end\n".ljust(BLOCK, b"\n"), end,
                  [(0, 1, 0, False), (last, 1, 1, False)])  # fmt: skip
    found = preview(node, "text", end - BLOCK, 200)
    assert rows(found)[0][1] == "the end"
    found = preview(node, "text", 0, BLOCK + 10)
    marks = [line.text.strip() for line in found.lines if line.spans[-1].role == "hole"]
    hole = f"bytes {BLOCK:,} to {end - BLOCK - 1:,}"
    assert marks == [f"[{hole}: a hole, which reads as zeros]"]
    assert bytes_read(node) <= 16 * BLOCK


def test_an_unreadable_block_stands_between_the_lines() -> None:
    data = b"".join(b"line %03d\n" % number for number in range(400))
    node = node_of(data, bad={1})
    found = list(pages(node, "text", 50))
    marks = [line.text for page in found for line in page.lines if line.spans[-1].role == "lost"]
    assert [mark.strip() for mark in marks] == ["[bytes 1,024 to 2,047: lost: block 1 is bad]"]
    texts = [text for page in found for _, text in rows(page)]
    assert "line 000" in texts
    assert "line 399" in texts
    assert rows(found[-1])[-1][0] == f"{len(data) - 9:,}"  # lines are no longer counted


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_are_shown_once(seed: int) -> None:
    rng = random.Random(seed)
    some = rng.choice(("utf-8", "utf-16", "utf-32", "latin-1", "bytes"))
    data = rng.randbytes(rng.randrange(1, 4000))
    if some != "bytes":
        text = "".join(rng.choice("a\n\r\té日𝄞\u0301\x1b\u202e") for _ in range(900))
        data = text.encode(some, "ignore") + data[: rng.randrange(3)]
    node = node_of(data)
    ends = [
        page.next_offset for page in pages(node, "text", rng.randrange(1, 9), rng.randrange(90))
    ]
    assert ends[-1] is None


def test_lines_have_the_numbers_of_cat() -> None:
    data = Path(__file__).read_bytes()
    number = subprocess.run(["cat", "-n", __file__], capture_output=True, check=True).stdout
    (found,) = pages(node_of(data), "text", 5000, 200)
    expected = [line.split("\t", 1) for line in number.decode().splitlines()]
    assert rows(found) == [(label.strip(), text) for label, text in expected]
