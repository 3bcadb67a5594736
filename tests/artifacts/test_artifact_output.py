"""`artifacts -o` writes the files of definitions, in all states."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sample_images.recipes.machine import mounted, run
from sample_images.recipes.score import read_records
from tests.conftest import Cli

pytestmark = pytest.mark.kernel


def test_the_files_are_written_with_what_was_deleted_of_them(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    image, out = tmp_path / "disk.img", tmp_path / "out"
    run("truncate", "-s", "64M", image)
    run("mke2fs", "-q", "-t", "ext4", image)
    contents = {
        "root/.bash_history": b"id\nwho\n" * 40,
        "home/ana/.bash_history": b"rm -rf evidence\n" * 300,
        "etc/passwd": b"root:x:0:0::/root:/bin/bash\nana:x:1000:1000::/home/ana:/bin/bash\n",
        "etc/other": b"nothing",
    }
    with mounted(image, "rw") as root:
        for name, data in contents.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
    with mounted(image, "rw") as root:
        (root / "home/ana/.bash_history").unlink()
    done = ext4kit("artifacts", image, "BashShellHistoryFile", "-o", out)
    assert done.returncode == 0
    records = {record["output"]: record for record in read_records(out)}
    assert {name: record["state"] for name, record in records.items()} == {
        "live/root/.bash_history": "live",
        "deleted/home/ana/.bash_history": "deleted",
    }
    for name, record in records.items():
        data = contents[name.partition("/")[2]]
        assert (out / name).read_bytes() == data
        assert record["sha256"] == hashlib.sha256(data).hexdigest()
    assert (out / "case.json").exists()
    nothing = ext4kit("artifacts", image, "SSHAuthorizedKeysFiles", "-o", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert "nothing was written" in nothing.stderr
