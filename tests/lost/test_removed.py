"""What a lost file system had itself removed comes back out of its old log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sample_images.recipes.remade import build_remade
from sample_images.recipes.score import read_outputs
from sample_images.recipes.truth import Built, load
from tests.conftest import Cli
from tests.environment.sharing import built_once
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
NAME = "remade_without_log"


@pytest.fixture(scope="module")
def remade(needs_kernel: None) -> Built:
    """The image, made once in a run."""
    return built_once(f"remade-{NAME}", lambda folder: build_remade(NAME, folder))


def test_they_come_back_with_bytes_and_paths_and_are_never_intact(
    ext4kit: Cli, remade: Built, tmp_path: Path
) -> None:
    done = ext4kit("recover", remade.image, "--lost", "-o", tmp_path / "out")
    assert done.returncode in (0, 1), done.stderr
    outputs = {one.life: one for one in read_outputs(tmp_path / "out")}
    gone = [one for one in load(remade.truth).files if one.path.startswith(b"home/")]
    told = [outputs.get((one.inode, one.generation)) for one in gone]
    if HERE.log_goes_on:  # else the last mount wrote over what tells of them
        assert None not in told
        holding = [one for one in gone if one.blocks_hold]
        exact = [one for one in holding if outputs[one.inode, one.generation].sha256 == one.sha256]
        assert len(holding) > 5  # the others were written over by what came later
        assert len(exact) == len(holding)
        assert all(outputs[one.inode, one.generation].path == one.path for one in exact)
    there = [one for one in told if one is not None]
    assert {one.grade for one in there} <= {"partial", "overwritten"}


def test_the_record_says_what_it_rests_on(ext4kit: Cli, remade: Built) -> None:
    lines = ext4kit("deleted", remade.image, "--lost", "--json").stdout.splitlines()
    gone = {one.inode for one in load(remade.truth).files if one.path.startswith(b"home/")}
    records = [json.loads(line) for line in lines]
    mine = [
        one
        for one in records
        if one["record"] == "deleted" and one["inode"] in gone and "home/" in (one["path"] or "")
    ]
    assert mine or not HERE.log_goes_on
    for one in mine:
        assert one["sources"]["inode"].startswith("journal of the lost file system")
        assert one["reasons"][0]["code"] == "lost-deleted-earlier"
