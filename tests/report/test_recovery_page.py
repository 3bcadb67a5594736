"""README.txt and report.html say what lies in a folder of recovered files, and where."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from ext4kit.report.recovery_page import recovery_page
from ext4kit.report.recovery_readme import readme_text
from ext4kit.report.recovery_summary import MOST_ROWS, RecoverySummary
from sample_images.recipes.score import read_records
from sample_images.screenshots import browser
from tests.conftest import Cli, Images
from tests.report.conftest import HOSTILE
from tests.report.test_browser import MEASURE, POLICY, opened, title, written
from tests.report.test_page import Page, digest

README, PAGE = "README.txt", "report.html"
SAFE = (HOSTILE[0], HOSTILE[2], HOSTILE[4], HOSTILE[12])  # deleted, and with no character to escape


@pytest.fixture(scope="module")
def out(ext4kit: Cli, unpacked: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Damaged files, contents without a name, and files of which nothing is left."""
    path = tmp_path_factory.mktemp("recovered") / "out"
    done = ext4kit("recover", unpacked("removed_on_5_10").image, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def _one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_readme_has_the_real_counts_and_no_folder_that_is_not_there(out: Path) -> None:
    readme = (out / README).read_text(encoding="utf-8")
    assert max(map(len, readme.splitlines())) <= 78
    told = re.findall(r"^  (\S+)/ - ([\d,]+) files?, ", readme, re.MULTILINE)
    paths = (path.relative_to(out).as_posix() for path in out.rglob("*/*") if path.is_file())
    there = Counter(re.match(r"carved/[^/]+|[^/]+", path)[0] for path in paths)  # type: ignore[index]
    assert {folder: int(count) for folder, count in told} == there
    grades = Counter(one["grade"] for one in read_records(out))
    words = _one_line(readme)
    assert f"{grades['partial']} files are damaged" in words
    assert "Damaged files are in the folder partial." in words
    assert f"{grades['carved']} carved files have no name" in words
    assert f"Of {grades['overwritten']} deleted files no content was found" in words
    assert "No recovered file is known to be undamaged." in words


@pytest.mark.parametrize("sample", ["rm_rf_tree", "power_cut"])
def test_whole_files_are_counted_by_grade(
    ext4kit: Cli, unpacked: Images, tmp_path: Path, sample: str
) -> None:
    assert ext4kit("recover", unpacked(sample).image, "-o", tmp_path / "out").returncode == 0
    files = [one for one in read_records(tmp_path / "out") if one["type"] == "file"]
    grades = Counter(one["grade"] for one in files)
    each = " and ".join(
        f"{grades[name]} {name}" for name in ("intact", "consistent") if grades[name]
    )
    words = _one_line((tmp_path / "out" / README).read_text(encoding="utf-8"))
    assert f"{len(files)} files are whole: {each}." in words
    assert "Everything that was found was written." in words


def test_the_page_links_to_every_file_and_runs_nothing(out: Path) -> None:
    text = (out / PAGE).read_text(encoding="utf-8")
    page = Page(text)
    links = [value for name, value in page.attributes if name == "href" and value]
    files = [out / unquote_to_bytes(each).decode() for each in links if not each.startswith("#")]
    assert sorted(files) == sorted(path for path in out.rglob("*/*") if path.is_file())
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "srcset", "action", "background", "data", "style"}
    policy = next(value for name, value in page.attributes if name == "content" and value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert digest(page.kept["style"][0]) in policy
    assert "url(" not in text and "@import" not in text


def test_the_page_has_the_words_of_the_readme(out: Path) -> None:
    page = "".join("".join(Page((out / PAGE).read_text(encoding="utf-8")).texts).split())
    paragraphs = (out / README).read_text(encoding="utf-8").split("\n\n")
    told = [each for each in paragraphs if not re.search(r"^ |^=+$|^-+$", each, re.MULTILINE)]
    assert len(told) > 5  # a word that is wider than a line is broken in one of them
    assert [each for each in told if "".join(each.split()) not in page] == []


def test_a_number_of_the_page_is_that_of_the_record_that_explain_takes(
    ext4kit: Cli, unpacked: Images, out: Path
) -> None:
    text = (out / PAGE).read_text(encoding="utf-8")
    number, link = re.findall(r'"number no">(\d+)</td><td class="path"><a href="([^"]+)"', text)[3]
    record = json.loads((out / "manifest.jsonl").read_text().splitlines()[int(number) - 1])
    assert record["output"] == link
    image = unpacked("removed_on_5_10").image
    words = ("explain", image, "--manifest", out / "manifest.jsonl", "--record", number)
    assert record["path"] in ext4kit(*words).stdout


@pytest.mark.parametrize("words", [("--no-readme",), ("--dry-run",)])
def test_without_them_neither_is_written(
    ext4kit: Cli, unpacked: Images, tmp_path: Path, words: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    assert ext4kit("recover", unpacked("rm_rf_tree").image, "-o", out, *words).returncode == 0
    assert not (out / README).exists() and not (out / PAGE).exists()


@pytest.mark.parametrize(("place", "said"), [("marked", ".partial in their names"), ("among", "")])
def test_where_damaged_files_are_is_told(
    ext4kit: Cli, unpacked: Images, tmp_path: Path, place: str, said: str
) -> None:
    image = unpacked("removed_on_5_10").image
    ext4kit("recover", image, "-o", tmp_path / "out", "--partial", place, "--grade", "partial")
    words = _one_line((tmp_path / "out" / README).read_text(encoding="utf-8"))
    assert f"Damaged files are among the others{said and ' and have '}{said}" in words
    assert "the folder partial" not in words


def test_files_that_could_not_be_written_do_not_keep_it_away(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    """The end of the image is missing, where a part of the files lay."""
    image = tmp_path / "cut.img"
    shutil.copy(unpacked("rm_rf_tree").image, image)
    with image.open("r+b") as file:
        file.truncate(9 << 20)
    done = ext4kit("recover", image, "-o", tmp_path / "out")
    assert done.returncode == 1
    words = _one_line((tmp_path / "out" / README).read_text(encoding="utf-8"))
    grades = Counter(one["grade"] for one in read_records(tmp_path / "out"))
    assert grades["partial"] and f"{grades['partial']} files are damaged" in words
    assert (tmp_path / "out" / PAGE).exists()


def _summary(records: list[dict[str, Any]], folder: Path) -> RecoverySummary:
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    summary = RecoverySummary("disk.img", "disk.img", "ext4kit recover", 0, "1")
    summary.read(manifest)
    return summary


def test_tables_are_bounded_and_say_so_and_counts_are_not(out: Path, tmp_path: Path) -> None:
    like = next(one for one in read_records(out) if one["output"])
    many = [{**like, "output": f"files/{number}"} for number in range(2 * MOST_ROWS)]
    few = [{**like, "output": f"unnamed/{number}"} for number in range(7)]
    summary = _summary(many + few, tmp_path)
    text = "".join(recovery_page(summary))
    assert Page(text).tags.count("td") == 7 * MOST_ROWS
    assert (
        f"{MOST_ROWS - 7:,} of {2 * MOST_ROWS:,} files are shown. manifest.jsonl has all." in text
    )
    assert text.count("files are shown") == 1
    assert f"files/ - {2 * MOST_ROWS:,} files" in readme_text(summary)


@pytest.fixture(scope="module")
def hostile_out(ext4kit: Cli, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recovered files whose names try everything."""
    path = tmp_path_factory.mktemp("hostile") / "out"
    assert ext4kit("recover", hostile, "-o", path).returncode == 0
    return path


@pytest.mark.kernel
def test_hostile_names_stay_text_and_their_links_lead_to_them(hostile_out: Path) -> None:
    text = (hostile_out / PAGE).read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "img", "svg"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    links = [value for name, value in page.attributes if name == "href" and value]
    files = [hostile_out / unquote_to_bytes(each).decode() for each in links if each[0] != "#"]
    assert len(files) >= len(HOSTILE[::2])
    assert all(path.is_file() for path in files)
    texts = "\n".join(page.texts)
    assert [name for name in SAFE if name.decode() not in texts] == []
    readme = (hostile_out / README).read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", readme)


def test_a_name_cannot_turn_the_text_around(out: Path, tmp_path: Path) -> None:
    like = next(one for one in read_records(out) if one["output"])
    text = "".join(recovery_page(_summary([{**like, "output": "files/\u202egpj.exe"}], tmp_path)))
    assert "\u202e" not in text
    assert '<a href="files/%E2%80%AEgpj.exe">\\u202egpj.exe</a>' in text


@pytest.mark.skipif(not browser(), reason="needs chromium")
@pytest.mark.parametrize("width", [1280, 400])
def test_in_a_browser_nothing_hangs_over_the_edge(out: Path, tmp_path: Path, width: int) -> None:
    text = (out / PAGE).read_text(encoding="utf-8")
    dom, said = opened(out / PAGE, tmp_path / "profile")
    assert (said, title(dom)) == ("", "removed_on_5_10.img - recovered files")
    widest = MEASURE.replace(
        "document.documentElement.scrollWidth",
        "Math.max(...Array.from(document.querySelectorAll('html, .wide'), one => one.scrollWidth))",
    )
    bare = POLICY.sub("", text).replace("</body>", widest + "</body>")
    dom, _ = opened(written(tmp_path / "d.html", bare), tmp_path / "profile", width)
    content, window, rows = map(int, title(dom).split())
    assert content <= window
    assert rows == len(list(read_records(out)))


@pytest.mark.kernel
@pytest.mark.skipif(not browser(), reason="needs chromium")
def test_in_a_browser_hostile_names_do_nothing(hostile_out: Path, tmp_path: Path) -> None:
    dom, said = opened(hostile_out / PAGE, tmp_path / "profile")
    assert (said, title(dom)) == ("", "&lt;b&gt;image.img - recovered files")
