"""The page for people who lost files: each section is tried as it is written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sample_images.recipes.machine import make_file_system, mounted, run, sync
from tests.environment import ROOT

pytestmark = pytest.mark.kernel
MIB = 1 << 20
PAGE = (ROOT / "docs/just-deleted.md").read_text(encoding="utf-8")
THESIS, NOTES = b"my thesis\n" * 3000, b"first notes\n" * 500


@pytest.fixture
def disks(needs_kernel: None, tmp_path: Path) -> Path:
    """A folder with the images that the page speaks of."""
    disk = tmp_path / "disk.img"
    make_file_system(disk, 64 * MIB, ("-t", "ext4", "-b", "1024", "-O", "^flex_bg"))
    with mounted(disk, "defaults") as top:
        (top / "me/letters").mkdir(parents=True)
        for name in ("thesis.odt", "letters/one.odt", "letters/two.odt"):
            (top / "me" / name).write_bytes(THESIS)
        (top / "me/notes.txt").write_bytes(NOTES)
        for number in range(8):
            (top / f"folder-{number}").mkdir()
            (top / f"folder-{number}/kept.txt").write_bytes(NOTES)
        sync(top)
        for name in ("thesis.odt", "letters/one.odt", "letters/two.odt"):
            (top / "me" / name).unlink()
        (top / "me/notes.txt").write_bytes(b"")
    formatted, overwritten, whole = (
        tmp_path / name for name in ("formatted.img", "overwritten.img", "whole-disk.img")
    )
    for copy in (formatted, overwritten):
        run("cp", "--sparse=always", disk, copy)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-E", "nodiscard", formatted)
    with overwritten.open("r+b") as file:
        file.write(bytes(32768) + b"\x01CD001\x01\0" + bytes(range(256)) * 4096)
    whole.write_bytes(bytes(MIB) + disk.read_bytes())
    return tmp_path


def commands(section: str) -> list[list[str]]:
    """The commands of ext4kit in a section."""
    body = PAGE.partition(f"## {section}")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", body, re.DOTALL)
    return [shlex.split(line)[1:] for line in "".join(blocks).splitlines()]


SECTIONS: dict[str, tuple[str, bytes]] = {
    "A file or folder was deleted": ("recovered/files/me/thesis.odt", THESIS),
    "A file was emptied, or saved over": ("notes-versions/notes.txt.1", NOTES),
    "The disk was formatted": ("before/*/folder-3/kept.txt", NOTES),
    "The start of the disk was overwritten": ("survivors/files/unattached/*/kept.txt", NOTES),
    "The partition table is gone, or a partition was moved": (
        "from-the-partition/files/me/thesis.odt", THESIS,
    ),
}  # fmt: skip


def test_each_section_is_tried() -> None:
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_gives_what_it_promises(disks: Path, section: str) -> None:
    lines = commands(section)
    assert lines
    for words in lines:
        done = subprocess.run(
            [sys.executable, "-m", "ext4kit", *words], cwd=disks, capture_output=True, text=True
        )
        refused = words == ["ls", "overwritten.img"]
        assert done.returncode == 3 if refused else done.returncode in (0, 1), done.stderr
        assert not refused or "--superblock 8193` reads the first" in done.stderr
        if "whole-disk.img" in words and "--scan" in words:
            assert "1048576" in done.stdout
    pattern, content = SECTIONS[section]
    found = list(disks.glob(pattern))
    assert found and all(path.read_bytes() == content for path in found)
    if section == "A file or folder was deleted":
        assert (disks / "letters/files/me/letters/two.odt").read_bytes() == THESIS
        assert (disks / "everything/files/me/letters/one.odt").read_bytes() == THESIS
