"""Images that others broke on purpose: every reader ends, and only with errors of our own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ext4kit
from ext4kit.errors import AccessError, Ext4kitError, UnsupportedError
from ext4kit.filesystem import FileSystem
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.recipes.machine import SYSTEM_PATH
from tests.cases import MISSING, records, unpack

PIECES = 64  # of each file: an inode may claim any size
FOLDERS = 10  # of an image, the root first
CANNOT_BE_USED = 8  # bit of e2fsck's exit code
NO_FILE_SYSTEM = re.compile("not ext2, ext3 or ext4")
REFUSED = {"f_desc_size_bad"}  # a descriptor size that no kernel takes; e2fsck does
# debugfs lists what no kernel does: blocks behind i_size, a name behind an entry of 8 bytes.
FOR_DEBUGFS_ALONE = {"f_holedir2", "f_holedir4", "f_salvage_dir"}
CASES = records()
needs_cases = pytest.mark.skipif(not CASES, reason=MISSING)
needs_debugfs = pytest.mark.skipif(
    shutil.which("debugfs", path=SYSTEM_PATH) is None, reason="needs debugfs"
)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
Names = Counter[tuple[int, str | None]]  # inode and name; None where it is not plain


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    unpack(folder, [case["image"] for case in CASES])
    return folder


def opened(path: Path, replay: bool = True) -> FileSystem:
    return ext4kit.open(path).volume().filesystem(replay=replay)


def opened_or_refused(case: dict[str, Any], images: Path, replay: bool = True) -> FileSystem | None:
    """The file system; None where it is refused as it has to be."""
    exit_code = case["e2fsck_fn_exit"]
    try:
        return opened(images / case["image"], replay)
    except Ext4kitError as error:
        assert isinstance(error, UnsupportedError)
        assert NO_FILE_SYSTEM.search(str(error))
        assert "\n" not in str(error)
        assert case["name"] in REFUSED or exit_code & CANNOT_BE_USED
        return None


@pytest.mark.heavy
@needs_cases
@each_case
def test_what_a_damaged_image_says_of_deleted_files_is_bounded_by_it(
    case: dict[str, Any], images: Path
) -> None:
    fs = opened_or_refused(case, images)
    if fs is None:
        return
    for file in find_deleted(fs, versions=True, sources=JOURNAL_ONLY):
        assert file.number is None or 0 < file.number <= fs.superblock.inodes_count
        content, position = file.content(), 0
        for chunk in islice(content.chunks() if content else (), PIECES):
            assert (chunk.offset, chunk.length > 0) == (position, True)
            assert chunk.data is None or len(chunk.data) == chunk.length
            position += chunk.length
        assert content is None or position <= content.size


@pytest.mark.heavy
@needs_cases
@needs_debugfs
@each_case
def test_every_name_that_debugfs_lists_in_a_damaged_image_is_found(
    case: dict[str, Any], images: Path
) -> None:
    fs = opened_or_refused(case, images, replay=False)
    if fs is None:
        return
    listed, complaints = listed_by_debugfs(images / case["image"], folders_of(fs))
    found = {number: names_of(fs, number) for number in listed}
    if case["name"] in FOR_DEBUGFS_ALONE:
        assert all(found[number] <= listed[number] for number in listed)
    elif complaints:  # it stops at what it cannot check; that is told here, and read on
        assert all(listed[number] <= found[number] for number in listed)
    else:
        assert found == listed


def folders_of(fs: FileSystem) -> list[int]:
    """The root and some more directories, each once; none where the root's inode is gone."""
    try:
        folders = [one.number for one in fs.walk("/") if one.inode and one.inode.is_directory]
    except AccessError:
        return []
    return list(dict.fromkeys(folders))[:FOLDERS]


def names_of(fs: FileSystem, number: int) -> Names:
    return Counter((entry.inode, plain(entry.name)) for entry in fs.entries(number))


def plain(name: bytes) -> str | None:
    return name.decode() if re.fullmatch(rb"[\w.+-]+", name, re.ASCII) else None


def listed_by_debugfs(image: Path, folders: list[int]) -> tuple[dict[int, Names], bool]:
    """What `ls -p` says of directories, and whether it complains of anything."""
    script = image.with_suffix(".commands")
    script.write_text("".join(f"ls -p <{number}>\n" for number in folders))
    done = subprocess.run(["debugfs", "-f", script, image], capture_output=True, check=False)
    parts = re.split(rb"^debugfs: ls -p <\d+>\n", done.stdout, flags=re.MULTILINE)[1:]
    entry = re.compile(rb"^/(\d+)/\d*/\d*/\d*/(.*?)/\d*/$", re.MULTILINE | re.DOTALL)
    rows = [entry.findall(part) for part in parts]
    listed = {
        number: Counter((int(inode), plain(name)) for inode, name in row if int(inode))
        for number, row in zip(folders, rows, strict=True)
    }
    return listed, len(done.stderr.splitlines()) > 1
