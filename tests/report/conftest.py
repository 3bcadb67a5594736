"""The sample's case, collected once, and an image whose names try everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4kit.report.triage import TriageReport
from sample_images.intrusion import unpack
from sample_images.recipes import machine
from sample_images.screenshots import collected
from tests.report.scenes import acting, fresh, put

HOSTILE = (
    b"<script>document.title='ran'<\\script>",
    b"<img src=x onerror=document.title='ran'>",
    b'"><svg onload=alert(1)>',
    b"'; alert(1) ;'",
    b"</title><script>1<\\script>",
    b"{{ 7 * 7 }}{% raw %}",
    b"\x1b]0;title\x07\x1b[2J",
    b"line\nbreak\r",
    b"=cmd|' \\C calc'!A0",
    "right\u202egpj.exe".encode(),
    b"\xff\xfe not text",
    "漢".encode() * 85,
    b"[bold red]not markup[/]",
    b"&lt;already&gt;",
)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample of an intrusion."""
    return unpack(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="session")
def story_case(story: Path) -> TriageReport:
    """What is known of it."""
    return collected(story)


@pytest.fixture(scope="session")
def hostile(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with hostile names, in places that the report shows: live, deleted, suspicious."""
    image = fresh(tmp_path_factory.mktemp("hostile") / "<b>image.img")
    with acting(image) as root:
        machine.sync(root)
        paths = [put(root / "tmp" / name.decode("utf-8", "surrogateescape")) for name in HOSTILE]
        for path in paths:
            path.chmod(0o755)
        machine.sync(root)
        for path in paths[::2]:
            path.unlink()
        machine.sync(root)
    return image
