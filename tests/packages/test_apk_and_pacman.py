"""Systems of pacman, as `pacman -Qkk` sees them, and of apk, from the format's documentation."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.packages.making import (
    PROGRAMS,
    findings_in,
    image_of,
    kinds,
    needs,
    pacman,
    statuses,
    tiny_tree,
)
from tests.packages.test_rpm_systems import CHANGED, change

LINE = re.compile(r"(?:warning|backup file): tiny: (/\S+) \((.*)\)")
REASONS = {
    "Size mismatch": "changed", "MD5 checksum mismatch": "changed",
    "SHA256 checksum mismatch": "changed", "Permissions mismatch": "mode",
    "No such file or directory": "missing", "File type mismatch": "replaced",
    "Symlink path mismatch": "replaced", "UID mismatch": "owner", "GID mismatch": "owner",
}  # fmt: skip


def verified(root: Path) -> set[tuple[str, str]]:
    """(kind, path) of what `pacman -Qkk` reports, without times."""
    found = set[tuple[str, str]]()
    for line in pacman(root, "-Qkk", good=(0, 1)).splitlines():
        match = LINE.fullmatch(line)
        if match and match[2] != "Modification time mismatch":
            kind = "configured" if line.startswith("backup") else REASONS[match[2]]
            found.add((kind, "/" + match[1].removeprefix(f"{root}/")))
    return found


def test_a_clean_system_of_pacman(pacman_root: Path, tmp_path: Path) -> None:
    assert verified(pacman_root) == set()
    with findings_in(image_of(pacman_root, tmp_path / "image")) as found:
        assert kinds(found) == set()
        states = statuses(found)
    assert {states[f"/usr/bin/{name}"] for name in PROGRAMS} == {"unchanged"}
    assert states["/usr/bin/link"] == "unchanged"


def test_what_pacman_reports_is_found(pacman_copy: Path, tmp_path: Path) -> None:
    change(pacman_copy)
    assert verified(pacman_copy) == CHANGED
    with findings_in(image_of(pacman_copy, tmp_path / "image")) as found:
        assert kinds(found) == CHANGED | {("foreign", "/usr/bin/evil")}


def test_names_in_octal_and_no_extract(pacman_copy: Path, tmp_path: Path) -> None:
    folder = next((pacman_copy / "var/lib/pacman/local").glob("tiny-*"))
    name = b"odd \xe4\xff"
    place = os.fsencode(pacman_copy) + b"/usr/bin/" + name
    Path(os.fsdecode(place)).write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    line = rf"./usr/bin/odd\040\344\377 type=file size=1 mode=644 sha256digest={digest}"
    (folder / "mtree").write_text(f"#mtree\n/set uid=0 gid=0\n{line}\n")
    (pacman_copy / "etc/pacman.conf").write_text("[options]\nNoExtract = usr/lib/* !x\n")
    (pacman_copy / "usr/lib/tiny/empty").unlink()
    with findings_in(image_of(pacman_copy, tmp_path / "image")) as found:
        assert found.check.status_of(b"/usr/bin/" + name) == "unchanged"
        assert found.check.status_of(b"/usr/lib/tiny/empty") == "not installed"
        assert found.check.status_of(b"/usr/bin/a") == "no digest"


# ---------------------------------------------------------------------------------------- apk


def q1(content: bytes) -> str:
    return "Q1" + base64.b64encode(hashlib.sha1(content).digest()).decode()


def installed(root: Path) -> None:
    """The database of apk for `tiny`: one line a fact, directories before their files."""
    lines = ["C:Q1abc=", "P:tiny", "V:1.2-r3", "A:x86_64", "o:tiny", "F:", "M:0:0:755", "F:etc",
             "R:tiny.conf", f"Z:{q1(b'conf' + bytes([10]))}", "F:usr/bin"]  # fmt: skip
    for name in PROGRAMS:
        digest = q1(f"program {name}\n".encode())
        lines += [f"R:{name}", "a:0:0:755", f"Z:{digest}"]
    lines += ["R:link", "a:0:0:777", f"Z:{q1(b'a')}", "F:usr/lib/tiny", "R:empty"]
    path = root / "lib/apk/db/installed"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n\n")


@pytest.fixture
def apk_root(tmp_path: Path) -> Path:
    needs("mke2fs")
    root = tiny_tree(tmp_path / "root")
    installed(root)
    (root / "usr/lib/tiny/hard").unlink()
    return root


def test_a_clean_system_of_apk(apk_root: Path, tmp_path: Path) -> None:
    with findings_in(image_of(apk_root, tmp_path / "image")) as found:
        assert kinds(found) == set()
        states = statuses(found)
        assert [one.title for one in found.database.packages] == ["tiny 1.2-r3"]
    assert {states[f"/usr/bin/{name}"] for name in PROGRAMS} == {"unchanged"}
    assert states["/usr/bin/link"] == "unchanged"
    assert states["/usr/lib/tiny/empty"] == "no digest"


def test_a_changed_system_of_apk(apk_root: Path, tmp_path: Path) -> None:
    change(apk_root)
    with findings_in(image_of(apk_root, tmp_path / "image")) as found:
        assert kinds(found) == CHANGED | {("foreign", "/usr/bin/evil")}
