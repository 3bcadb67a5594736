"""What `report` is asked for is on the page, and what it left out is said there."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ext4kit.report.triage import TriageReport
from ext4kit.report.triage.case import sightings_per_bin, story_text
from ext4kit.report.triage.charts import column_chart
from ext4kit.report.triage.terminal import make_console, parts
from ext4kit.triage import Bins, StoryStep, Weight
from tests.conftest import Cli
from tests.environment import ROOT

HOUR = 3600 * 10**9


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def quick(ext4kit: Cli, story: Path) -> str:
    done = ext4kit("report", story, "--quick")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quick_says_what_it_left_out(ext4kit: Cli, story: Path, quick: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ext4kit("report", story, "--quick", "--html", page)
    told = [
        each
        for each in records(ext4kit("report", story, "--quick", "--json").stdout)
        if each["record"] == "report"
    ][0]["left_out"]
    assert len(told) == 4
    for text in (" ".join(quick.split()), page.read_text()):
        assert "Left out: " + "; ".join(told) in text


def test_a_whole_report_leaves_nothing_out(story_case: TriageReport) -> None:
    assert story_case.left_out == ()


def test_quick_and_sources_exclude_each_other(ext4kit: Cli, story: Path) -> None:
    done = ext4kit("report", story, "--quick", "--sources", "all")
    assert done.returncode == 2 and "--quick" in done.stderr


def test_the_page_has_operator_case_and_computed_hashes(
    ext4kit: Cli, story: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = ("--operator", "A. Examiner", "--case-number", "2026/17", "--verify-evidence")
    done = ext4kit("report", story, "--quick", "--html", page, *words)
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(story.read_bytes()).hexdigest()
    text = page.read_text()
    for wanted in ("A. Examiner", "2026/17", digest, "<dd>unchanged</dd>"):
        assert wanted in text
    report = next(
        each
        for each in records(ext4kit("report", story, "--quick", "--json", *words).stdout)
        if each["record"] == "report"
    )
    assert (report["operator"], report["case_number"]) == ("A. Examiner", "2026/17")


def test_without_being_asked_nothing_is_hashed(quick: str) -> None:
    assert "none are stored, and none were computed; --verify-evidence computes them" in " ".join(
        quick.split()
    )


def test_a_stored_hash_is_on_the_page(ext4kit: Cli) -> None:
    """The MD5 of the disk that ewfacquire stored, which is that of the packed raw image."""
    done = ext4kit("report", ROOT / "sample_images/packed/rm_rf_tree.E01", "--quick")
    assert done.returncode == 0, done.stderr
    stored = [line.split()[-1] for line in done.stdout.splitlines() if "Stored MD5" in line]
    assert len(stored) == 1 and len(stored[0]) == 32


def test_html_is_written_instead_of_the_terminal_page(
    ext4kit: Cli, story: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = ext4kit("report", story, "--quick", "--html", page)
    assert done.stdout == "" and done.stderr == f"written: {page}\n"
    assert "instead of" in " ".join(ext4kit("report", "--help").stdout.split())


def test_signs_have_one_name(ext4kit: Cli, story: Path, quick: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ext4kit("report", story, "--quick", "--html", page)
    told = ext4kit("report", story, "--quick", "--json").stdout
    assert "Signs" in quick and "<h2>Signs</h2>" in page.read_text()
    assert '"record": "sign"' in told
    for text in (quick, page.read_text(), told):
        assert "suspici" not in text.lower() and "worth a look" not in text.lower()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_terminal_page_fits(story_case: TriageReport, width: int) -> None:
    console = make_console(record=True, width=width)
    with console.capture() as captured:
        for part in parts(story_case, console.width):
            console.print(part)
    lines = captured.get().splitlines()
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("times", [1, 100])
def test_the_figures_at_the_top_are_whole_at_any_width(
    story_case: TriageReport, width: int, times: int
) -> None:
    """Some signs of the sample are strong and some are not, by the weights of their rules."""
    rules = [one.rule.weight for one in story_case.summary.suspicions]
    strong = rules.count(Weight.STRONG)
    assert 10 <= strong < len(rules)
    many = replace(story_case.summary, suspicions=story_case.summary.suspicions * times)
    console = make_console(record=True, width=width)
    with console.capture() as captured:
        for part in itertools.islice(parts(replace(story_case, summary=many), width), 4):
            console.print(part)
    framed = " ".join(re.findall(r"│([^│]*)│", captured.get()))
    for wanted in (
        str(len(rules) * times),
        f"{strong * times} strong",
        "consistent",
        "metadata",
        "deleted",
    ):
        assert wanted in framed
    assert "…" not in framed


def test_a_step_of_a_story_says_one_time_once() -> None:
    second = 10**9
    start = 1_772_331_240 * second  # 2026-03-01 02:14
    story = (
        StoryStep("made", start + 4, start + 900),
        StoryStep("written", start + 60 * second, start + 65 * second),
        StoryStep("renamed", start + 120 * second, start + 120 * second, exact=False),
        StoryStep("setuid", None, start + 180 * second),
        StoryStep("deleted", start + 240 * second),
    )
    assert story_text(story).split(" -> ") == [
        "made and committed 2026-03-01 02:14:00Z",
        "written 02:15:00Z (committed 02:15:05Z)",
        "renamed and committed at the latest 02:16:00Z",
        "setuid (committed 02:17:00Z)",
        "deleted 02:18:00Z",
    ]


def made_bins(count: int) -> Bins:
    return Bins(0, HOUR, {"made": tuple(range(1, count + 1))}, end=(count - 1) * HOUR + 90 * 10**9)


@pytest.mark.parametrize("count", [1, 5, 24, 60])
def test_the_time_axis_ends_with_the_data(count: int) -> None:
    bins = made_bins(count)
    chart = column_chart(bins, "events")
    end = (count - 1) * 60 + 1  # minutes
    assert chart.labels[-1].endswith(f"{end // 60 % 24:02}:{end % 60:02}")
    width = float(chart.svg.split('viewBox="0 0 ')[1].split()[0])
    last = max(float(part.split('"')[0]) for part in chart.svg.split(' x="')[1:])
    assert width - last < 10  # the last column is at the right edge


@pytest.mark.parametrize("most", [7, 13, 60])
def test_merged_columns_lose_nothing(most: int) -> None:
    bins = made_bins(60)
    merged = bins.merged(most)
    assert len(merged) <= most
    assert sum(merged.totals) == sum(bins.totals)
    assert merged.start + merged.width * len(merged) == bins.start + bins.width * len(bins)


def test_signs_are_counted_in_merged_columns(story_case: TriageReport) -> None:
    span = story_case.summary.activity.span
    assert span is not None
    marks = sightings_per_bin(story_case, span)
    assert sum(sightings_per_bin(story_case, span.merged(20))) == sum(marks) > 0
