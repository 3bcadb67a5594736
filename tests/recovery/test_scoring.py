"""The scorer and the truth are themselves held to account: hand-made outputs, debugfs."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sample_images import packed_names
from sample_images.recipes.judge import directory_entries
from sample_images.recipes.logwalk import copies_in_log
from sample_images.recipes.machine import run
from sample_images.recipes.ondisk import Disk, content_digest
from sample_images.recipes.score import Score, read_outputs, score
from sample_images.recipes.truth import FileTruth, LiveFile, Truth, load
from tests.conftest import Images
from tests.environment import needs
from tests.writing_kernel import WritingKernel

CONTENT = b"the last words"
needs_debugfs = needs("debugfs")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _state(path: bytes = b"a/b\xff", **changes: Any) -> FileTruth:
    values = dict(
        path=path,
        inode=12,
        generation=7,
        size=len(CONTENT),
        mode=0o100644,
        uid=0,
        gid=0,
        mtime_ns=0,
        sha256=_sha256(CONTENT),
        blocks=[(0, 100, 1, False)],
        blocks_hold=True,
        inode_known="log",
        path_in_log=True,
    )
    return FileTruth(**{**values, **changes})


def _score(tmp_path: Path, content: bytes | None, truth: Truth, **record: Any) -> Score:
    values = {
        "output": "files/a/b%FF" if content is not None else None,
        "path": "/a/b\ufffd",
        "path_bytes": "L2EvYv8=",
        "inode": 12,
        "generation": 7,
        "type": "file",
        "grade": "intact",
        **record,
    }
    if content is not None:
        file = tmp_path / values["output"]
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    (tmp_path / "manifest.jsonl").write_text(json.dumps(values) + "\n")
    return score(truth, read_outputs(tmp_path))


def test_the_right_bytes_under_the_right_name_are_all_well(tmp_path: Path) -> None:
    result = _score(tmp_path, CONTENT, Truth("hand", [_state()]))
    assert (result.could, result.could_exact, result.paths, result.paths_right) == (1, 1, 1, 1)
    assert not (result.missing or result.wrong_path or result.intact_wrong or result.live)


def test_what_was_not_written_is_missing(tmp_path: Path) -> None:
    result = _score(tmp_path, None, Truth("hand", [_state()]))
    assert [one.inode for one in result.missing] == [12]


def test_what_cannot_be_had_is_not_asked_for(tmp_path: Path) -> None:
    hopeless = [_state(blocks_hold=False), _state(inode_known=""), _state(state="earlier")]
    hopeless.append(_state(inode_known="stale-index", ends_in_zero=True))
    result = _score(tmp_path, None, Truth("hand", hopeless))
    assert (result.could, result.missing) == (0, [])


def test_another_name_is_a_wrong_path(tmp_path: Path) -> None:
    result = _score(tmp_path, CONTENT, Truth("hand", [_state(b"a/c")]))
    assert [one.path for one in result.wrong_path] == [b"a/c"]


def test_other_bytes_graded_intact_are_found_whatever_the_manifest_says(tmp_path: Path) -> None:
    told = {"sha256": _sha256(CONTENT)}
    result = _score(tmp_path, b"something else", Truth("hand", [_state()]), **told)
    assert [one.life for one in result.intact_wrong] == [(12, 7)]
    assert result.could_exact == 0


def test_other_bytes_graded_partial_are_no_lie(tmp_path: Path) -> None:
    result = _score(tmp_path, b"something", Truth("hand", [_state()]), grade="partial")
    assert result.intact_wrong == []


def test_an_earlier_version_is_a_content_that_the_life_had(tmp_path: Path) -> None:
    earlier = _state(sha256=_sha256(b"first words"), state="earlier")
    result = _score(tmp_path, b"first words", Truth("hand", [_state(), earlier]))
    assert result.intact_wrong == []


def test_a_living_file_in_the_output_is_found(tmp_path: Path) -> None:
    alive = LiveFile(b"a/b", 12, 7, _sha256(CONTENT))
    result = _score(tmp_path, CONTENT, Truth("hand", [], [alive]))
    assert [one.life for one in result.live] == [(12, 7)]


def test_an_empty_file_has_to_come_under_its_own_inode(tmp_path: Path) -> None:
    empty = _state(size=0, sha256=_sha256(b""))
    assert _score(tmp_path, b"", Truth("hand", [empty]), inode=13).could_exact == 0


def test_truth_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    truth = Truth("hand", [_state()], [LiveFile(b"\x1b[1m", 13, 8, "00")])
    for name in ("truth.json", "truth.json.xz"):
        truth.save(tmp_path / name)
        assert load(tmp_path / name) == truth


@pytest.mark.heavy
@pytest.mark.parametrize("name", packed_names())
def test_packed_images_hold_what_their_truth_says(name: str, unpacked: Images) -> None:
    sample = unpacked(name)
    truth = load(sample.truth)
    if WritingKernel(truth.kernel).log_goes_on:
        assert sum(one.could_be_had and one.path_in_log for one in truth.files) >= 20
    with Disk(sample.image) as disk:
        for one in truth.files:
            holds = one.inline or content_digest(disk, one.blocks, one.size) == one.sha256
            assert holds == one.blocks_hold, one.path


@needs_debugfs
@pytest.mark.parametrize("name", packed_names())
def test_log_walk_finds_all_that_debugfs_finds(name: str, unpacked: Images) -> None:
    image = unpacked(name).image
    said = run("debugfs", "-R", "logdump -aO", image).decode(errors="replace")
    wanted = Counter(int(block) for block in re.findall(r"FS block (\d+) logged at", said))
    with Disk(image) as disk:
        described = copies_in_log(disk).described
    found = Counter({block: len(copies) for block, copies in described.items()})
    assert wanted
    assert wanted - found == Counter()


@needs_debugfs
@pytest.mark.parametrize("name", packed_names())
def test_living_files_are_those_of_debugfs(name: str, unpacked: Images) -> None:
    """Inode, generation and content of each file that the truth calls alive."""
    sample = unpacked(name)
    for one in load(sample.truth).live[:8]:
        request = f"<{one.inode}>"
        said = run("debugfs", "-R", f"stat {request}", sample.image).decode(errors="replace")
        generation = re.search(r"Generation: (\d+)", said)
        assert generation is not None
        assert int(generation.group(1)) == one.generation
        assert _sha256(run("debugfs", "-R", f"cat {request}", sample.image)) == one.sha256


def test_directory_entries_stop_at_the_first_impossible_length() -> None:
    block = bytes.fromhex("0c000000 0c00 01 01 61000000 0d000000 0000 01 01 62000000")
    assert directory_entries(block) == {(12, b"a")}
