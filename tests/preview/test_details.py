"""Details, versions and owners of nodes are what the kernel, debugfs and the commands say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.filesystem.view import Node
from ext4kit.preview.capabilities import capability_text
from ext4kit.preview.details import details, explanation, path_in_image
from ext4kit.preview.model import Section
from ext4kit.preview.previews import kinds_for, preview
from ext4kit.preview.versions import difference, earlier_owners, versions_of, versions_section
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import run
from tests.conftest import Cli, Images
from tests.preview.contents import BIG, LivedIn, Rewritten, lived_in, opened, pages, rewritten


@pytest.fixture(scope="module")
def lived(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> LivedIn:
    return lived_in(tmp_path_factory.mktemp("lived") / "image")


@pytest.fixture
def workspace(lived: LivedIn) -> Iterator[Workspace]:
    with opened(lived.image) as found:
        yield found


@pytest.fixture(scope="module")
def notes(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return rewritten(tmp_path_factory.mktemp("notes") / "image")


def node_at(workspace: Workspace, path: str, view: str = "live") -> Node:
    return open_view(workspace, view).lookup(path)


def rows(sections: tuple[Section, ...], title: str) -> dict[str, str]:
    return dict(next(section for section in sections if section.title == title))


def test_an_inode_is_what_debugfs_shows(lived: LivedIn, workspace: Workspace) -> None:
    for name in ("notes.txt", "program", "new", "disk", "etc", "link"):
        told = run("debugfs", "-R", f"stat {name}", lived.image).decode()
        facts = rows(details(workspace, node_at(workspace, f"/{name}")), "Inode")
        expected = re.search(
            r"Inode: (\d+) +Type: .* Mode: +(\d+) +Flags: (\S+)\nGeneration: (\d+).*\n"
            r"User: +(\d+) +Group: +(\d+) .*Size: (\d+)", told
        )  # fmt: skip
        links = re.search(r"Links: (\d+) +Blockcount: (\d+)", told)
        if name == "disk":
            assert "Device major/minor number: 08:17" in told
            assert facts["Device"] == "8, 17"
            continue
        assert expected
        assert links
        number, mode, flags, generation, uid, gid, size = expected.groups()
        assert (facts["Inode"], facts["Generation"], facts["Size"]) == (number, generation, size)
        assert facts["Mode"].startswith(mode)
        assert facts["Owner"] == f"uid {uid}, gid {gid}"
        assert facts["Flags"].startswith(f"{flags} ")
        assert (facts["Links"], facts["Space"].split()[0]) == links.groups()
    assert int(re.findall(r"Mode: +(\d+)", told)[0], 8) == 0o777


def test_owners_have_their_names_in_the_image(workspace: Workspace) -> None:
    facts = rows(details(workspace, node_at(workspace, "/program")), "Inode")
    assert facts["Owner names"] == "anna, staff"
    facts = rows(details(workspace, node_at(workspace, "/link")), "Inode")
    assert facts["Owner names"] == "root, root"


def test_attributes_are_those_that_were_set(workspace: Workspace) -> None:
    found = rows(details(workspace, node_at(workspace, "/program")), "Attributes")
    assert found == {"security.capability": "cap_net_admin,cap_net_raw=ep"}
    found = rows(details(workspace, node_at(workspace, "/notes.txt")), "Attributes")
    assert found["user.origin"] == r"a\x1bletter"
    assert "user:1000:rw-" in found["system.posix_acl_access"]
    assert "group:50:r--" in found["system.posix_acl_access"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0000000200040000000400000000000000000000", "cap_net_bind_service=ip"),
        ("0100000300200000000000000000000000000000" + "9a020000", "cap_net_raw=ep [rootid=666]"),
        ("010000020000000000000000c0020000" + "00" * 4, "cap_perfmon,cap_bpf,cap_41=ep"),
        ("0100000200200000", None),
        ("", None),
        ("00000009", None),
    ],
)
def test_capabilities_are_written_as_getcap_writes_them(value: str, text: str | None) -> None:
    assert capability_text(bytes.fromhex(value)) == text


@pytest.mark.parametrize("words", ["cap_chown=p", "cap_bpf,cap_kill=ei", "cap_kill=p cap_chown=i"])
def test_capabilities_of_setcap(needs_kernel: None, tmp_path: Path, words: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"x")
    run("setcap", words, program)
    told = run("getcap", program).decode().split(" ", 1)[1].strip()
    ours = capability_text(os.getxattr(program, "security.capability"))
    assert ours is not None
    assert sorted(ours.split()) == sorted(told.replace("+", "=").split())


def test_extents_are_those_of_debugfs(lived: LivedIn, workspace: Workspace) -> None:
    for name in ("filler", "new"):
        told = run("debugfs", "-R", f"dump_extents -l {name}", lived.image).decode()
        expected = []
        for line in told.splitlines()[1:]:
            logical, physical = re.findall(r"(\d+) - +(\d+)", line)
            expected.append((*map(int, logical), *map(int, physical)))
        found = []
        sections = details(workspace, node_at(workspace, f"/{name}"))
        for key, text in rows(sections, "Extents").items():
            if key.startswith("File block"):
                at, where = (re.findall(r"[0-9,]+", one) for one in (key, text))
                found.append(tuple(int(one.replace(",", "")) for one in
                                   (at[0], at[-1], where[0], where[-1])))  # fmt: skip
        assert found == expected


def test_a_reused_part_is_told_and_marked(lived: LivedIn, workspace: Workspace) -> None:
    """The blocks that debugfs gives to both files are lost in the one and told in the other."""
    first, last = lived.reused
    node = node_at(workspace, "/big", "deleted")
    told = f"lost: inode {lived.inodes['new']} /new"
    assert rows(details(workspace, node), "Extents")[f"Bytes {first:,} to {last:,}"] == told
    assert dict(earlier_owners(workspace, node))[f"Bytes {first:,} to {last:,}"] == told
    lines = [line for page in pages(node, "hex", 1000) for line in page.lines]
    lost = [line.text for line in lines if line.spans[0].role == "lost"]
    assert lost == [f"lost: bytes {first:,} to {last:,}: {told}"]
    shown = b"".join(bytes.fromhex(line.spans[1].text) for line in lines if len(line.spans) == 3)
    assert shown == BIG[:first] + BIG[last + 1 :]
    texts = [line for page in pages(node, "text", 500) for line in page.lines]
    assert [line.text.strip() for line in texts if line.spans[-1].role == "lost"] == [
        f"[bytes {first:,} to {last:,}: {told}]"
    ]
    owners = earlier_owners(workspace, node_at(workspace, "/new"))
    (text,) = {text for _, text in owners}
    assert text.startswith(f"/big, inode {lived.inodes['big']}, generation ")


def test_versions_have_their_order_and_their_difference(notes: Rewritten, tmp_path: Path) -> None:
    texts = notes.texts
    with opened(notes.image) as workspace:
        places = (("live", "/notes.txt"), ("all", "/notes.txt"), ("versions", "/notes.txt/2"))
        for view, path in places:
            found = versions_of(workspace, node_at(workspace, path, view))
            assert [one.number for one in found] == [1, 2, 3], view
        assert [one.content.read(0, 1 << 20).decode() for one in found if one.content] == texts
        section = dict(versions_section(found))
        assert section["Versions"] == "3"
        assert f"{len(texts[2]):,} bytes, as it is: rewritten" in section["3"]
        files = [tmp_path / "older", tmp_path / "newer"]
        for file, text in zip(files, texts[::2], strict=True):
            file.write_text(text)
        diff = subprocess.run(["diff", "-u", *files], capture_output=True, text=True, check=False)
        ours = difference(found[0], found[2])
        assert ours.text.splitlines() == diff.stdout.splitlines()[2:]
        roles = {line.spans[0].role for line in ours.lines}
        assert roles == {"heading", "plain", "removed", "added"}
        older, newer = (node_at(workspace, f"/notes.txt/{n}", "versions") for n in (1, 3))
        assert difference(older, newer) == ours
        assert difference(found[1], found[1]).note == "the texts are the same"
        assert versions_of(workspace, node_at(workspace, "/etc")) == ()


def test_a_moment_has_its_own_state(notes: Rewritten) -> None:
    with opened(notes.image) as workspace:
        tid = versions_of(workspace, node_at(workspace, "/notes.txt"))[0].committed
        assert tid is not None
        then = node_at(workspace, f"/tid-{tid.transaction}/notes.txt", "as-of")
        assert path_in_image(then) == b"/notes.txt"
        sections = details(workspace, then)
        assert rows(sections, "Node")["As of"] == f"transaction {tid.transaction}"
        assert rows(sections, "Inode")["Size"] == str(len(notes.texts[0]))
        assert "Grade" in rows(sections, "Grade")
        (page,) = pages(then, "text", 500)
        assert [line.spans[1].text for line in page.lines] == notes.texts[0].splitlines()
        assert len(versions_of(workspace, then)) == 3


def test_a_moment_marks_what_was_reused_since(lived: LivedIn, workspace: Workspace) -> None:
    tid = versions_of(workspace, node_at(workspace, "/notes.txt"))[0].committed
    assert tid is not None
    big = node_at(workspace, f"/tid-{tid.transaction}/big", "as-of")
    first, last = lived.reused
    lines = [line for page in pages(big, "hex", 1000) for line in page.lines]
    lost = [line.text for line in lines if line.spans[0].role == "lost"]
    assert len(lost) == 1
    assert lost[0].startswith(f"lost: bytes {first:,} to {last:,}: lost: ")


def test_nodes_without_bytes_tell_what_they_are(workspace: Workspace) -> None:
    assert kinds_for(node_at(workspace, "/link")) == ("link", "hex")
    assert preview(node_at(workspace, "/link")).text.split() == ["target", "etc/passwd"]
    found = preview(node_at(workspace, "/disk"))
    assert [line.text.split() for line in found.lines] == [
        ["type", "blockdev"], ["major", "8"], ["minor", "17"]
    ]  # fmt: skip
    found = preview(node_at(workspace, "/", "all"), most_lines=100)
    assert found.kind == "directory"
    told = {line.spans[0].text.strip(): line.spans[-1].text for line in found.lines if line.spans}
    names = [node.name for node in open_view(workspace, "all").root.children()]
    assert told["entries"] == str(len(names))
    assert b"big" in names
    assert "deleted" in told


@pytest.mark.heavy
def test_the_evidence_is_told_as_explain_tells_it(unpacked: Images, ext4kit: Cli) -> None:
    image = unpacked("rm_rf_tree").image
    with library.open(image) as found:
        workspace = Workspace(found.filesystem())
        nodes = [
            node for batch in open_view(workspace, "deleted").walk() for node in batch.nodes
            if node.kind == "file" and node.size and node.inode
        ]  # fmt: skip
        for node in nodes[:2]:
            said = ext4kit("explain", image, f"<{node.number}>", "--json", "-q").stdout
            statements = json.loads(said.splitlines()[0])["statements"]
            section = explanation(workspace, node, found.volumes[0].facts)
            assert [text for _, text in section] == [one["text"] for one in statements]
        live = next(iter(open_view(workspace, "live").root.children()))
        assert not explanation(workspace, live, found.volumes[0].facts).rows
