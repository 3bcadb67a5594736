"""A second reading of definitions: their YAML by a plain parser, their paths by Python's glob.

It works below the root directory of a mounted image (chroot), so the running kernel follows the
symlinks.
"""

from __future__ import annotations

import glob
import itertools
import os
import random
import re
from collections.abc import Iterator
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import artifacts
import yaml

LEVELS = 10
HOME = "%%users.homedir%%"


def definitions() -> dict[str, list[tuple[str, str]]]:
    """(type, path) of each path that a definition has for Linux; with those of groups."""
    own: dict[str, list[tuple[str, str]]] = {}
    groups: dict[str, list[str]] = {}
    for path in files(artifacts).joinpath("data").iterdir():
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if _is_for_linux(one):
                own[one["name"]], groups[one["name"]] = [], []
                for source in filter(_is_for_linux, one["sources"]):
                    attributes = source["attributes"]
                    groups[one["name"]] += attributes.get("names", [])
                    if source["type"] in ("FILE", "PATH"):
                        assert attributes.get("separator", "/") == "/"
                        paths = attributes["paths"]
                        own[one["name"]] += [(source["type"], each) for each in paths]
    return {name: list(_of_group(name, own, groups)) for name in own}


def _is_for_linux(one: dict[str, Any]) -> bool:
    return "Linux" in one.get("supported_os", ["Linux"])


def _of_group(
    name: str, own: dict[str, list[tuple[str, str]]], groups: dict[str, list[str]]
) -> Iterator[tuple[str, str]]:
    yield from own.get(name, ())
    for member in groups.get(name, ()):
        yield from _of_group(member, own, groups)


def examples(path: str, chance: random.Random) -> Iterator[str]:
    """Paths that a path of a definition has, and paths that are almost such."""
    for home in ("/srv/eve", "/home/guest", "/root") if path.startswith(HOME) else ("",):
        levels = chance.choice((0, 1, 2, 3, 5, 10, 11))
        names = []
        for name in path.replace(HOME, home).split("/"):
            if re.fullmatch(r"\*\*\d*", name):
                names += [f"level{at}" for at in range(levels)]
            else:
                names.append(_example(name, chance))
        yield "/".join(names)
        decoys = [*names]
        at = chance.randrange(1, len(decoys))
        decoys[at] = chance.choice((decoys[at].swapcase(), f"x{decoys[at]}", f"{decoys[at]}/x"))
        yield "/".join(decoys)


def _example(name: str, chance: random.Random) -> str:
    """A name that a name with wildcards matches."""
    if not name:
        return name
    name = re.sub(r"\[[^]]+\]", "7", name).replace("?", "q")
    return re.sub(r"\*", lambda _: chance.choice(("", ".a", "b", "long name", "1.gz")), name) or "x"


def live_files(root: Path, homes: tuple[str, ...]) -> dict[str, set[str]]:
    """The paths, without symlinks on the way, of the live files of each definition.

    Args:
        root: where the image is mounted.
        homes: home directories beside those of /etc/passwd, of /home, and /root.
    """
    context = get_context("fork")
    sender, receiver = context.Pipe()
    process = context.Process(target=_in_root, args=(root, homes, definitions(), sender))
    process.start()
    found: dict[str, set[str]] = receiver.recv()
    process.join()
    return found


def _in_root(
    root: Path, homes: tuple[str, ...], wanted: dict[str, list[tuple[str, str]]], sender: Any
) -> None:
    os.chroot(root)
    os.chdir("/")
    lines = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    every = {*homes, "/root", *(line.split(":")[5] for line in lines), *_glob("/home/*")}
    sender.send({name: set(_found(paths, every)) for name, paths in wanted.items()})


def _found(paths: list[tuple[str, str]], homes: set[str]) -> Iterator[str]:
    for kind, path in paths:
        for home in homes if path.startswith(HOME) else ("",):
            for pattern in _plain(path.replace(HOME, home)):
                for one in _glob(pattern):
                    yield from _below(one) if kind == "PATH" else _file(one)


def _glob(pattern: str) -> list[str]:
    return glob.glob(pattern, include_hidden=True)  # noqa: PTH207 -- names with a dot first, too


def _plain(path: str) -> Iterator[str]:
    """The path with so many `*` for each `**`."""
    names = path.split("/")
    choices = [_levels(name, name is names[-1]) for name in names]
    for each in itertools.product(*choices):
        yield "/".join(name for some in each for name in some)


def _levels(name: str, is_last: bool) -> list[list[str]]:
    if not (found := re.fullmatch(r"\*\*(\d*)", name)):
        return [[name]]
    return [["*"] * count for count in range(is_last, int(found[1] or LEVELS) + 1)]


def _real(path: str) -> str:
    folder, name = os.path.split(path)
    return f"{os.path.realpath(folder).rstrip('/')}/{name}"


def _file(path: str) -> Iterator[str]:
    if not Path(path).is_dir() or Path(path).is_symlink():
        yield _real(path)


def _below(path: str) -> Iterator[str]:
    yield _real(path)
    for folder, folders, names in os.walk(os.path.realpath(path)):
        yield from (f"{folder}/{name}" for name in (*folders, *names))
