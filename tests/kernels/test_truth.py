"""Counts of several kernels become one table, and a section that is written anew."""

from __future__ import annotations

import json
from pathlib import Path

from sample_images.kernels import truth
from sample_images.recipes.history_judge import Verdict

ROW = "| {release} | {images} | {files} | 4 | 2 | 8 | 6 | 75% | 20 | 2 |"


def _counts(folder: Path, name: str, release: str) -> Path:
    verdict = Verdict(files=30, paths=10, wrong_paths=1)
    verdict.contents.update({
        ("intact", "exact"): 1, ("intact", "foreign"): 1, ("consistent", "exact"): 2,
        ("consistent", "exact and without content"): 1, ("consistent", "older"): 1,
        ("partial", "exact"): 1,
    })  # fmt: skip
    path = folder / name
    truth.save(path, 14, 400, 7, verdict)
    path.write_text(json.dumps({**json.loads(path.read_text()), "kernel": release}))
    return path


def test_counts_of_one_kernel_are_added_and_kernels_are_in_order(tmp_path: Path) -> None:
    paths = [
        _counts(tmp_path, "a", "6.12.101"), _counts(tmp_path, "b", "5.10.46"),
        _counts(tmp_path, "c", "6.12.101"), _counts(tmp_path, "d", "5.10.46"),
    ]  # fmt: skip
    rows = truth.table(truth.load(paths)).splitlines()[2:]
    assert rows == [ROW.format(release=one, images=28, files=60) for one in ("5.10.46", "6.12.101")]


def test_the_section_is_written_anew_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    counts = str(_counts(tmp_path, "a", "5.10.46"))
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nText.\n")
    truth.main([counts, "--page", str(page)])
    once = page.read_text()
    assert once.startswith(f"# Page\n\nText.\n\n{truth.HEADING}\n")
    assert "| 5.10.46 | 14 |" in once
    truth.main([counts, "--page", str(page)])
    assert page.read_text() == once
    truth.main([counts, counts, "--page", str(page)])
    assert page.read_text().count(truth.HEADING) == 1
    assert "| 5.10.46 | 28 |" in page.read_text()
    assert truth.section_of(page).startswith(f"\n{truth.HEADING}\n")
