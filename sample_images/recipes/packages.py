"""A tree of real packages, removed whole, while the lists of its files live on.

The packages are those of the machine that the recipes run on, made in the order in which `tar -x`
makes them: a folder, then what is in it. The lists of some live, as dpkg keeps them; further parts
are in a git repository whose index lives, in a zip archive that was there before them, and in a tar
archive that was made of them. Of the rest nothing is listed anywhere.
"""

from __future__ import annotations

import hashlib
import io
import random
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sample_images.recipes.recipe import make_ballast, wrap_log
from sample_images.recipes.stage import Stage

INFO = Path("/var/lib/dpkg/info")
BALLAST, PER_BLOCK, ROUNDS = 1600, 16, 50
MOST = 400 << 10  # bytes of a file
MOST_OF_A_PACKAGE = 60  # files
FEWEST_PACKAGES = 10  # so that each part of the tree has some
TREE = "home/anna/project"
PLACES = (
    "share/doc", "share/icons", "share/zoneinfo", "lib/python3", "share/locale", "share/man",
    "bin/", "share/perl", "share/applications", "lib/x86_64", "share/",
)  # fmt: skip


def listed_tree(stage: Stage) -> None:
    """The tree, what lists it, a log that goes round, and `rm -rf`."""
    _tree(stage, is_listed=True)


def unlisted_tree(stage: Stage) -> None:
    """The same without anything that lists it."""
    _tree(stage, is_listed=False)


def _tree(stage: Stage, is_listed: bool) -> None:
    ballast = make_ballast(stage, BALLAST)
    packages = list(_packages(stage.count(1000, 220)))
    listed = len(packages) // 3
    parts = [packages[:listed], *(packages[listed + at :: 4] for at in range(4))]
    for at, name in enumerate(("root", "plain", "repository", "saved")):
        _write_root(stage, f"{TREE}/{name}", parts[at if at < 3 else 4])
    if is_listed:
        _write_zip(stage, "home/anna/unpacked.zip", parts[3])
    _write_root(stage, f"{TREE}/unpacked", parts[3])
    stage.sync()
    if is_listed:
        _write_lists(stage, parts[0])
        _write_index(stage, f"{TREE}/repository")
        _write_tar(stage, "home/anna/saved.tar", f"{TREE}/saved")
    stage.remount()
    wrap_log(stage, ballast[::PER_BLOCK], ROUNDS)
    stage.remove_tree(TREE)


Package = tuple[str, list[tuple[str, bytes]]]  # its name; path and content of each file


def _packages(number: int) -> Iterator[Package]:
    """Packages of this machine with so many files in all, of all kinds of places."""
    every = sorted(INFO.glob("*.md5sums"))
    random.Random("packages").shuffle(every)
    seen: set[str] = set()
    most = min(MOST_OF_A_PACKAGE, number // FEWEST_PACKAGES)
    for turn in range(len(every)):
        place = PLACES[turn % len(PLACES)]
        for at, path in enumerate(every):
            if place in path.read_text(errors="replace"):
                files = _files(every.pop(at), place, seen, most)
                break
        else:
            continue
        if files:
            yield path.name.removesuffix(".md5sums"), files
            number -= len(files)
        if number <= 0:
            return


def _files(sums: Path, place: str, seen: set[str], most: int) -> list[tuple[str, bytes]]:
    """At most so many files of a package that are as its list has them, below `place` first."""
    digests = {}
    for line in sums.read_text(errors="replace").splitlines():
        digest, _, path = line.partition("  ")
        digests[path] = digest
    order = sums.with_suffix(".list")
    paths = [one.lstrip("/") for one in order.read_text(errors="replace").splitlines()]
    paths = [one for one in paths if one in digests]
    paths = sorted(paths, key=lambda one: place not in one)[:most]
    found = []
    for path in sorted(paths):
        file = Path("/", path)
        if file.is_symlink() or not file.is_file() or not 0 < file.stat().st_size <= MOST:
            continue
        data = file.read_bytes()
        made = hashlib.md5(data).hexdigest()
        if made == digests[path] and (path.endswith("copyright") or made not in seen):
            seen.add(made)
            found.append((path, data))
    return found


def _write_root(stage: Stage, top: str, packages: list[Package]) -> None:
    """Packages one after the other, as an installer unpacks them."""
    for _, files in packages:
        for path, data in files:
            target = f"{top}/{path}"
            if not stage.path(target).exists():
                stage.write(target, data)


def _write_lists(stage: Stage, packages: list[Package]) -> None:
    """What dpkg keeps of packages."""
    for name, _ in packages:
        for kind in ("list", "md5sums", "conffiles"):
            path = INFO / f"{name}.{kind}"
            if path.exists():
                stage.write(f"var/lib/dpkg/info/{path.name}", path.read_bytes())


def _write_zip(stage: Stage, name: str, packages: list[Package]) -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for _, files in packages:
            for path, data in files:
                if path not in archive.NameToInfo:
                    archive.writestr(zipfile.ZipInfo(path, (2026, 1, 2, 3, 4, 6)), data)
    stage.write(name, written.getvalue())


def _write_tar(stage: Stage, name: str, tree: str) -> None:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.add(stage.path(tree), Path(tree).name)
    stage.write(name, written.getvalue())


def _write_index(stage: Stage, tree: str) -> None:
    """A git repository beside the tree, whose index has the tree."""
    folder = stage.path("home/anna/repository.git")
    git = ["git", f"--git-dir={folder}", f"--work-tree={stage.path(tree)}"]
    git += ["-c", "safe.directory=*", "-c", "core.autocrlf=false", "-c", "gc.auto=0"]
    for step in (["init", "-q"], ["add", "-A", "."]):
        subprocess.run([*git, *step], check=True, capture_output=True)
