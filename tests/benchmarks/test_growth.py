"""The page of the growth benchmark is made from stored results alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.growth import figure, merged, warm
from benchmarks.growth_chart import Curve, chart
from benchmarks.growth_page import (
    COMMANDS,
    LARGE,
    PEAK,
    SECONDS,
    Figure,
    Growth,
    Image,
    Machine,
    Row,
    exponent,
    load,
    page_of,
    points_of,
    write,
)
from benchmarks.measure import Run

SIZES = (10_000, 100_000, 1_000_000)
SVG = "{http://www.w3.org/2000/svg}"


def took(seconds: float, peak: int = 50_000_000, code: int = 0, at_limit: bool = False) -> Figure:
    return Figure(seconds, peak, code, at_limit)


def growth(rows: Sequence[Row]) -> Growth:
    images = tuple(Image(files, files * 2048, files * 1024) for files in SIZES)
    return Growth(Machine(2, 24, {"fls": "4.11.1"}), 3, 30.0, 900.0, images, tuple(rows))


@pytest.fixture
def measured() -> Growth:
    """`ls` grows in proportion, its peer by 1.5; `deleted` reaches the limit at the last size."""
    rows = [
        Row("ls", files, took(files / 1e5, 40 * files), took((files / 1e4) ** 1.5))
        for files in SIZES
    ]
    rows += [Row("deleted", files, took((files / 1e4) ** 2), None) for files in SIZES[:2]]
    rows.append(Row("deleted", SIZES[2], took(900.1, code=-9, at_limit=True), None))
    return growth(rows)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.37, 2.0])
def test_the_exponent_of_a_power_law_is_its_power(power: float) -> None:
    points = [(float(files), 0.003 * files**power) for files in SIZES]
    assert exponent(points) == pytest.approx(power)


def test_the_exponent_is_that_of_least_squares() -> None:
    assert exponent([(1, 1), (10, 10), (100, 10)]) == pytest.approx(0.5)
    assert exponent([(1, 10), (10, 1), (10, 1000), (100, 1000)]) == pytest.approx(1.0)


@pytest.mark.parametrize("points", [[], [(10, 3)], [(10, 3), (10, 4)]])
def test_one_size_has_no_exponent(points: list[tuple[float, float]]) -> None:
    assert exponent(points) is None


def test_runs_at_the_limit_and_failed_ones_are_no_points_of_a_fit() -> None:
    rows = [
        Row("ls", 10_000, took(1), None),
        Row("ls", 100_000, took(2, code=1), None),
        Row("ls", 1_000_000, took(900, code=-9, at_limit=True), None),
        Row("ls", 5_000_000, took(3, code=2), None),
        Row("verify", 10_000, took(9), None),
    ]
    assert points_of(rows, "ls", SECONDS) == [(10_000, 1), (100_000, 2)]
    assert points_of(rows, "ls", PEAK, LARGE) == [(100_000, 50_000_000)]


def test_stored_results_are_read_as_they_were(measured: Growth) -> None:
    assert load(measured.stored()) == measured


def test_the_page_has_the_figures_of_the_stored_results(measured: Growth, tmp_path: Path) -> None:
    page = tmp_path / "growth.md"
    write(load(measured.stored()), page)
    text = page.read_text(encoding="utf-8")
    assert "| 1,000,000 | 10.00 | 40 | 1000.00 | 100.00 |" not in text  # three digits: no decimals
    assert "| 1,000,000 | 10.00 | 40 | 1000 | 100.00 |" in text
    assert "| `ls -r` | 1.00 | 1.00 | 1.00 | 1.00 |" in text
    assert "| `deleted` | - | 2.00 | - | 0.00 |" in text
    assert "| 1,000,000 | limit (900) |  |" in text
    assert "2 cores, 24 GiB" in text
    assert "## `verify`" not in text
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert ElementTree.parse(tmp_path / picture).getroot().tag == f"{SVG}svg"


def test_each_command_has_a_section_when_it_was_measured() -> None:
    text = page_of(growth([Row(each.key, 10_000, took(1), None) for each in COMMANDS]), "x.svg")
    assert text.count("\n## `") == len(COMMANDS)


def test_the_chart_is_well_formed_whatever_a_curve_is_called() -> None:
    curve = Curve('a < b & "c"', [(10_000, 0.02), (5_000_000, 77.0)])
    root = ElementTree.fromstring(chart("t & t", "files", [("p < q", [curve]), ("none", [])]))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {'a < b & "c"', "p < q", "10k", "5M", "0.01", "100"} <= set(texts)


def test_points_of_the_chart_are_inside_of_it(measured: Growth, tmp_path: Path) -> None:
    write(measured, tmp_path / "page.md")
    root = ElementTree.parse(tmp_path / "images/page.svg").getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    lines = list(root.iter(f"{SVG}polyline"))
    assert len(lines) == 4
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 < x < width
            assert 0 < y < height


def test_of_several_runs_the_median_time_and_the_largest_peak_count() -> None:
    runs = [Run(seconds, 0.0, peak, 0) for seconds, peak in ((3, 10), (1, 30), (2, 20))]
    assert figure(runs, 900) == took(2, 30)
    assert figure([Run(900.5, 0.0, 10, -9)], 900).at_limit
    assert not figure([Run(12.0, 0.0, 10, -9)], 900).at_limit


def test_new_results_replace_those_of_the_same_command_and_size(measured: Growth) -> None:
    newer = Row("ls", 100_000, took(7), None)
    both = merged(measured, replace(growth([newer]), images=(Image(5, 6, 7),)))
    assert {(row.command, row.files) for row in both.rows} == {
        (row.command, row.files) for row in measured.rows
    }
    assert newer in both.rows
    assert [image.files for image in both.images] == [5, *SIZES]


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="holes are not found here")
def test_warming_reads_the_data_of_a_file_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        for at in (0, 9 << 20):
            file.seek(at)
            file.write(bytes([1]) * (5 << 20))
        file.truncate(20 << 20)
    assert 10 << 20 <= warm(path) <= 20 << 20
    (tmp_path / "empty").touch()
    assert warm(tmp_path / "empty") == 0
