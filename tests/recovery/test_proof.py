"""The places that a manifest names hold what it says of them."""

from __future__ import annotations

import base64
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images

SAMPLES = ("rm_rf_tree", "removed_after_remount", "ext3", "orphan_file", "large_extent_leaves")


def manifest(ext4kit: Cli, image: Path, out: Path) -> list[dict[str, Any]]:
    """The records that `recover` writes of an image."""
    ext4kit("recover", image, "-o", out, "-q")
    return list(read_records(out))


def exact(record: dict[str, Any], key: str) -> bytes:
    """The bytes of a text of a record."""
    stored = record.get(f"{key}_bytes")
    return base64.b64decode(stored) if stored else str(record[key]).encode()


@pytest.mark.heavy
@pytest.mark.parametrize("name", SAMPLES)
def test_the_bytes_at_each_place_are_those_of_the_record(
    name: str, ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    sample = unpacked(name)
    data = sample.image.read_bytes()
    told = 0
    for record in manifest(ext4kit, sample.image, tmp_path / "out"):
        evidence = record["evidence"]
        if evidence is None or evidence["inode_at"] is None:
            continue
        told += 1
        at = evidence["inode_at"]["offset"]
        mode, _, size = struct.unpack_from("<HHI", data, at)
        assert mode == record["mode"]
        assert size == record["size"] or record["grade"] in ("partial", "overwritten")
        assert struct.unpack_from("<I", data, at + 100)[0] == record["generation"]
        if freed := evidence["freed_at"]:
            links, dtime = (
                struct.unpack_from("<H", data, freed["offset"] + 26)[0],
                struct.unpack_from("<I", data, freed["offset"] + 20)[0],
            )
            assert links == 0
            assert (dtime * 10**9 or None) == record["dtime"]
        if entry := evidence["name_at"]:
            raw = exact(record, "name")
            number, _, length = struct.unpack_from("<IHB", data, entry["offset"])
            assert (number, length) == (record["inode"], len(raw))
            assert data[entry["offset"] + 8 :][: len(raw)] == raw
        for node in evidence["map_at"] if name != "ext3" else ():
            assert data[node["offset"] :][:2] == b"\x0a\xf3"
    assert told > 20


@pytest.mark.heavy
def test_a_lost_file_system_names_no_places(ext4kit: Cli, unpacked: Images, tmp_path: Path) -> None:
    image = tmp_path / "again.img"
    image.write_bytes(unpacked("rm_rf_tree").image.read_bytes())
    subprocess.run(["mke2fs", "-q", "-F", "-E", "nodiscard", str(image)], check=True)
    ext4kit("recover", image, "--lost", "-o", tmp_path / "out", "-q")
    assert {record["evidence"] for record in read_records(tmp_path / "out")} == {None}
