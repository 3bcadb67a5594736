"""DFXML keeps to the published schema, and fiwalk says the same of the same files."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import Cli
from tests.environment import needs
from tests.export.conftest import HOSTILE, Exported
from tests.export.reading import exact

SCHEMA = "EXT4KIT_DFXML_SCHEMA"
SPACE = "{http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML}"
# The order that the schema (1.1) fixes for the children of a fileobject.
ORDER = (
    "parent_object", "filename", "partition", "id", "name_type", "filesize", "unalloc", "alloc",
    "used", "unused", "orphan", "compressed", "inode", "meta_type", "mode", "nlink", "uid", "gid",
    "mtime", "ctime", "atime", "crtime", "seq", "dtime", "bkup_time", "link_target", "libmagic",
    "byte_runs", "hashdigest",
)  # fmt: skip
NUMBERS = {"partition", "inode", "meta_type", "mode", "nlink", "uid", "gid", "filesize"}
FACTS = ("filesize", "name_type", "meta_type", "mode", "nlink", "uid", "gid")
FOUR_TIMES = ("mtime", "ctime", "atime", "crtime")
TIMES = {*FOUR_TIMES, "dtime"}
DATE_TIME = re.compile(r"-?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
BOTH = pytest.mark.parametrize("name", ["hostile", "removed"])


def file_objects(text: bytes) -> Iterator[ElementTree.Element]:
    """Every fileobject of a DFXML document."""
    yield from ElementTree.fromstring(text).iter(f"{SPACE}fileobject")


def value(element: ElementTree.Element, name: str) -> str | None:
    """The text of a child."""
    return element.findtext(SPACE + name)


@BOTH
def test_elements_are_those_of_the_schema_in_its_order(
    name: str, request: pytest.FixtureRequest
) -> None:
    exported: Exported = request.getfixturevalue(name)
    found = list(file_objects((exported.folder / "dfxml").read_bytes()))
    assert len(found) == len(exported.records())
    for element in found:
        names = [child.tag.removeprefix(SPACE) for child in element]
        assert names == sorted(names, key=ORDER.index)
        assert {"filename", "name_type"} <= set(names)
        assert value(element, "name_type") in tuple("-pcdbrlshwv")
        assert all(re.fullmatch(r"\d+", value(element, each) or "0") for each in NUMBERS)
        assert all(DATE_TIME.fullmatch(value(element, each) or "1970-01-01T00:00:00Z")
                   for each in TIMES)  # fmt: skip
        assert {child.get("type") for child in element.iter(f"{SPACE}hashdigest")} <= {
            "md5", "sha1", "sha256",
        }  # fmt: skip


@BOTH
@pytest.mark.skipif(SCHEMA not in os.environ, reason=f"{SCHEMA} does not name the schema's file")
def test_the_published_schema_accepts_it(name: str, request: pytest.FixtureRequest) -> None:
    etree = pytest.importorskip("lxml.etree")
    exported: Exported = request.getfixturevalue(name)
    schema = etree.XMLSchema(etree.parse(os.environ[SCHEMA]))
    schema.assertValid(etree.parse(str(exported.folder / "dfxml")))


@needs("fiwalk")
@BOTH
def test_fiwalk_says_the_same_of_live_files(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    exported: Exported = request.getfixturevalue(name)
    theirs = _by_inode(_fiwalk(exported.image, tmp_path / "fiwalk.xml"))
    ours = _by_inode((exported.folder / "dfxml").read_bytes())
    assert ours.keys() == theirs.keys()
    assert ours == theirs


def _fiwalk(image: Path, out: Path) -> bytes:
    """What fiwalk writes, without the names, which it does not make fit for XML."""
    subprocess.run(["fiwalk", "-O", "-X", str(out), str(image)], check=True, capture_output=True)
    text = out.read_bytes()
    return re.sub(rb"<(filename|link_target)>.*?</\1>", rb"<\1>x</\1>", text, flags=re.DOTALL)


def _by_inode(text: bytes) -> dict[str | None, Any]:
    """What is said of each inode that is allocated: facts, times to the second, runs, digests.

    Left out is what fiwalk tells in its own way: holes as runs, places of what lies in the inode,
    hashes of folders and links, and none of empty files.
    """
    found = {}
    for element in file_objects(text):
        is_made_up = value(element, "name_type") in ("V", "v")  # a folder for orphans
        if value(element, "alloc") != "1" or value(element, "inode") == "2" or is_made_up:
            continue
        facts = [value(element, name) for name in FACTS]
        times = [
            (value(element, name) or "")[:19] for name in ("mtime", "ctime", "atime", "crtime")
        ]
        runs = [dict(run.attrib) for run in element.iter(f"{SPACE}byte_run")
                if "fs_offset" in run.attrib and "type" not in run.attrib]  # fmt: skip
        digests = {each.get("type"): each.text for each in element.iter(f"{SPACE}hashdigest")
                   if facts[:1] != ["0"] and facts[1] == "r"}  # fmt: skip
        kept = {kind: digests.get(kind) for kind in ("md5", "sha1")}
        found[value(element, "inode")] = (facts, times, runs, kept)
    return found


def test_hostile_names_come_back_whole(hostile: Exported) -> None:
    data = (hostile.folder / "dfxml").read_bytes()
    names = [value(element, "filename") or "" for element in file_objects(data)
             if value(element, "name_type") == "r"]  # fmt: skip
    assert sorted(map(exact, names)) == sorted(HOSTILE)
    targets = [value(element, "link_target") for element in file_objects(data)]
    assert sorted(exact(target) for target in targets if target) == sorted(HOSTILE)


def test_places_in_the_image_lead_to_the_content(
    hostile: Exported, ext4kit: Cli, tmp_path: Path
) -> None:
    image = tmp_path / "disk.img"
    data = bytes(1 << 20) + hostile.image.read_bytes()
    image.write_bytes(data)
    options = ("--offset", str(1 << 20), "--hash", "md5", "--without", "deleted")
    done = ext4kit("export", image, "--dfxml", "-", *options)
    assert done.returncode == 0, done.stderr
    checked = 0
    for element in file_objects(done.stdout.encode()):
        digest, runs = value(element, "hashdigest"), list(element.iter(f"{SPACE}byte_run"))
        if digest and runs:
            pieces = [data[int(run.attrib["img_offset"]) :][: int(run.attrib["len"])]
                      for run in runs]  # fmt: skip
            assert hashlib.md5(b"".join(pieces)).hexdigest() == digest
            checked += 1
    assert checked == len(HOSTILE) - 1  # one is empty
