"""Systems of rpm: what differs is what `rpm -Va` reports, in each of its three databases."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.packages.making import (
    PROGRAMS,
    berkeley,
    call,
    findings_in,
    image_of,
    kinds,
    needs,
    rpm,
    statuses,
    tiny_tree,
)

LINE = re.compile(r"(?:([S.?])([M.?])([5.?])\.([L.?])([U.?])([G.?])..|missing )  ([ c]) (/.*)")
KEPT = Path(__file__).parent / "kept"


def verified(root: Path) -> set[tuple[str, str]]:
    """(kind, path) of what `rpm -Va` reports."""
    found = set[tuple[str, str]]()
    for line in rpm(root, "-Va", "--nomtime", good=(0, 1)).splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        size, mode, digest, link, user, group, config, path = match.groups()
        if line.startswith("missing"):
            found.add(("missing", path))
        letters = {"S": "changed", "5": "changed", "M": "mode", "L": "replaced", "U": "owner",
                   "G": "owner"}  # fmt: skip
        for letter in (size, mode, digest, link, user, group):
            if letter in letters:
                kind = letters[letter]
                found.add(("configured" if config == "c" and kind == "changed" else kind, path))
    return found


def change(root: Path) -> None:
    """Change files in each of the ways that a list shows."""
    bin_ = root / "usr/bin"
    times = (bin_ / "a").stat()
    (bin_ / "a").write_text("PROGRAM a\n")
    os.utime(bin_ / "a", ns=(times.st_atime_ns, times.st_mtime_ns))
    (bin_ / "b").chmod(0o4755)
    (bin_ / "c").unlink()
    (bin_ / "d").unlink()
    (bin_ / "d").symlink_to("/tmp/d")
    os.chown(bin_ / "e", 5, 6)
    (bin_ / "f").write_text("longer than the program was\n")
    (bin_ / "link").unlink()
    (bin_ / "link").symlink_to("b")
    (root / "etc/tiny.conf").write_text("changed\n")
    (bin_ / "evil").write_text("x")


CHANGED = {
    ("changed", "/usr/bin/a"), ("mode", "/usr/bin/b"), ("missing", "/usr/bin/c"),
    ("replaced", "/usr/bin/d"), ("owner", "/usr/bin/e"), ("changed", "/usr/bin/f"),
    ("replaced", "/usr/bin/link"), ("configured", "/etc/tiny.conf"),
}  # fmt: skip


def test_a_clean_system(rpm_root: Path, tmp_path: Path) -> None:
    assert verified(rpm_root) == set()
    with findings_in(image_of(rpm_root, tmp_path / "image")) as found:
        assert found.is_clean and kinds(found) == set()
        states = statuses(found)
        package = found.database.packages[0]
    assert {states[f"/usr/bin/{name}"] for name in PROGRAMS} == {"unchanged"}
    assert states["/var/log/ghost"] == "not installed"
    assert states["/usr/lib/tiny"] == "present"
    assert states["/usr/bin/link"] == states["/usr/lib/tiny/hard"] == "unchanged"
    assert (package.title, package.architecture) == ("tiny 1:1.2-3", "noarch")
    assert package.installed is not None


def test_what_rpm_reports_is_found(rpm_copy: Path, tmp_path: Path) -> None:
    change(rpm_copy)
    assert verified(rpm_copy) == CHANGED
    with findings_in(image_of(rpm_copy, tmp_path / "image")) as found:
        assert kinds(found) == CHANGED | {("foreign", "/usr/bin/evil")}


@pytest.mark.parametrize("lines", ["", "db_lorder=4321\n"], ids=["little", "big"])
def test_berkeley_db(rpm_copy: Path, tmp_path: Path, lines: str) -> None:
    needs("db5.3_load")
    berkeley(rpm_copy, lines)
    change(rpm_copy)
    if not lines:  # rpm reads it too
        where = ("--root", rpm_copy, "--dbpath", "/var/lib/rpm", "--define", "_db_backend bdb_ro")
        assert "tiny-1.2-3.noarch" in call("rpm", *where, "-qa")
    with findings_in(image_of(rpm_copy, tmp_path / "image")) as found:
        assert kinds(found) == CHANGED | {("foreign", "/usr/bin/evil")}


def test_a_database_of_suse(tmp_path: Path) -> None:
    """Packages.db was written by rpm 4.16, which installed the package of these tests."""
    needs("mke2fs")
    root = tiny_tree(tmp_path / "root")
    folder = root / "usr/lib/sysimage/rpm"
    folder.mkdir(parents=True)
    (folder / "Packages.db").write_bytes(lzma.decompress((KEPT / "Packages.db.xz").read_bytes()))
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == set() and len(found.check.checked) == 13
    change(root)
    with findings_in(image_of(root, tmp_path / "image")) as found:
        assert kinds(found) == CHANGED | {("foreign", "/usr/bin/evil")}


def test_pages_in_the_log_of_sqlite(rpm_copy: Path, tmp_path: Path) -> None:
    """A second package is in the log alone, as after a power cut."""
    path = rpm_copy / "var/lib/rpm/rpmdb.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    (blob,) = connection.execute("SELECT blob FROM Packages").fetchone()
    other = blob.replace(b"tiny\0", b"wide\0", 1)
    connection.execute("INSERT INTO Packages (hnum, blob) VALUES (77, ?)", (other,))
    connection.commit()
    kept = tmp_path / "kept"
    shutil.copytree(path.parent, kept)
    connection.close()
    shutil.rmtree(path.parent)
    shutil.copytree(kept, path.parent)
    assert (path.parent / "rpmdb.sqlite-wal").stat().st_size
    with findings_in(image_of(rpm_copy, tmp_path / "image")) as found:
        assert {one.name for one in found.database.packages} == {"tiny", "wide"}
