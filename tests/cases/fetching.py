"""The cases, from a tarball to the folder that tests find them in.

Beside them stands `made.json`: what they were made from. They are made anew when that changes: by
another e2fsprogs, another tarball, or other code in this package.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import cases
from tests.cases import reference, source
from tests.cases.images import unpack_images
from tests.cases.tools import CasesError, ask

MADE = "made.json"
_MAKING, _LOADING = "making-", "apt-"  # how folders begin that are there for a while


def fetch(tarball: Path | None) -> None:
    """Have the cases at hand; quick and silent where they are.

    Raises:
        CasesError: they cannot be had.
        OSError: the folder cannot be written.
    """
    home = cases.home()
    if (home / cases.INDEX).is_file() and not (home / MADE).is_file():
        return  # others prepared them
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home):
        if not _complete(home, tarball):
            _make(home, tarball)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Another process that wants the same waits until this one is done."""
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for prefix in (_MAKING, _LOADING):
            for left in home.glob(f"{prefix}*"):  # by one that was killed
                shutil.rmtree(left)
        yield


def _complete(home: Path, tarball: Path | None) -> bool:
    try:
        made = json.loads((home / MADE).read_text())
    except (OSError, ValueError):
        return False
    version = reference.version()
    wanted = source.checked(tarball, version) if tarball else made.get("tarball")
    there = all((home / name).is_file() for name in (cases.INDEX, cases.ARCHIVE))
    return bool(there and made == _made_from(wanted, version))


def _made_from(tarball: str, version: str) -> dict[str, str]:
    code = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.*")):
        if path.is_file():
            code.update(path.read_bytes())
    return {"tarball": tarball, "e2fsprogs": version, "code": code.hexdigest()}


def _make(home: Path, tarball: Path | None) -> None:
    version = reference.version()
    tarball = tarball or _kept(home, version) or _downloaded(home, version)
    made = _made_from(source.checked(tarball, version), version)
    with tempfile.TemporaryDirectory(prefix=_MAKING, dir=home) as name:
        folder = Path(name)
        lines = [json.dumps(record) for record in _records(tarball, folder, version)]
        _pack(folder)
        (folder / cases.INDEX).write_text("".join(f"{line}\n" for line in lines))
        (folder / MADE).write_text(json.dumps(made))
        (home / MADE).unlink(missing_ok=True)
        for part in (cases.ARCHIVE, cases.INDEX, MADE):
            (folder / part).replace(home / part)
    print(f"{len(lines)} cases of e2fsprogs in {home}", flush=True)


def _kept(home: Path, version: str) -> Path | None:
    """The tarball that apt fetched before, where that fits the installed tools."""
    fits = {path: source.numbers(path.name) for path in home.glob("e2fsprogs_*.orig.tar.*")}
    return next((path for path in fits if fits[path] == source.numbers(version)), None)


def _downloaded(home: Path, version: str) -> Path:
    print("fetching the source package of e2fsprogs by apt-get", flush=True)
    with tempfile.TemporaryDirectory(prefix=_LOADING, dir=home) as name:
        tarball = source.download(Path(name), version)
        source.checked(tarball, version)
        return tarball.rename(home / tarball.name)


def _records(tarball: Path, folder: Path, version: str) -> list[dict[str, Any]]:
    (folder / "images").mkdir()
    (folder / "ref").mkdir()
    found, others = unpack_images(tarball, folder / "images")
    if others:
        print(f"left out, their content is not known: {', '.join(others)}", flush=True)
    if not found:
        raise CasesError(f"{tarball}: no image of e2fsprogs' tests is in it")
    print(f"asking e2fsprogs {version} about {len(found)} images", flush=True)
    with ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:  # two that wait for a hanging one
        answered = pool.map(lambda case: reference.answers(case, folder), found)
        return [record | {"e2fsprogs": version} for record in answered]


def _pack(folder: Path) -> None:
    """Put images and answers into the archive."""
    archive = folder / cases.ARCHIVE
    done = ask("tar", "--zstd", "-cSf", archive, "-C", folder, "images", "ref", limit=600)
    if done.returncode:
        raise CasesError(f"tar: {done.stderr.decode(errors='replace').splitlines()[0]}")
    shutil.rmtree(folder / "images")
