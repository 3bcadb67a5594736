"""Undelete keeps its word on every sample image, whose truth is known file by file."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from sample_images import packed_names
from sample_images.recipes.making import RECIPES
from sample_images.recipes.score import OWN, PRESENT_PLACE, Score, read_outputs, read_records, score
from sample_images.recipes.truth import FileTruth, Truth, load
from tests.conftest import Cli, Images
from tests.writing_kernel import WritingKernel

SAMPLES = [
    pytest.param(f"packed/{name}", id=f"packed-{name}") for name in packed_names()
] + [
    pytest.param(
        name, id=name, marks=[pytest.mark.kernel] + ([pytest.mark.slow] if recipe.slow else [])
    )
    for name, recipe in RECIPES.items()
    if not recipe.forgotten
]  # fmt: skip
GRADES = {"intact", "consistent", "partial", "overwritten", "carved"}
ALL_BUT_A_FEW = 0.98  # an empty file held open has no bytes to tell it by
CAN_BE_HAD = {  # least share of the deleted files, where it is not as good as all of them
    "editor_save": 0.2,  # names and inodes are used again, and how often is the allocator's choice
    "log_rotation": 0.1,  # the log has the last ones
    "reuse": 0.15,
    "reuse_by_metadata": 0.3,
    "preallocated": 0.5,
    "data_journal_cut": 0.3,
    "stale_index": 0.8,  # those with leaves
    "stale_reuse": 0.1,
    "ext2": 0.0,  # no log, no maps: see the contents
    "debian": 0.05,  # the log has the last of many removals
    "fast_commit": 0.5,  # files made at the end may take what was freed just before
}
CONTENTS = 0.8  # of the files whose blocks still hold their bytes, by whatever way
SETTLED = {  # folders of files that an earlier mount made than the one that removed them
    "removed_after_remount": ("home",),
    "rm_rf_tree": ("project", "mail"),
    "power_cut": ("old",),
    "wide_directory": ("spool",),
    "orphan_list": ("held", "doomed"),
    "orphan_file": ("held", "doomed"),
    "reuse": ("second",),
    "truncate_rewrite": ("state",),
    "hard_links": ("two",),
    "preallocated": ("fresh",),
    "data_journal_cut": ("old",),
    "reuse_by_metadata": ("small",),
    **dict.fromkeys(
        ("ext3", "block_1k", "inode_128", "no_metadata_csum", "bigalloc", "inline_data", "meta_bg",
         "data_journal"),
        ("first",),
    ),
}  # fmt: skip
CALLED_INTACT = 0.9  # of these
# Where mounts write the log anew: of the paths whose names it has, and of the settled files.
PATHS_OF_A_LOG_WRITTEN_ANEW = 0.6  # 70 of 106 of data_journal on 6.1
CONSISTENT_THEN = 0.8  # 64 of 75 of inode_128 on 6.1
LOST_COPIES = {"data_journal_cut"}  # of data that were in the log alone
CONTENTS_THEN = 0.5  # of these: 22 of 40 on 6.1
LATER_WRITES = {  # power was cut, files are still open, or others were written in the same groups
    "power_cut", "orphan_list", "orphan_file", "reuse", "reuse_by_metadata", "inode_128",
}  # fmt: skip
WITHOUT_INODES = {"stale_index", "stale_reuse", "ext2"}  # the log has none of them
NO_PLAIN_NAMES = {*WITHOUT_INODES, "editor_save", "truncate_rewrite"}  # or paths of several files
MANY = 10
LOWER_HALF = 1 << 16  # source: kernel fs/ext4/inode.c, `ext4_fill_raw_inode`


class Recovery:
    """One recovery of one sample: its truth, its output folder, its score."""

    def __init__(self, truth: Truth, out: Path, said: str) -> None:
        self.truth = truth
        self.out = out
        self.said = said
        self.score: Score = score(truth, read_outputs(out))

    @property
    def deleted(self) -> list[FileTruth]:
        return [one for one in self.truth.files if one.state == "deleted"]

    @property
    def log_was_kept(self) -> bool:
        """Whether a mount leaves the transactions of the one before in the log."""
        return WritingKernel(self.truth.kernel).log_goes_on

    @property
    def could_be_had(self) -> list[FileTruth]:
        """Nothing but the log tells an empty file that is open from a freed one."""
        found = [one for one in self.truth.files if one.could_be_had]
        return [one for one in found if self.log_was_kept or one.size > 0 or not one.held]


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


@pytest.mark.heavy
def test_every_file_that_can_be_had_is_written_bit_for_bit(recovery: Recovery) -> None:
    least = CAN_BE_HAD.get(recovery.truth.recipe, ALL_BUT_A_FEW)
    if recovery.log_was_kept:
        assert len(recovery.could_be_had) >= least * len(recovery.deleted)
    missing = [one for one in recovery.score.missing if one in recovery.could_be_had]
    assert [(one.path, one.inode, one.inode_known) for one in missing] == []


def test_most_contents_come_back_whose_blocks_still_hold_them(recovery: Recovery) -> None:
    """Those of which the log has nothing, too: without a name, or in the wrong place."""
    written = {one.sha256 for one in read_outputs(recovery.out)}
    holding = [one for one in recovery.truth.files if one.holds]
    assert len(holding) >= MANY
    missing = [(one.path, one.size) for one in holding if one.sha256 not in written]
    lost = recovery.truth.recipe in LOST_COPIES and not recovery.log_was_kept
    assert len(missing) <= (1 - (CONTENTS_THEN if lost else CONTENTS)) * len(holding), missing


def test_files_that_had_long_been_on_the_disk_are_called_intact(recovery: Recovery) -> None:
    """What was still on its way to the disk may be called less, and so it is left out.

    Where writes without a record are possible, they are called consistent. So they are on
    kernels that leave no record of a clean unmount, or of changes.
    """
    folders = SETTLED.get(recovery.truth.recipe)
    if folders is None:
        pytest.skip(
            "no file was made in a mount before the one that removed it, and left as it was"
        )
    tops = {os.fsencode(folder) for folder in folders}
    settled = [one for one in recovery.could_be_had if one.path.split(b"/")[0] in tops]
    outputs = {(one.life, one.sha256): one.grade for one in read_outputs(recovery.out) if one.file}
    grades = Counter(outputs.get((_life(one), one.sha256)) for one in settled)
    whole = grades["intact"] + grades["consistent"]
    if not recovery.log_was_kept:
        assert grades[None] == 0
        ended = [one for one in settled if not one.ends_in_zero]  # its bytes show where it ends
        if recovery.truth.recipe not in LOST_COPIES:
            assert whole >= CONSISTENT_THEN * len(ended), grades
        return
    assert len(settled) >= MANY
    least = CALLED_INTACT * len(settled)
    if recovery.truth.recipe in LATER_WRITES:
        assert whole >= least, grades
    else:
        assert grades["intact"] >= least, grades


def test_known_names_lead_to_the_last_full_path(recovery: Recovery) -> None:
    """Where mounts write the log anew, a directory may have moved in what is overwritten."""
    if recovery.log_was_kept:
        assert [(one.path, one.inode) for one in recovery.score.wrong_path] == []
    else:
        assert recovery.score.paths_right >= PATHS_OF_A_LOG_WRITTEN_ANEW * recovery.score.paths


def test_no_path_is_told_that_the_file_did_not_have_when_it_went(recovery: Recovery) -> None:
    """Where a directory stands now says itself that it may have stood elsewhere then."""
    paths = {_life(one): one.path for one in recovery.deleted}
    told = [one for one in read_outputs(recovery.out) if one.path is not None]
    sure = [one for one in told if one.kind == "file" and one.ground != PRESENT_PLACE]
    wrong = [
        (one.life, one.path) for one in sure if one.life in paths and one.path != paths[one.life]
    ]
    assert wrong == []


def test_nothing_graded_intact_has_bytes_that_its_life_never_had(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.intact_wrong] == []


def test_no_living_file_is_in_the_output(recovery: Recovery) -> None:
    assert [(one.life, one.file) for one in recovery.score.live] == []


def test_plain_names_stand_in_the_output_as_they_are(recovery: Recovery) -> None:
    """A path of plain characters that no other deleted file had is the path below files/."""
    paths = Counter(one.path for one in recovery.truth.files)
    plain = [
        os.fsdecode(one.path)
        for one in recovery.could_be_had
        if one.path_in_log and paths[one.path] == 1 and _is_plain(one.path)
    ]
    if not recovery.log_was_kept:
        known = {one.path for one in read_outputs(recovery.out)}
        plain = [path for path in plain if os.fsencode(path) in known]
    if recovery.truth.recipe not in NO_PLAIN_NAMES and recovery.log_was_kept:
        assert len(plain) > 2
    tops = [recovery.out / top for top in ("files", "partial")]
    lost = [path for path in plain if not any((top / path).is_file() for top in tops)]
    assert lost == []


def test_manifest_and_output_folder_agree(recovery: Recovery) -> None:
    """Each written file has one record with its size and digest, and nothing else is there."""
    written, grades = {}, set()
    for record in read_records(recovery.out):
        grades.add(record["grade"])
        if record.get("output") and record["type"] == "file":
            written[record["output"]] = record["size"], record["sha256"]
    files = {
        path.relative_to(recovery.out).as_posix(): path
        for path in recovery.out.rglob("*")
        if path.is_file() and path.name not in OWN
    }
    assert set(files) == {name for name in written if (recovery.out / name).is_file()}
    assert set(files) == set(written)
    for name, path in files.items():
        assert written[name] == (path.stat().st_size, _digest(path)), name
    assert grades <= GRADES


def test_metadata_is_that_of_the_file_before_it_went(recovery: Recovery) -> None:
    keys = ("size", "mode", "uid", "gid", "mtime")
    by_life = {
        (record["inode"], record["generation"]): [record[key] for key in keys]
        for record in read_records(recovery.out)
        if record.get("output")
    }
    told = [one for one in recovery.could_be_had if one.inode_known != "stale-index"]
    assert bool(told) != (recovery.truth.recipe in WITHOUT_INODES) or not recovery.log_was_kept
    for one in told:
        got = list(by_life[_life(one)])
        wanted = [one.size, one.mode, one.uid, one.gid, one.mtime_ns]
        if recovery.truth.recipe in ("inode_128", "ext3", "ext2"):
            got[4], wanted[4] = got[4] // 10**9, wanted[4] // 10**9
        if one.inode_known == "inline":  # the kernel clears upper halves of owners as it frees
            wanted[2], wanted[3] = wanted[2] % LOWER_HALF, wanted[3] % LOWER_HALF
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
    asked = [
        one
        for one in versions.truth.files
        if one.recoverable and not _only_grew(one, last.get(_life(one)))
    ]
    earlier = [one for one in asked if one.state == "earlier"]
    # An editor's save is a new file each time: none of them has an earlier state.
    assert len(asked if versions.truth.recipe == "editor_save" else earlier) >= MANY
    lost = [(one.path, one.size) for one in asked if (_life(one), one.sha256) not in written]
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
