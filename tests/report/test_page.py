"""The page is whole in itself, and nothing that evidence calls itself can act in it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ext4kit.report.safe import printable
from ext4kit.report.triage import TriageReport
from ext4kit.report.triage.page import page_pieces
from tests.conftest import Cli
from tests.environment import ROOT
from tests.report.conftest import HOSTILE

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.kept: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        within = self.inside[-1] if self.inside else ""
        self.kept[within].append(data) if within in self.kept else self.texts.append(data)


@pytest.fixture(scope="module")
def page_text(story_case: TriageReport) -> str:
    return "".join(page_pieces(story_case))


@pytest.fixture(scope="module")
def hostile_page(ext4kit: Cli, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    done = ext4kit("report", hostile, "--html", path)
    assert done.returncode == 0, done.stderr
    return path.read_text(encoding="utf-8")


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_lets_the_pages_own_script_and_style_act_alone(page_text: str) -> None:
    page = Page(page_text)
    policy = next(value for name, value in page.attributes if name == "content" and value)
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert f"script-src 'sha256-{digest(page.kept['script'][0])}'" in policy
    assert f"style-src 'sha256-{digest(page.kept['style'][0])}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_page_asks_for_nothing_else(page_text: str) -> None:
    page = Page(page_text)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "srcset", "action", "background", "data", "style"}
    links = {value for name, value in page.attributes if name == "href"}
    assert all(link and link.startswith("#") for link in links)
    assert "url(" not in page_text
    assert "@import" not in page_text


def test_the_charts_are_drawn_of_the_figures(page_text: str, story_case: TriageReport) -> None:
    summary = story_case.summary
    assert page_text.count('<svg class="chart"') == 3
    assert page_text.count('<svg class="map"') == 2
    cells = len(summary.disk.counts["files"])  # type: ignore[index]
    assert page_text.count('<rect class="c-free" x=') == 2 * cells
    told = re.findall(r"<title>[^<]*?: ([^<]*)</title></?(?:rect|g)?", page_text)
    assert told


@pytest.mark.kernel
def test_hostile_names_stay_text(hostile_page: str) -> None:
    page = Page(hostile_page)
    assert page.tags.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    texts = "\n".join(page.texts)
    for name in HOSTILE:
        assert printable(name) in texts, name
    assert "49" not in re.findall(r"/tmp/(\d+)", texts)  # the engine read no name as a template
    assert "<b>image.img" in texts
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", hostile_page)


@pytest.mark.kernel
def test_hostile_names_stay_text_in_the_terminal(ext4kit: Cli, hostile: Path) -> None:
    done = ext4kit("report", hostile)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout)
    assert "[bold red]not markup[/]" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 132


def test_a_table_is_bounded_and_says_so(ext4kit: Cli, story: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.html"
    done = ext4kit("report", story, "--rows", "10", "--html", path, "-q")
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
    text = path.read_text(encoding="utf-8")
    assert "10 of 28 are shown; `ext4kit deleted IMAGE --json` gives all" in text
    assert Page(text).tags.count("tr") < 100


def test_each_fact_has_one_label_that_no_other_has(ext4kit: Cli, tmp_path: Path) -> None:
    """The sample's E01 stores a case number, as ewfinfo tells; another one is given."""
    image, path = ROOT / "sample_images/packed/rm_rf_tree.E01", tmp_path / "case.html"
    given = ("--case-number", "2026/17", "--operator", "A. Examiner", "--verify-evidence")
    assert ext4kit("report", image, "--quick", "--html", path, *given).returncode == 0
    text = path.read_text(encoding="utf-8")
    lists = re.findall(r'<dl class="facts">(.*?)</dl>', text, re.DOTALL)
    assert len(lists) == 3
    for each in lists:
        labels = re.findall("<dt>(.*?)</dt>", each)
        assert labels and all(labels)
        assert len(set(labels)) == len(labels)
    values = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", lists[0]))
    assert values["Case number"] == "2026/17"
    assert values["Case number (stored)"] == "sample 1"
    inputs = re.findall(r'<input [^>]*aria-label="([^"]+)"', text)
    assert len(set(inputs)) == text.count("<input ")


def test_the_page_is_never_written_over(ext4kit: Cli, story: Path, tmp_path: Path) -> None:
    path = tmp_path / "there.html"
    path.write_text("mine")
    assert ext4kit("report", story, "--html", path).returncode == 2
    assert path.read_text() == "mine"
