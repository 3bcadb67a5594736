"""Damaged images and odd nodes end in a preview that says so, and never in an exception."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import AccessError, CorruptError, Ext4kitError
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Folder, Node, NodeId
from ext4kit.preview.details import details
from ext4kit.preview.model import Preview, Section
from ext4kit.preview.previews import kinds_for, preview
from ext4kit.preview.versions import difference, earlier_owners, versions_of
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import run
from tests.conftest import Images
from tests.preview.contents import (
    BLOCK,
    are_safe,
    bytes_read,
    made_image,
    mapped,
    node_of,
    opened,
    texts_of,
)

KINDS = ("text", "hex", "picture", "table", "archive", "directory", "link", "device", "empty", None)


def check(found: Preview) -> None:
    assert found.lines or found.offset or found.kind in ("picture", "archive")
    assert are_safe(texts_of(found)), found.text


def check_sections(sections: tuple[Section, ...]) -> None:
    for section in sections:
        assert are_safe([text for row in section for text in row]), section


class Refusing(Node):
    """A node that refuses everything."""

    def content(self) -> Content:
        raise CorruptError("extent header", 4, "the magic is\nwrong")

    def children(self) -> list[Node]:
        raise AccessError("block 7 cannot be read")

    def link_target(self) -> bytes:
        raise AccessError("block 7 cannot be read")


def test_a_map_that_cannot_be_read_is_told_with_its_place() -> None:
    node = Refusing(NodeId("x"), b"/x")
    assert kinds_for(node) == ("error",)
    for kind in KINDS:
        found = preview(node, kind)
        assert (found.kind, found.text) == (
            "error", "extent header at byte 4: the magic is wrong"
        )  # fmt: skip
    assert difference(node, node).kind == "error"


def test_a_broken_map_of_a_live_file_is_told(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(bytes(5000))
    image = made_image(source, tmp_path / "image", "-b", "1024", "-O", "^metadata_csum")
    run("debugfs", "-w", "-R", "set_inode_field file block[0] 7", image)
    with opened(image) as workspace:
        node = open_view(workspace, "live").lookup("/file")
        for kind in (None, "hex", "text"):
            check(preview(node, kind))
        sections = {section.title: dict(section) for section in details(workspace, node)}
        assert sections["Inode"]["Size"] == "5000"
        assert "Reason" in sections["Grade"]
        told = " ".join([*sections["Grade"].values(), preview(node, "hex").text])
        assert "map" in told or "extent" in told


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_asked_for_of_every_node(kind: str | None) -> None:
    nodes = [
        node_of(b""), node_of(b"x"), node_of(bytes(3000)), node_of(b"text\n"), node_of(b"PK\3\4"),
        node_of(b"SQLite format 3\0" + bytes(90)), node_of(b"\x1f\x8b"),
        node_of(b"\x89PNG\r\n\x1a\n"),
        node_of(b"abc" * 999, bad={0}), Folder(NodeId("x"), b"/x"), Node(NodeId("x"), b"/x"),
    ]  # fmt: skip
    for node in nodes:
        for offset in (-1, 0, 5, 1 << 70):
            for most_lines, width in ((1, 1), (0, -4), (5, 1 << 40)):
                check(preview(node, kind, offset, most_lines, width))
        kinds = kinds_for(node)
        assert preview(node).kind in (kinds[0], "error")
    assert preview(node_of(b"x"), "no such kind").kind == "error"


def test_what_a_file_is_is_told_by_its_first_blocks() -> None:
    for start in (b"text ", b"\x89PNG\r\n\x1a\n", b"PK\3\4", b"SQLite format 3\0", b"\0"):
        count = 1 << 30
        node = mapped(start.ljust(BLOCK, b"x"), count * BLOCK, [(0, count, 0, False)],
                      blocks_count=count)  # fmt: skip
        kinds_for(node)
        assert bytes_read(node) <= 4 * BLOCK


def test_ranges_of_bytes_that_differ_are_told() -> None:
    old = bytearray(bytes(range(256)) * 40)
    new = bytearray(old)
    new[1000:1003] = b"\0\0\0"
    new[5000] ^= 1
    new += b"more"
    found = difference(node_of(bytes(old)), node_of(bytes(new)))
    assert [line.text for line in found.lines] == [
        "sizes 10,240 and 10,244 bytes",
        "bytes 1,000 to 1,002 differ: e8 e9 ea -> 00 00 00",
        "bytes 5,000 to 5,000 differ: 88 -> 89",
    ]
    assert difference(node_of(b""), node_of(bytes(9))).lines[0].text == "sizes 0 and 9 bytes"


def test_texts_with_many_differences_are_shown_as_a_whole() -> None:
    lines = [f"{number % 97}\n" for number in range(3000)]
    old, new = "".join(lines), "".join(reversed(lines))
    found = difference(node_of(old.encode()), node_of(new.encode()), most_lines=10_000)
    assert "too many lines" in found.note
    removed = [line.text[1:] for line in found.lines if line.spans[0].role == "removed"]
    added = [line.text[1:] for line in found.lines if line.spans[0].role == "added"]
    assert len(removed) == len(added) > 2900
    changed = difference(
        node_of((old + "a\n" + old).encode()), node_of((old + "b\n" + old).encode())
    )
    assert [line.text for line in changed.lines if line.text[0] in "-+"] == ["-a", "+b"]
    assert changed.lines[0].text == "@@ -2998,7 +2998,7 @@"


def test_a_text_of_other_bytes_is_compared_as_bytes() -> None:
    found = difference(node_of(b"text\n"), node_of(b"te\0t\n"))
    assert found.title == "difference of bytes"
    large = mapped(b"", 1 << 40, [(0, 1 << 30, 0, False)], blocks_count=1 << 30)
    found = difference(large, large)
    assert "were not compared" in found.note
    assert bytes_read(large) < 300 << 20


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(8))
def test_damaged_images_end_in_previews(unpacked: Images, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(unpacked(rng.choice(("ext3", "rm_rf_tree", "orphan_file"))).image.read_bytes())
    for _ in range(rng.randrange(20, 400)):
        at = rng.randrange(2048, 3 << 20)
        data[at] = rng.choice((0, 255, rng.randrange(256)))
    image = tmp_path / "image"
    image.write_bytes(data)
    try:
        opening = library.open(image)
    except Ext4kitError:
        return
    with opening as found:
        try:
            workspace = Workspace(found.filesystem())
            views = [open_view(workspace, name) for name in ("live", "all", "deleted", "as-of")]
            batches = [batch for view in views for batch in view.walk(at_once=40)]
            nodes = [node for batch in batches for node in [*batch.nodes][:12]]
        except Ext4kitError:
            return
        for node in nodes[:60]:
            for kind in (*kinds_for(node), "text"):
                check(preview(node, kind, most_lines=40))
            check_sections(details(workspace, node))
        for node in nodes[:2]:
            versions_of(workspace, node)
            check_sections((earlier_owners(workspace, node),))
