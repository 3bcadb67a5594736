"""Pictures of the report for the documentation: `make screenshots`.

The image is the packed web-01; the pictures are taken by a headless Chromium, the terminal's
through the SVG that rich makes of it, the first printed page through pdftoppm of poppler-utils.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.rule import Rule

import ext4kit
from ext4kit import __version__
from ext4kit.report.triage import TriageReport
from ext4kit.report.triage.page import page_pieces
from ext4kit.report.triage.terminal import make_console, parts
from ext4kit.triage import triage
from sample_images.intrusion import unpack

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DARK = ("--blink-settings=preferredColorScheme=0",)
TERMINAL_WIDTHS = (60, 80, 120)  # columns
COLUMN, MARGIN = 12.2, 20  # pixels of the drawing of a terminal
_BARE = "<!doctype html><meta charset=utf-8><body style='margin:0'>"
_SECTION = r'<section id="{}">.*?</section>'


def browser() -> str:
    """A browser that can work without a screen; "" for none."""
    return next(filter(None, map(shutil.which, BROWSERS)), "")


def take(page: Path, picture: Path, width: int, height: int, *settings: str) -> None:
    """A picture of the top of a page.

    Raises:
        RuntimeError: there is no browser, or it made none.
    """
    _browse(
        page, picture, "--hide-scrollbars", "--virtual-time-budget=2000", *settings,
        f"--window-size={width},{height}", f"--screenshot={picture}",
    )  # fmt: skip
    print(f"{picture.name}: {picture.stat().st_size:,} bytes")


def _browse(page: Path, made: Path, *words: str) -> None:
    """Let the browser make a file of a page."""
    made.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            *words, page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, capture_output=True, timeout=120, check=False)
    if not made.exists():
        raise RuntimeError(f"{made.name}: not made")


def print_page(page: Path, printed: Path) -> Path:
    """A page as it is printed, as PDF.

    Raises:
        RuntimeError: there is no browser, or it made none.
    """
    _browse(page, printed, "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    return printed


def take_print(page: Path, picture: Path) -> None:
    """A picture of the first printed page.

    Raises:
        RuntimeError: there is no browser, or it made none.
        OSError: there is no pdftoppm.
    """
    with tempfile.TemporaryDirectory() as folder:
        printed = print_page(page, Path(folder) / "page.pdf")
        target = picture.with_suffix("")
        subprocess.run(
            ["pdftoppm", "-png", "-r", "100", "-singlefile", str(printed), str(target)], check=True
        )
    print(f"{picture.name}: {picture.stat().st_size:,} bytes")


def collected(image: Path) -> TriageReport:
    """The report's facts about an image."""
    with ext4kit.open(image) as opened:
        volume = opened.volume()
        fs = volume.filesystem()
        summary = triage(fs)
        return TriageReport(
            opened.evidence, volume.facts, summary, tuple(fs.problems), len(fs.problems),
            f"ext4kit report {image.name}", time.time_ns(), __version__,
        )  # fmt: skip


def terminal_svg(case: TriageReport, columns: int, sections: tuple[str, ...] = ()) -> str:
    """The terminal's page, or some of its sections, as a drawing."""
    console = make_console(
        record=True, width=columns, force_terminal=True, color_system="truecolor"
    )
    console.file = io.StringIO()
    wanted = not sections
    for part in parts(case, console.width):
        if isinstance(part, Rule):
            wanted = not sections or str(part.title).strip() in sections
        if wanted:
            console.print(part)
    return console.export_svg(title=case.command)


def main() -> int:
    """Take all pictures."""
    if not browser():
        print("needs chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        case = collected(unpack(Path(folder)))
        page, charts, terminal = (Path(folder) / f"{name}.html" for name in "abc")
        text = "".join(page_pieces(case))
        page.write_text(text, encoding="utf-8")
        charts.write_text(re.sub(_SECTION.format("signs"), "", text, flags=re.DOTALL), "utf-8")
        take(page, PICTURES / "report-page.png", 1280, 1320)
        take(page, PICTURES / "report-page-dark.png", 1280, 1320, *DARK)
        take(charts, PICTURES / "report-charts.png", 1280, 1660, *DARK)
        take(charts, PICTURES / "report-narrow.png", 500, 1400)
        take_print(page, PICTURES / "report-print.png")
        charts_only: tuple[str, ...] = ("Deleted", "What happened", "The disk")
        shown = [("report-terminal-charts", 120, charts_only, 1600)]
        shown += [(f"report-terminal-{columns}", columns, (), 1150) for columns in TERMINAL_WIDTHS]
        for name, columns, sections, height in shown:
            drawing = terminal_svg(case, columns, sections)
            terminal.write_text(f"{_BARE}{drawing}", encoding="utf-8")
            take(terminal, PICTURES / f"{name}.png", int(columns * COLUMN) + MARGIN, height)
    return 0


if __name__ == "__main__":
    sys.exit(main())
