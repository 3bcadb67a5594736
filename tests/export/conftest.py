"""Images to export: a sample with deleted files, and one made of names that mean harm."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Images

HOSTILE = (
    b"<script>alert(1)<", b"<img src=x onerror=alert(1)>", b"]]>&lt;!--", b"=1+1", b"+cmd", b"-2+3",
    b"@SUM(A1)", b"\t=1+1", b"'=1+1", b"esc\x1b[2J\x1b]0;title\x07", b"new\nline", b"return\rback",
    b"pipe|pipe", b"100%25%7C", b"back\\slash\\x41", b"not\xffutf\xfe8\xc3", b"quote\"'`",
    "\u00e9".encode() * 127 + b"x", b"y" * 255, "\u202egpj.exe".encode(), "\ufffe\uffff".encode(),
    b" (deleted)", b"a -> b", b"'; DROP TABLE files; --", b"{{7*7}}", b"\xed\xa0\x80", b"a,b;c",
)  # fmt: skip
TEXTS = ("bodyfile", "timesketch-csv", "timesketch-jsonl", "dfxml", "case-uco", "csv", "jsonl")


@dataclass(frozen=True, slots=True)
class Exported:
    """An image, all formats of it, and what the program said.

    Attributes:
        folder: has a file for each format, named as it.
        record: of the command.
    """

    image: Path
    folder: Path
    record: dict[str, Any]

    def text(self, name: str) -> str:
        """A format's file; it is UTF-8."""
        return (self.folder / name).read_bytes().decode()

    def records(self, state: str = "") -> list[dict[str, Any]]:
        """The JSON lines of the files, of one state or all."""
        lines = map(json.loads, self.text("jsonl").splitlines())
        return [line for line in lines if state in ("", line["state"])]


Export = Callable[..., Exported]


@pytest.fixture(scope="session")
def export(ext4kit: Cli, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export an image in all formats at once."""

    def call(image: Path, *options: str) -> Exported:
        folder = tmp_path_factory.mktemp("exported")
        outputs = [word for name in (*TEXTS, "db") for word in (f"--{name}", folder / name)]
        done = ext4kit("export", image, *outputs, "--json", *options)
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, done.stdout.splitlines())
        record = next(line for line in lines if line["record"] == "export")
        return Exported(image, folder, record)

    return call


@pytest.fixture(scope="session")
def removed(export: Export, unpacked: Images) -> Exported:
    """A sample from which a whole tree was removed, its truth beside it."""
    return export(unpacked("rm_rf_tree").image, "--hash", "md5,sha1,sha256")


@dataclass(frozen=True, slots=True)
class Lost:
    """A made image of deleted files, and the files as they were before.

    Attributes:
        files: the files by name, as they were written to the image.
    """

    exported: Exported
    files: dict[str, Path]


@pytest.fixture(scope="session")
def lost(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Lost:
    """Files of four types, deleted; the first block of `letter.txt` belongs to `new` now."""
    folder = tmp_path_factory.mktemp("before")
    numbers = "".join(f"{number}\n" for number in range(4000)).encode()
    contents = {
        "empty": b"",  # its inode is the lowest free one later, so `new` takes no other
        "letter.txt": numbers,
        "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 80,
        "letter.txt.gz": gzip.compress(numbers, mtime=0),
        "page.pdf": b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n" + numbers,
        "program": b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0" + bytes(4000),
    }
    image = folder / "lost.img"
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image, "24M"], check=True)
    steps = []
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        steps.append(f"write {folder / name} {name}")
    (folder / "new").write_bytes(b"new")
    steps += ["sif program mode 0104755", "sif picture.png uid 70000", "sif picture.png gid 77"]
    steps += [f"rm {name}" for name in contents if name != "program"]
    steps.append("sif / ctime now")  # a kernel changes the directory too, debugfs does not
    steps.append(f"write {folder / 'new'} new")
    command = ["debugfs", "-w", "-f", "-", str(image)]
    subprocess.run(command, input="\n".join(steps), text=True, check=True, capture_output=True)
    exported = export(image, "--hash", "md5,sha1,sha256")
    return Lost(exported, {name: folder / name for name in contents})


@pytest.fixture(scope="session")
def hostile(export: Export, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An image of files, folders and links with hostile names and targets; made without root."""
    root = os.fsencode(tmp_path_factory.mktemp("hostile"))
    for number, name in enumerate(HOSTILE):
        Path(os.fsdecode(root + b"/" + name)).write_bytes(b"x" * number * 700)
        folder = root + b"/folder %d" % number
        Path(os.fsdecode(folder)).mkdir()
        os.symlink(name, folder + b"/link")  # noqa: PTH211 -- bytes
    image = tmp_path_factory.mktemp("image") / "hostile.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", os.fsdecode(root), str(image), "24M"]
    subprocess.run(command, check=True, capture_output=True)
    return export(image, "--hash", "md5,sha1")
