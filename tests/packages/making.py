"""Systems whose packages the real programs installed, and images of them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.packages.checking import FileStatus
from ext4kit.packages.findings import PackageFindings, package_findings
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import make_file_system
from tests.environment import is_root, missing

SIZE = 16 << 20
PROGRAMS = ("a", "b", "c", "d", "e", "f", "g")
RPM_SPEC = """Name: tiny
Version: 1.2
Release: 3
Epoch: 1
Summary: t
License: x
BuildArch: noarch
%description
t
%install
cp -a {tree}/. %{{buildroot}}
%files
%attr(755,root,root) /usr/bin/*
%config(noreplace) /etc/tiny.conf
%dir /usr/lib/tiny
/usr/lib/tiny/*
%ghost /var/log/ghost
"""


def needs(*commands: str) -> None:
    """Skip a test where it cannot be root, or a program is not here."""
    if not is_root():
        pytest.skip("installs packages, which root alone can")
    if absent := missing(*commands):
        pytest.skip(f"not here: {', '.join(absent)}")


def call(*words: str | Path | bytes, cwd: Path | None = None, good: tuple[int, ...] = (0,)) -> str:
    """Run a program in the C locale and return what it prints on both streams."""
    done = subprocess.run(
        [os.fsencode(word) for word in words], cwd=cwd, env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    text = done.stdout.decode("utf-8", "surrogateescape")
    assert done.returncode in good, (words, text)
    return text


def tiny_tree(root: Path) -> Path:
    """The files that the package `tiny` of any kind installs."""
    for folder in ("usr/bin", "usr/lib/tiny", "etc", "var/log"):
        (root / folder).mkdir(parents=True)
    for name in PROGRAMS:
        (root / "usr/bin" / name).write_text(f"program {name}\n")
        (root / "usr/bin" / name).chmod(0o755)
    (root / "etc/tiny.conf").write_text("conf\n")
    (root / "usr/bin/link").symlink_to("a")
    (root / "usr/lib/tiny/empty").touch()
    (root / "usr/lib/tiny/hard").hardlink_to(root / "usr/bin/g")
    return root


def deb(folder: Path, name: str, tree: Path, control: str = "", conffiles: str = "") -> Path:
    """A Debian package of a tree, with digests of all files but configuration."""
    inner = tree / "DEBIAN"
    inner.mkdir()
    fields = f"Package: {name}\nVersion: 1.0-1\nArchitecture: all\nMaintainer: me <me@x>\n"
    (inner / "control").write_text(f"{fields}Description: t\n{control}")
    if conffiles:
        (inner / "conffiles").write_text(conffiles)
    config = set(conffiles.split())
    files = [
        path for path in tree.rglob("*")
        if path.is_file() and not path.is_symlink() and inner not in path.parents
        and f"/{path.relative_to(tree)}" not in config
    ]  # fmt: skip
    names = sorted(os.fsencode(path.relative_to(tree)) for path in files)
    done = subprocess.run([b"md5sum", *names], cwd=tree, capture_output=True, check=True)
    (inner / "md5sums").write_bytes(done.stdout)
    made = folder / f"{name}_1.0-1_all.deb"
    call("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, made)
    return made


def install_debs(root: Path, *packages: Path) -> None:
    """Install packages with dpkg below a root directory."""
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    call(
        "dpkg",
        f"--root={root}",
        "--force-all",
        "--force-unsafe-io",
        "--log=/dev/null",
        "-i",
        *packages,
    )


def rpm_of(folder: Path, tree: Path) -> Path:
    """The package `tiny` of a tree, as rpmbuild makes it."""
    (tree / "var/log/ghost").touch()
    spec = folder / "tiny.spec"
    spec.write_text(RPM_SPEC.format(tree=tree))
    defines = ("--define", f"_topdir {folder}/top", "--define", "_build_id_links none",
               "--define", "__os_install_post %{nil}")  # fmt: skip
    call("rpmbuild", "-bb", "--quiet", *defines, spec)
    return next((folder / "top/RPMS").rglob("*.rpm"))


def rpm(root: Path, *words: str | Path, good: tuple[int, ...] = (0,)) -> str:
    """Run rpm on a root directory with a database of SQLite."""
    where = ("--root", root, "--dbpath", "/var/lib/rpm", "--define", "_db_backend sqlite")
    return call("rpm", *where, *words, good=good)


def berkeley(root: Path, lines: str = "") -> None:
    """Put a hash table of Berkeley DB in place of the database of SQLite; db5.3_load writes it.

    Args:
        root: the root directory.
        lines: further lines of its header, such as that of the byte order.
    """
    folder = root / "var/lib/rpm"
    with sqlite3.connect(folder / "rpmdb.sqlite") as connection:
        rows = connection.execute("SELECT hnum, blob FROM Packages").fetchall()
    text = f"VERSION=3\nformat=bytevalue\ntype=hash\ndb_pagesize=512\n{lines}HEADER=END\n"
    text += f" 00000000\n {struct.pack('<I', len(rows) + 1).hex()}\n"
    text += "".join(f" {struct.pack('<I', key).hex()}\n {blob.hex()}\n" for key, blob in rows)
    for path in folder.iterdir():
        path.unlink()
    subprocess.run(
        ["db5.3_load", folder / "Packages"], input=f"{text}DATA=END\n".encode(), check=True
    )


def install_arch(folder: Path, root: Path, tree: Path) -> None:
    """Install the package `tiny` of a tree with pacman below a root directory."""
    (tree / ".PKGINFO").write_text(
        "pkgname = tiny\npkgbase = tiny\npkgver = 1.2-3\npkgdesc = t\nurl = x\nbuilddate = 1\n"
        "packager = me\nsize = 100\narch = any\nbackup = etc/tiny.conf\n"
    )
    options = "--options=!all,use-set,type,uid,gid,mode,time,size,md5,sha256,link"
    parts = (".PKGINFO", "etc", "usr")
    call("bsdtar", "-czf", ".MTREE", "--format=mtree", options, *parts, cwd=tree)
    package = folder / "tiny-1.2-3-any.pkg.tar.gz"
    call("bsdtar", "-czf", package, ".MTREE", *parts, cwd=tree)
    (root / "var/lib/pacman").mkdir(parents=True)
    pacman(root, "--noconfirm", "-U", package)


def pacman(root: Path, *words: str | Path, good: tuple[int, ...] = (0,)) -> str:
    """Run pacman on a root directory."""
    where = ("--root", root, "--dbpath", root / "var/lib/pacman", "--config", "/dev/null")
    return call("pacman", *where, *words, good=good)


def image_of(root: Path, image: Path, size: int = SIZE, has_journal: bool = False) -> Path:
    """An image with a copy of a tree; nothing is mounted."""
    image.unlink(missing_ok=True)
    options = () if has_journal else ("-O", "^has_journal")
    make_file_system(image, size, ("-t", "ext4", *options, "-d", str(root)))
    return image


@contextmanager
def findings_in(image: Path, path: bytes = b"/") -> Iterator[PackageFindings]:
    """What differs from the packages of a system in an image."""
    with library.open(image) as opened:
        yield package_findings(Workspace(opened.filesystem()), path, is_quick=True)


def kinds(found: PackageFindings) -> set[tuple[str, str]]:
    """(kind, path) of each difference."""
    return {(str(one.kind), os.fsdecode(one.path)) for one in found.each}


def statuses(found: PackageFindings) -> dict[str, FileStatus | None]:
    """Status of each owned path, by its place on the disk."""
    return {os.fsdecode(path): found.check.status_of(path) for path in found.check.rows_at}


def copy_tree(root: Path, to: Path) -> Path:
    """A copy with owners, modes, times and hard links."""
    shutil.rmtree(to, ignore_errors=True)
    call("cp", "-a", root, to)
    return to
