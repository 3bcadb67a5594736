"""A format is one declaration: a module beside the others is enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ext4kit.filetypes.formats import FORMATS
from ext4kit.filetypes.formats.declaration import HEAD
from ext4kit.filetypes.signatures import LONG_SIGNATURES
from ext4kit.matching.content_classes import CONTENT_CLASSES
from sample_images.recipes.machine import make_file_system

MODULE = """
from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.length_fields import LengthField

FORMATS = (
    FileFormat(
        "madeup",
        starts=(b"MADEUP\\0\\1",),
        length=LengthField(8, 4, "<"),
        kind=(".mdp", "application/x-madeup"),
        names="mdp",
    ),
)
"""
SCRIPT = """
import pkgutil, sys
real = pkgutil.iter_modules
folder = sys.argv[1]
import ext4kit.filetypes as above
def with_folder(path=None, prefix=""):
    if path and str(path[0]).endswith("formats"):
        path.append(folder)
    return real(path, prefix)
pkgutil.iter_modules = with_folder
from ext4kit.cli.main import run
sys.exit(run(sys.argv[2:]))
"""


def test_each_declaration_is_whole() -> None:
    names = [one.name for one in FORMATS]
    assert len(names) == len(set(names)) < 256  # the kind of a block is one byte
    for one in FORMATS:
        assert one.starts or one.inside, one.name
        assert all(len(start.magic) <= HEAD for start in one.magics), one.name
        assert one.check is None or one.length is not None, one.name
        assert one.name in CONTENT_CLASSES
    extensions = [word for one in FORMATS for word in one.names.split()]
    assert len(extensions) == len(set(extensions))


def test_a_module_beside_the_others_is_enough(tmp_path: Path) -> None:
    folder, out, image = tmp_path / "more", tmp_path / "out", tmp_path / "disk.img"
    folder.mkdir()
    (folder / "madeup.py").write_text(MODULE)
    content = (b"MADEUP\0\1" + (70_000).to_bytes(4, "little") + bytes(range(1, 256)) * 275)[:70_000]
    make_file_system(image, 32 << 20, ("-t", "ext4", "-b", "4096", "-O", "^has_journal"))
    with image.open("r+b") as file:
        file.seek(6000 * 4096)  # free in an empty file system without a journal
        file.write(content)
    words: list[str | Path] = [
        image,
        "-o",
        out,
        "--sources",
        "runs",
        "--mime",
        "application/x-madeup",
    ]
    subprocess.run([sys.executable, "-c", SCRIPT, folder, "recover", *words], check=True)
    assert [path.read_bytes() for path in out.rglob("*.mdp")] == [content]


def test_long_magics_are_those_that_hardly_any_block_has_by_chance() -> None:
    assert {"png", "zip", "iso", "vdi"} <= LONG_SIGNATURES
    assert not {"bmp", "der", "tar", "terminfo"} & LONG_SIGNATURES  # members of a tar begin like it
