"""`explain` tells what a deleted file rests on; the bytes that it names are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images

INODE_AT = re.compile(r"The inode was read at byte ([0-9,]+) of the image")


@pytest.mark.heavy
def test_sentences_are_numbered_and_name_bytes_of_the_image(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    sample = unpacked("rm_rf_tree")
    ext4kit("recover", sample.image, "-o", tmp_path / "out", "-q")
    row, record = next(
        (row, each)
        for row, each in enumerate(read_records(tmp_path / "out"), 1)
        if each["extents"] and each["path"]
    )
    said = ext4kit("explain", sample.image, record["path"], "-q")
    assert said.returncode == 0, said.stderr
    told = said.stdout.splitlines()
    assert [int(line.split(".")[0]) for line in told] == list(range(1, len(told) + 1))
    found = INODE_AT.search(said.stdout)
    assert found is not None
    assert int(found[1].replace(",", "")) == record["evidence"]["inode_at"]["offset"]
    for words in ("it matches", "unallocated now: block bitmap", record["sha256"], "Grade intact"):
        assert words in said.stdout
    manifest = tmp_path / "out/manifest.jsonl"
    again = ext4kit("explain", sample.image, "--manifest", manifest, "--record", str(row), "-q")
    assert again.stdout == said.stdout
    as_json = ext4kit("explain", sample.image, f"<{record['inode']}>", "--json", "-q")
    statements = json.loads(as_json.stdout.splitlines()[0])["statements"]
    assert f"{statements[-1]['number']}. {statements[-1]['text']}" == told[-1].strip()


def test_a_changed_checksum_does_not_match(ext4kit: Cli, unpacked: Images, tmp_path: Path) -> None:
    sample = unpacked("rm_rf_tree")
    ext4kit("recover", sample.image, "-o", tmp_path / "out", "-q")
    manifest = tmp_path / "out/manifest.jsonl"
    record = json.loads(manifest.read_text(encoding="utf-8").splitlines()[0])
    record["evidence"]["inode_at"]["checksum"] ^= 1
    manifest.write_text(json.dumps(record) + "\n", encoding="utf-8")
    said = ext4kit("explain", sample.image, "--manifest", manifest, "--record", "1", "-q")
    assert "it does not match" in said.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("/no/such/file",),
        (),
        ("/x", "--manifest", "none", "--record", "1"),
        ("--manifest", "none", "--record", "1"),
        ("--record", "1"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_told_in_one_line(
    words: tuple[str, ...], ext4kit: Cli, unpacked: Images
) -> None:
    done = ext4kit("explain", unpacked("rm_rf_tree").image, *words, "-q")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_record_without_evidence_is_told_as_far_as_it_goes(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text('{"path": "/x"}\n', encoding="utf-8")
    image = unpacked("rm_rf_tree").image
    done = ext4kit("explain", image, "--manifest", manifest, "--record", "1", "-q")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
