"""Undelete keeps its word on every sample image, whose truth is known file by file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from sample_images import packed_names
from sample_images.recipes.making import RECIPES
from sample_images.recipes.score import Score, read_outputs, score
from sample_images.recipes.truth import FileTruth, Truth, load
from tests.conftest import Cli, Images

SAMPLES = [
    pytest.param(f"packed/{name}", id=f"packed-{name}") for name in packed_names()
] + [
    pytest.param(
        name, id=name, marks=[pytest.mark.kernel] + ([pytest.mark.slow] if recipe.slow else [])
    )
    for name, recipe in RECIPES.items()
    if not recipe.forgotten
]  # fmt: skip
GRADES = {"intact", "partial", "overwritten", "carved"}


class Recovery:
    """One recovery of one sample: its truth, its output folder, its score."""

    def __init__(self, truth: Truth, out: Path, said: str) -> None:
        self.truth = truth
        self.out = out
        self.said = said
        lines = (out / "manifest.jsonl").read_text().splitlines()
        self.records = [json.loads(line) for line in lines]
        self.score: Score = score(truth, read_outputs(out))


@pytest.fixture(scope="module", params=SAMPLES)
def recovery(
    request: pytest.FixtureRequest,
    ext4kit: Cli,
    unpacked: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recovery:
    """Recover one sample by the command line; the image must be the same bytes afterwards."""
    name: str = request.param
    if name.startswith("packed/"):
        sample = unpacked(name.removeprefix("packed/"))
    else:
        give: Images = request.getfixturevalue("built")
        sample = give(name)
    before = sample.image.stat().st_mtime_ns, _digest(sample.image)
    out = tmp_path_factory.mktemp("recovered") / "out"
    done = ext4kit("recover", sample.image, "-o", out)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert (sample.image.stat().st_mtime_ns, _digest(sample.image)) == before
    return Recovery(load(sample.truth), out, done.stderr)


def test_every_file_that_can_be_had_is_written_bit_for_bit(recovery: Recovery) -> None:
    missing = recovery.score.missing
    assert [(one.path, one.inode, one.inode_known) for one in missing] == []


def test_known_names_lead_to_the_last_full_path(recovery: Recovery) -> None:
    assert [(one.path, one.inode) for one in recovery.score.wrong_path] == []


def test_nothing_graded_intact_has_bytes_that_its_life_never_had(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.intact_wrong] == []


def test_no_living_file_is_in_the_output(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.live] == []


def test_plain_names_stand_in_the_output_as_they_are(recovery: Recovery) -> None:
    """A path of plain characters that no other deleted file had is the path below files/."""
    paths = Counter(one.path for one in recovery.truth.files)
    exact = {one.path for one in read_outputs(recovery.out) if one.file.startswith("files/")}
    plain = [
        os.fsdecode(one.path)
        for one in recovery.truth.files
        if one.could_be_had and one.path in exact and paths[one.path] == 1 and _is_plain(one.path)
    ]
    assert [path for path in plain if not (recovery.out / "files" / path).is_file()] == []


def test_manifest_and_output_folder_agree(recovery: Recovery) -> None:
    """Each written file has one record with its size and digest, and nothing else is there."""
    written = {record["output"]: record for record in recovery.records if record.get("output")}
    files = {
        path.relative_to(recovery.out).as_posix(): path
        for path in recovery.out.rglob("*")
        if path.is_file() and path.name not in ("manifest.jsonl", "case.json")
    }
    assert set(files) == {name for name in written if (recovery.out / name).is_file()}
    assert set(files) == set(written)
    for name, path in files.items():
        assert written[name]["size"] == path.stat().st_size, name
        assert written[name]["sha256"] == _digest(path), name
    assert {record["grade"] for record in recovery.records} <= GRADES


def test_metadata_is_that_of_the_file_before_it_went(recovery: Recovery) -> None:
    by_life = {
        (record["inode"], record["generation"]): record
        for record in recovery.records
        if record.get("output")
    }
    for one in recovery.truth.files:
        record = by_life.get((one.inode, one.generation))
        if record is None or not one.could_be_had or one.inode_known == "stale-index":
            continue
        got = [record[key] for key in ("size", "mode", "uid", "gid", "mtime")]
        wanted = [one.size, one.mode, one.uid, one.gid, one.mtime_ns]
        if recovery.truth.recipe in ("inode_128", "ext3", "ext2"):
            got[4], wanted[4] = got[4] // 10**9, wanted[4] // 10**9
        assert _permissions(got) == _permissions(wanted), one.path


VERSIONED = ("truncate_rewrite", "cut_short_first", "editor_save")


@pytest.fixture(scope="module", params=VERSIONED)
def versions(
    request: pytest.FixtureRequest,
    ext4kit: Cli,
    built: Images,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recovery:
    """Recover one sample with the earlier states of its files."""
    sample = built(request.param)
    out = tmp_path_factory.mktemp("versions") / "out"
    done = ext4kit("recover", sample.image, "-o", out, "--versions")
    assert done.returncode in (0, 1), done.stderr
    return Recovery(load(sample.truth), out, done.stderr)


@pytest.mark.kernel
def test_versions_brings_each_earlier_state_whose_bytes_are_left(versions: Recovery) -> None:
    written = {(one.life, one.sha256) for one in read_outputs(versions.out) if one.file}
    last = {_life(one): one for one in versions.truth.files if one.state == "deleted"}
    lost = [
        (one.path, one.size)
        for one in versions.truth.files
        if one.recoverable
        and (_life(one), one.sha256) not in written
        and not _only_grew(one, last.get(_life(one)))
    ]
    assert lost == []


def _life(one: FileTruth) -> tuple[int, int]:
    return one.inode, one.generation


def _only_grew(earlier: FileTruth, last: FileTruth | None) -> bool:
    """Whether the earlier state is the beginning of the last one, blocks and all."""
    if last is None or last is earlier or earlier.size > last.size:
        return False
    return last.blocks[: len(earlier.blocks)] == earlier.blocks


@pytest.mark.kernel
def test_versions_grades_no_state_intact_that_never_was(versions: Recovery) -> None:
    """A state whose last block was later changed in place is not intact any more."""
    assert [(one.life, one.file) for one in versions.score.intact_wrong] == []


def _permissions(values: list[int]) -> list[int]:
    return [values[0], values[1] & 0o7777, *values[2:]]


def _is_plain(path: bytes) -> bool:
    return re.fullmatch(rb"[a-z0-9][a-z0-9/._-]*[a-z0-9]", path) is not None


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
