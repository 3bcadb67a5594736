"""Contents and attributes that are in the log or in freed blocks, and nowhere else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import ext4kit
from ext4kit.problems import Severity
from ext4kit.recovery import DeletedFile, Grade, find_deleted, manifest_record
from ext4kit.recovery.search_sources import ALL_SOURCES, JOURNAL_ONLY, SearchSource
from sample_images.recipes.contents import noise
from sample_images.recipes.machine import sync
from sample_images.recipes.making import make
from sample_images.recipes.truth import FileTruth, Truth, load
from tests.environment.sharing import built_once
from tests.recovery.sources.journaled_scenes import NOTE, RECIPES
from tests.recovery.test_traps import Disk
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel

# Of the files that a removed log shows. Where each mount writes it anew: 57 of 130 on 5.10.
LEAST_OF_OLD_LOG = 1.0 if HERE.log_goes_on else 0.3

Life = tuple[int | None, int | None]


@dataclass(frozen=True)
class Came:
    """What came back of an image, by life."""

    image: Path
    truth: Truth
    files: list[DeletedFile]

    @cached_property
    def by_life(self) -> dict[Life, dict[str, DeletedFile]]:
        """DigestKind -> file of each inode number and generation."""
        found: defaultdict[Life, dict[str, DeletedFile]] = defaultdict(dict)
        for file in self.files:
            found[file.number, file.generation][digest(file)] = file
        return found

    def of(self, one: FileTruth) -> DeletedFile | None:
        """The file that came back with the bytes of a state, under its own inode."""
        return self.by_life[one.inode, one.generation].get(one.sha256)

    @property
    def wrong(self) -> list[DeletedFile]:
        """What is written, but carved, and is no state of its file."""
        known = {(one.inode, one.generation, one.sha256) for one in self.truth.files}
        known |= {(one.inode, one.generation, one.sha256) for one in self.truth.live}
        written = [file for file in self.files if file.content() and file.grade != "overwritten"]
        return [
            file
            for file in written
            if file.kind == "file" and file.inode is not None and not file.lost
            if (file.inode.number, file.inode.generation, digest(file)) not in known
        ]


Look = Callable[[str], Came]


def digest(file: DeletedFile) -> str:
    """Of all bytes of a file; of nothing where it has none."""
    content, found = file.content(), hashlib.sha256()
    for chunk in content.chunks() if content else ():
        found.update(bytes(chunk.length) if chunk.data is None else chunk.data)
    return found.hexdigest()


@pytest.fixture(scope="module")
def came(needs_kernel: None) -> Look:
    """Make the image of a recipe and bring everything back, earlier states too."""
    recipes = {recipe.name: recipe for recipe in RECIPES}
    made: dict[str, Came] = {}

    def give(name: str) -> Came:
        if name not in made:
            built = built_once(f"journaled-{name}", lambda folder: make(recipes[name], folder))
            made[name] = Came(built.image, load(built.truth), bring_back(built.image))
        return made[name]

    return give


def bring_back(image: Path, sources: frozenset[SearchSource] = ALL_SOURCES) -> list[DeletedFile]:
    """All that was deleted, earlier states of files as well."""
    return list(find_deleted(ext4kit.open(str(image)).volume().filesystem(), True, sources))


# -- contents --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["data_reused", "data_turned"])
def test_what_others_wrote_over_comes_from_the_log(came: Look, name: str) -> None:
    seen = came(name)
    gone = [one for one in seen.truth.files if not one.blocks_hold]
    assert len(gone) > 5  # how many is the allocator's choice
    if name == "data_turned":
        turned = [one for one in gone if one.blocks[-1][1] < one.blocks[0][1]]
        assert len(turned) > 5
    for one in seen.truth.files:
        file = seen.of(one)
        assert file is not None
        assert not file.lost
        assert file.grade is not Grade.INTACT or not file.blocks_reused
        assert file.sources["content"] == "copies in the journal"
    assert not seen.wrong


def test_every_earlier_content_is_a_version(came: Look) -> None:
    seen = came("data_rewritten")
    earlier = [one for one in seen.truth.files if one.state == "earlier"]
    assert len(earlier) == 90
    for one in earlier:
        file = seen.of(one)
        assert file is not None
        assert file.superseded
        assert file.grade is Grade.CONSISTENT
    assert not seen.wrong


def test_copies_without_a_descriptor_are_told_by_sizes_and_order(came: Look) -> None:
    seen = came("data_loose")
    shown = [one for one in seen.truth.files if one.inode_undescribed]
    files = [file for one in shown if (file := seen.of(one)) is not None]
    loose = [file for file in files if "content" in file.sources]
    if HERE.log_goes_on:  # else there are none in some runs, and a third of them comes in others
        assert len(shown) > 20
        assert len(files) >= len(shown) - 1  # a descriptor that is left may be within one
        assert len(loose) > 10
    assert {file.grade for file in loose} <= {Grade.PARTIAL}
    assert not seen.wrong


def test_what_no_inode_tells_of_is_cut_out_of_the_log(came: Look) -> None:
    seen = came("data_loose")
    known = {one.sha256 for one in seen.truth.files}
    cut = [file for file in seen.files if file.inode is None]
    exact = [file for file in cut if digest(file) in known]
    assert {file.grade for file in cut} <= {Grade.CARVED}
    if HERE.log_goes_on:  # else the next mount wrote over them
        assert exact
        # The beginning of the first one may be gone, and the end of the last one.
        assert len(exact) >= len(cut) - 2


def test_a_log_of_metadata_alone_gives_no_contents(came: Look) -> None:
    for name in ("inline_loose", "blocks_passed_on"):
        assert came(name).files
        assert not [file for file in came(name).files if "content" in file.sources]


# -- inline data and attributes ----------------------------------------------------------------


def attributes(file: DeletedFile) -> dict[str, bytes]:
    """Those of the manifest record."""
    told = json.loads(json.dumps(manifest_record(file, None)))["xattrs"]
    return {one["name"]: base64.b64decode(one["value_base64"]) for one in told}


def expected(path: str) -> dict[str, bytes]:
    """Those that `_with_attributes` gave a file: the small one, and the big one of some."""
    number = 0 if path.split("/")[0] in ("first", "second", "lone") else int(path[-3:])
    big = {"user.big": noise(NOTE + path, 600)} if number % 3 == 0 else {}
    return {"user.note": (NOTE + path).encode(), **big}


def test_inline_files_come_from_copies_without_a_descriptor_with_attributes(came: Look) -> None:
    seen = came("inline_loose")
    shown = [one for one in seen.truth.files if one.inode_undescribed]
    assert len(shown) > 50
    for one in shown:
        file = seen.of(one)
        assert file is not None
        assert attributes(file) == expected(one.path.decode())
    assert not seen.wrong


def test_an_old_log_in_free_blocks_gives_inodes_with_contents_and_attributes(came: Look) -> None:
    seen = came("log_removed")
    files = [(file, one) for one in seen.truth.files if (file := seen.of(one)) is not None]
    files = [(file, one) for file, one in files if file.grade is not Grade.CARVED]
    assert len(files) >= LEAST_OF_OLD_LOG * len(seen.truth.files)
    for file, one in files:
        assert attributes(file) == expected(one.path.decode())
    assert not seen.wrong


def test_no_file_gets_the_attributes_of_a_later_owner_of_their_block(came: Look) -> None:
    seen = came("blocks_passed_on")
    lives = {(one.inode, one.generation): one.path.decode() for one in seen.truth.files}
    without, judged = [], 0
    for file in seen.files:
        path = lives.get((file.number or 0, file.generation or 0), "")
        if not path:
            continue
        want = {"user.same": noise("the same", 600)} if "shared" in path else expected(path)
        got = attributes(file)
        assert {name: want[name] for name in got} == got
        judged += 1
        if got != want:
            without.append(path)
            codes = {one["code"] for one in manifest_record(file, None)["reasons"]}
            assert codes & {"xattr-block-reused", "xattrs-incomplete"}
    assert judged == len(lives)
    assert 0 < len(without) < judged
    assert all(path.startswith("first") for path in without)


def test_attribute_blocks_that_nobody_is_known_to_have_had_are_counted(
    needs_kernel: None, tmp_path: Path
) -> None:
    disk = Disk(tmp_path, "-t", "ext4", "-O", "^has_journal")
    with disk.mounted() as root:
        for at in range(5):
            (root / f"{at}").write_bytes(b"content")
            os.setxattr(root / f"{at}", "user.left", noise(f"{at}", 600))
        sync(root)
        for at in range(5):
            (root / f"{at}").unlink()
    fs = disk.file_system()
    assert len(list(find_deleted(fs, sources=ALL_SOURCES))) >= 5
    told = [one for one in fs.problems.kept if one.where == "attribute blocks in free space"]
    assert [(one.severity, one.what) for one in told] == [
        (Severity.NOTE, "5 of no known inode; attributes in them: user.left")
    ]


# -- starts of extents that are left in a freed inode ------------------------------------------


def test_the_starts_of_its_extents_tell_the_order_of_what_a_file_gave_back(came: Look) -> None:
    seen = came("in_pieces")
    gone = [one for one in seen.truth.files if len(one.blocks) > 1 and not one.inode_known]
    several = [one for one in gone if one.blocks_hold and not extents_touch(one)]
    assert len(several) > 2  # how many depends on where the kernel puts the pieces
    files = [file for one in several if (file := seen.of(one)) is not None]
    assert len(files) == len(several)
    assert {(file.grade, file.sources["map"]) for file in files} == {
        (Grade.PARTIAL, "bitmap differences")
    }
    assert not seen.wrong


def extents_touch(one: FileTruth) -> bool:
    """Whether two extents lie side by side, and so may be told apart in more than one way."""
    ends = {start + length for _, start, length, _ in one.blocks}
    return any(start in ends for _, start, _, _ in one.blocks)


def test_without_any_other_source_the_starts_bound_the_size(came: Look) -> None:
    seen = came("in_pieces")
    told = {
        (file.number, file.generation): said.groups()
        for file in bring_back(seen.image, JOURNAL_ONLY)
        if (said := re.search(r"(\d+) extents and more than ([\d,]+)", " ".join(file.problems)))
    }
    asked = [one for one in seen.truth.files if len(one.blocks) > 1 and not one.inode_known]
    assert len(asked) > 4
    for one in asked:
        count, size = told[one.inode, one.generation]
        assert int(count) == len(one.blocks)
        assert one.blocks[-1][0] * 4096 == int(size.replace(",", "")) < one.size
