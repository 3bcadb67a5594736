"""PhotoRec of the package testdisk, the peer where nothing but the bytes of files is left."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "photorec"
MODES = ("paranoid", "paranoid_bf", "paranoid,mode_ext2")


def command(image: Path, out: Path, mode: str) -> list[str]:
    """Search the free space of an image for files of all types, in one of `MODES`."""
    what = f"partition_none,fileopt,everything,enable,options,{mode},freespace,search"
    return [PROGRAM, "/d", str(out / "recup"), "/cmd", str(image), what]
