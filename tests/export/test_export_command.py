"""The command: what it refuses, what it leaves behind, and what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.export.rows import gone_batches, live_batches
from ext4kit.known.digests import Digester
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from tests.conftest import Cli
from tests.environment import ROOT
from tests.export.conftest import TEXTS, Exported


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--db", "-"),
        ("--csv", "-", "--jsonl", "-"),
        ("--csv", "-", "--json"),
        ("--csv", "same", "--jsonl", "same"),
        ("--csv", "new", "--hash", "md4"),
        ("--csv", "new", "--without", "nothing"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], removed: Exported, ext4kit: Cli, tmp_path: Path
) -> None:
    paths = [tmp_path / word if word in ("same", "new") else word for word in words]
    assert ext4kit("export", removed.image, *paths).returncode == 2
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_there_is_written_over(
    removed: Exported, ext4kit: Cli, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    done = ext4kit("export", removed.image, "--csv", tmp_path / "new", "--db", kept)
    assert done.returncode == 2 and "already exists" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("name", ["csv", "db"])
def test_an_output_that_cannot_be_finished_says_so(
    name: str, removed: Exported, tmp_path: Path
) -> None:
    limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", sys.executable, "-m", "ext4kit"]
    words = [str(removed.image), f"--{name}", str(tmp_path / name), "--without", "deleted"]
    done = subprocess.run(
        [*limited, "export", *words], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 1 and "incomplete" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.incomplete"]


def test_a_folder_that_is_not_there_is_told(
    removed: Exported, ext4kit: Cli, tmp_path: Path
) -> None:
    done = ext4kit("export", removed.image, "--csv", tmp_path / "none" / "csv")
    assert done.returncode == 1 and "choose another place" in done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("name", TEXTS)
def test_standard_output_gets_the_same(name: str, removed: Exported, ext4kit: Cli) -> None:
    done = ext4kit("export", removed.image, f"--{name}", "-", "--hash", "md5,sha1,sha256")
    assert done.returncode == 0
    ours, theirs = removed.text(name).splitlines(), done.stdout.splitlines()
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    assert len(ours) - same <= 3  # time and command line of the run


def test_the_record_tells_what_was_written(removed: Exported) -> None:
    counts = {each["format"]: each["records"] for each in removed.record["outputs"]}
    files = removed.record["live"] + removed.record["deleted"]
    assert {counts[name] for name in ("bodyfile", "dfxml", "case-uco", "csv", "jsonl", "db")} == {
        files
    }


def test_parts_can_be_left_out(removed: Exported, ext4kit: Cli, tmp_path: Path) -> None:
    options = ("--without", "live", "--without", "events", "--without", "findings")
    done = ext4kit("export", removed.image, "--db", tmp_path / "db", *options, "--json")
    record = json.loads(done.stdout.splitlines()[-1])
    assert (record["live"], record["events"], record["findings"]) == (0, 0, 0)
    assert record["deleted"] == removed.record["deleted"]


def test_operator_and_case_stand_in_the_outputs(
    removed: Exported, ext4kit: Cli, tmp_path: Path
) -> None:
    options = ("--operator", "A. <Nobody>", "--case-number", "17/4", "--without", "deleted")
    path = tmp_path / "case.json"
    ext4kit("export", removed.image, "--case-uco", path, *options)
    action = next(node for node in json.loads(path.read_text())["@graph"]
                  if node["@type"] == "case-investigation:InvestigativeAction")  # fmt: skip
    assert "operator: A. <Nobody>; case: 17/4" in action["core:description"]


@pytest.mark.parametrize("state", ["live", "deleted"])
def test_progress_is_told_while_contents_are_hashed(state: str, removed: Exported) -> None:
    """A word each 64 rows at the latest: a batch of contents can take minutes."""
    told: list[tuple[int, int]] = []

    def show(done: int, total: int) -> None:
        told.append((done, total))

    with library.open(removed.image) as image:
        fs = image.volume().filesystem()
        hashed = Digester(("md5",), fs.blocks)
        if state == "live":
            batches = list(live_batches(fs, False, hashed, show))
        else:
            batches = list(
                gone_batches(find_deleted(fs, sources=JOURNAL_ONLY).files, False, hashed, show)
            )
    count = sum(map(len, batches))
    steps = [0, *(done for done, _ in told)]
    assert told[-1] == (count, count)
    assert max(after - before for before, after in pairwise(steps)) <= 64
