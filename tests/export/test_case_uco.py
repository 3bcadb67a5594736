"""CASE/UCO: case_validate, which has the ontology and its shapes, accepts what is written."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.export.conftest import HOSTILE, Exported
from tests.export.reading import exact

VERSION = "case-1.4.0"
FACETS = "core:hasFacet"
GRAPH = "@graph"
STATUSES = {"recovered", "partially recovered", "overwritten", "unknown"}


def graph(exported: Exported) -> list[dict[str, Any]]:
    """The objects of a graph."""
    objects: list[dict[str, Any]] = json.loads(exported.text("case-uco"))[GRAPH]
    return objects


def facet(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """The facet of a kind, {} without one."""
    found = [each for each in node[FACETS] if each["@type"] == f"observable:{kind}Facet"]
    return found[0] if found else {}


def files(exported: Exported) -> list[dict[str, Any]]:
    """The files of a graph."""
    return [node for node in graph(exported) if node["@type"][0] == "observable:File"]


@pytest.mark.heavy
@pytest.mark.skipif(not importlib.util.find_spec("case_utils"), reason="case-utils is missing")
def test_the_validator_accepts_it(removed: Exported, tmp_path: Path) -> None:
    whole = json.loads(removed.text("case-uco"))
    nodes = whole[GRAPH]
    whole[GRAPH] = [*nodes[:9], *nodes[-4:]]  # provenance, two live files, two deleted ones
    part = tmp_path / "part.json"
    part.write_text(json.dumps(whole))
    tool = Path(sys.executable).with_name("case_validate")
    command = [str(tool), "--built-version", VERSION, "--format", "human", str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[:2000] + done.stderr[-2000:]
    assert "Conforms: True" in done.stdout
    assert "Severity" not in done.stdout


def test_every_object_has_an_identifier_of_its_own(removed: Exported) -> None:
    parts: Counter[str] = Counter()
    for node in graph(removed):
        parts[node["@id"]] += 1
        for each in node.get(FACETS, []):
            parts[each["@id"]] += 1
            parts.update(one["@id"] for one in each.get("observable:hash", []))
    assert set(parts.values()) == {1}


def test_files_and_their_states_are_those_of_the_records(removed: Exported) -> None:
    found = [
        (
            facet(node, "File")["observable:filePath"],
            facet(node, "ExtInode")["observable:extInodeID"],
        )
        for node in files(removed)
    ]
    assert found == [(record["shown"], record["inode"]) for record in removed.records()]
    gone = [facet(node, "RecoveredObject") for node in files(removed)]
    assert [bool(each) for each in gone] == [
        record["state"] != "live" for record in removed.records()
    ]
    for each in filter(None, gone):
        words = {word for name, word in each.items() if name.endswith("RecoveredStatus")}
        assert words <= STATUSES and len(each) == 5


def test_hashes_are_those_of_the_records(removed: Exported) -> None:
    found = [
        {each["types:hashMethod"].lower(): each["types:hashValue"]
         for each in facet(node, "ContentData").get("observable:hash", [])}
        for node in files(removed)
    ]  # fmt: skip
    names = ("md5", "sha1", "sha256")
    assert found == [
        {name: record[name] for name in names if name in record} for record in removed.records()
    ]


def test_ranges_lead_to_the_content(removed: Exported) -> None:
    import hashlib

    nodes = graph(removed)
    places = {node["core:source"]["@id"]: node for node in nodes if "core:source" in node}
    image, checked = removed.image.read_bytes(), 0
    for node in files(removed):
        size = facet(node, "File").get("observable:sizeInBytes", 0)
        ranges = places[node["@id"]].get(FACETS, [])
        pieces = [image[each["observable:rangeOffset"] :][: each["observable:rangeSize"]]
                  for each in ranges]  # fmt: skip
        content = facet(node, "ContentData")
        if content and sum(map(len, pieces)) == size and pieces:
            digests = {each["types:hashValue"] for each in content["observable:hash"]}
            assert hashlib.md5(b"".join(pieces)).hexdigest() in digests
            checked += 1
    assert checked > 50


def test_hostile_names_come_back_whole(hostile: Exported) -> None:
    names = [facet(node, "File") for node in files(hostile)]
    paths = [exact(each["observable:filePath"]) for each in names
             if not each["observable:isDirectory"]]  # fmt: skip
    assert {b"/" + name for name in HOSTILE} <= set(paths)
    assert hostile.text("case-uco").isascii()
