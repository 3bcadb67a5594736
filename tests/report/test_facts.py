"""The figures of a report are those of other tools and of the recipe's own record."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery import Grade, find_deleted
from ext4kit.recovery.search_sources import ALL_SOURCES
from ext4kit.report.triage import TriageReport
from ext4kit.triage import Bins, MapCategory, Triage, triage
from sample_images.recipes.truth import load
from tests.conftest import Cli, Images


def dumpe2fs(image: Path) -> dict[str, str]:
    said = subprocess.run(["dumpe2fs", "-h", image], capture_output=True, text=True, check=True)
    pairs = (line.partition(":")[::2] for line in said.stdout.splitlines())
    return {name: value.strip() for name, value in pairs}


def free_blocks(image: Path) -> int:
    """Clear bits in all block bitmaps, as debugfs shows them."""
    said = subprocess.run(["dumpe2fs", image], capture_output=True, text=True, check=True).stdout
    ranges = re.findall(r"^  Free blocks: (.*)$", said, re.MULTILINE)
    edges = [part.split("-") for line in ranges for part in line.split(", ") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in edges)


@pytest.fixture(scope="module")
def tree(unpacked: Images) -> tuple[Path, Triage]:
    image = unpacked("rm_rf_tree").image
    with ext4kit.open(image) as opened:
        return image, triage(opened.volume().filesystem())


def test_the_identity_is_what_dumpe2fs_says(tree: tuple[Path, Triage]) -> None:
    image, summary = tree
    told, superblock = dumpe2fs(image), summary.superblock
    assert superblock.uuid_text == told["Filesystem UUID"]
    assert superblock.blocks_count == int(told["Block count"])
    assert summary.free_blocks == int(told["Free blocks"])
    assert superblock.inodes_count == int(told["Inode count"])
    assert summary.free_inodes == int(told["Free inodes"])
    assert set(superblock.features.readings) == set(told["Filesystem features"].split())


def test_the_map_of_the_disk_has_each_block_once(tree: tuple[Path, Triage]) -> None:
    image, summary = tree
    totals = summary.disk.totals
    assert sum(totals.values()) == summary.superblock.blocks_count
    assert (
        summary.superblock.blocks_count - free_blocks(image)
        == totals[MapCategory.METADATA] + totals[MapCategory.FILES]
    )
    assert all((counts >= 0).all() for counts in summary.disk.counts.values())


def test_what_can_be_got_back_lies_where_the_recipe_wrote_it(
    tree: tuple[Path, Triage], unpacked: Images
) -> None:
    _, summary = tree
    truth = load(unpacked("rm_rf_tree").truth)
    blocks = {
        block
        for file in truth.files
        if file.could_be_had
        for _, first, count, unwritten in file.blocks
        for block in range(first, first + count * (not unwritten))
    }
    disk = summary.disk
    cells = {block // disk.cell for block in blocks}
    shown = (disk.counts[MapCategory.INTACT] + disk.counts[MapCategory.PARTIAL]).nonzero()[0]
    assert cells <= set(shown.tolist())
    assert disk.totals[MapCategory.INTACT] + disk.totals[MapCategory.PARTIAL] >= len(blocks)


def test_the_grades_are_those_of_the_deleted_files(tree: tuple[Path, Triage]) -> None:
    image, summary = tree
    with ext4kit.open(image) as opened:
        files = list(find_deleted(opened.volume().filesystem(), sources=ALL_SOURCES))
    found = summary.deletions
    assert found.total == len(files)
    for grade in Grade:
        assert found.grades[grade] == sum(file.grade is grade for file in files)
        assert found.sizes[grade] == sum(f.size or 0 for f in files if f.grade is grade)
    assert found.when is not None
    assert sum(found.when.totals) + found.undated == found.total
    sizes = [file.size or 0 for file in found.largest]
    assert sizes == sorted((file.size or 0 for file in files), reverse=True)[: len(sizes)]


@pytest.mark.heavy
def test_the_story_lies_in_its_week(story_case: TriageReport) -> None:
    summary = story_case.summary
    assert summary.log.since_ns is not None
    assert summary.log.until_ns is not None
    created = summary.superblock.mkfs_time * 10**9
    made, end = 1_771_750_620 * 10**9, 1_772_337_180 * 10**9  # as guest.py sets its clock
    assert made <= created < summary.log.since_ns < summary.log.until_ns <= end
    span, hours = summary.activity.span, summary.activity.hours
    assert span is not None
    assert hours is not None
    assert sum(span.totals) == summary.activity.events
    assert sum(hours.totals) + hours.before == summary.activity.events
    assert hours.width == 3600 * 10**9
    last = hours.start + hours.width * len(hours)
    assert last - hours.width <= summary.log.until_ns < last


def test_bins_hold_what_is_asked_for(story_case: TriageReport) -> None:
    when: Bins | None = story_case.summary.deletions.when
    assert when is not None
    assert set(when.series) == set(map(str, Grade))
    assert len(when) <= 60


def test_json_has_a_record_a_subject(ext4kit: Cli, story: Path) -> None:
    done = ext4kit("report", story, "--json", "--sources", "journal")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = {record["record"] for record in records}
    wanted = "evidence volume health log deletions activity sign sighting deleted event"
    assert {*wanted.split(), "file system", "disk map", "crash victim"} <= kinds
    victims = {record["path"] for record in records if record["record"] == "crash victim"}
    assert victims == {"/home/anna/Documents/incident-notes.odt", "/etc/nginx/blocked.conf"}
