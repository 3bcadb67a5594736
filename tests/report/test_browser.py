"""The page in a real browser: it works, fits, and what is put into it does not run."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ext4kit.report.triage import TriageReport
from ext4kit.report.triage.page import page_pieces
from sample_images.screenshots import browser, print_page
from tests.conftest import Cli

pytestmark = pytest.mark.skipif(not browser(), reason="needs chromium")
POLICY = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>")
INJECTED = "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
MEASURE = """<script>document.title = [document.documentElement.scrollWidth, innerWidth,
document.querySelectorAll('.listing tbody tr:not([hidden])').length].join(' ')</script>"""
PAPER = """<script>
dispatchEvent(new Event('beforeprint'));
const listing = document.querySelector('.listing');
const told = listing.querySelector('.printed').textContent;
document.title = [document.querySelectorAll('details:not([open])').length,
listing.querySelectorAll('tbody tr').length, told].join(' ')
</script>"""
SEARCH = """<script>
const card = document.querySelector('.listing');
card.querySelector('input').value = 'backups PARTIAL';
card.querySelector('input').dispatchEvent(new Event('input'));
card.querySelectorAll('th')[2].click();
document.title = Array.from(card.querySelectorAll('tbody tr:not([hidden])'),
  (row) => row.cells[2].dataset.v + row.cells[1].textContent).join(' ');
</script>"""


def opened(page: Path, profile: Path, width: int = 1280) -> tuple[str, str]:
    """(the page's elements after its script ran, what the console said)."""
    done = subprocess.run(
        [
            browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            "--enable-logging=stderr", "--virtual-time-budget=1000", f"--window-size={width},900",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(said)


def title(dom: str) -> str:
    return dom.partition("<title>")[2].partition("</title>")[0]


@pytest.fixture
def text(story_case: TriageReport) -> str:
    return "".join(page_pieces(story_case))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_page_works_without_a_word_from_the_console(text: str, tmp_path: Path) -> None:
    dom, said = opened(written(tmp_path / "a.html", text), tmp_path / "profile")
    assert said == ""
    assert '<div class="tools" hidden' not in dom  # its script ran
    assert '<div class="tools">' in dom


def test_what_is_put_into_the_page_does_not_run(text: str, tmp_path: Path) -> None:
    page = written(tmp_path / "b.html", text.replace("</main>", INJECTED + "</main>"))
    dom, said = opened(page, tmp_path / "profile")
    assert title(dom) == "web-01.img - ext4kit report"
    assert said.count("Content Security Policy") >= 2
    bare = written(tmp_path / "c.html", POLICY.sub("", page.read_text(encoding="utf-8")))
    assert title(opened(bare, tmp_path / "profile")[0]) == "ran"  # it would have


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_hangs_over_the_edge(text: str, tmp_path: Path, width: int) -> None:
    bare = POLICY.sub("", text).replace("</body>", MEASURE + "</body>")
    dom, _ = opened(written(tmp_path / "d.html", bare), tmp_path / "profile", width)
    content, window, rows = map(int, title(dom).split())
    assert content <= window
    assert rows == 50  # two tables, 25 rows each until they are unfolded


def test_paper_says_how_many_rows_it_lacks_and_has_all_that_is_folded(
    text: str, tmp_path: Path
) -> None:
    bare = POLICY.sub("", text).replace("</body>", PAPER + "</body>")
    dom, _ = opened(written(tmp_path / "p.html", bare), tmp_path / "profile")
    folded, rows, told = title(dom).split(" ", 2)
    assert int(folded) == 0
    assert told == f"25 of {rows} rows are printed; the page on a screen can show and print all."
    hidden = re.search(r"\.printed \{ display: none; \}", text)
    shown = text.find(".printed { display: block; }")
    assert hidden is not None and shown > text.find("@media print") > hidden.start()


def filled(page: Path, folder: Path) -> list[float]:
    """How far down each printed page is used, of 1."""
    if shutil.which("pdftoppm") is None:
        pytest.skip("needs pdftoppm")
    printed = print_page(page, folder / "page.pdf")
    subprocess.run(["pdftoppm", "-gray", "-r", "30", printed, folder / "sheet"], check=True)
    heights = []
    for picture in sorted(folder.glob("sheet-*.pgm")):
        _, size, _, pixels = picture.read_bytes().split(b"\n", 3)
        width, height = map(int, size.split())
        rows = np.frombuffer(pixels, np.uint8).reshape(height, width)
        last = int(np.flatnonzero((rows < 240).any(axis=1)).max(initial=0))
        heights.append((last + 1) / height)
    return heights


@pytest.mark.parametrize("times", [1, 20])
def test_no_printed_page_but_the_last_is_left_half_empty(
    story_case: TriageReport, tmp_path: Path, times: int
) -> None:
    """With signs that were met once, and with signs and lost files that fill pages."""
    found = story_case.summary
    signs = tuple(
        replace(one, sightings=one.sightings * times, count=one.count * times)
        for one in found.suspicions
    )
    victims = (found.victims[0] * times, found.victims[1] * times)
    case = replace(story_case, summary=replace(found, suspicions=signs, victims=victims))
    page = written(tmp_path / "g.html", "".join(page_pieces(case)))
    pages = filled(page, tmp_path)
    assert len(pages) > 2
    assert min(pages[:-1]) > 0.6, pages


def test_tables_are_searched_and_sorted(text: str, tmp_path: Path) -> None:
    bare = POLICY.sub("", text).replace("</body>", SEARCH + "</body>")
    dom, _ = opened(written(tmp_path / "e.html", bare), tmp_path / "profile")
    assert title(dom) == " ".join(["400000partial"] * 4)


@pytest.mark.kernel
def test_hostile_names_do_nothing(ext4kit: Cli, hostile: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.html"
    assert ext4kit("report", hostile, "--html", path).returncode == 0
    dom, said = opened(path, tmp_path / "profile")
    assert said == ""
    assert title(dom) == "&lt;b&gt;image.img - ext4kit report"
