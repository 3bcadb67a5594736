"""Lists that are no longer right, and lists that contradict each other: none may mislead."""

from __future__ import annotations

import hashlib

from sample_images.recipes.documents import document
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, wrap_log
from sample_images.recipes.stage import Stage

SITE, INFO = "srv/site", "var/lib/dpkg/info"
EACH = 8  # files of each kind
KINDS = ("kept", "replaced", "rewritten", "twin", "copied", "accused")


def _path(kind: str, at: int) -> str:
    return f"usr/share/doc/{kind}/{kind}-{at:02d}.txt"


def _content(kind: str, at: int, version: int = 0) -> bytes:
    seed = f"{kind} {0 if kind == 'twin' else at} {version}.txt"
    return document(seed, 700 + 5000 * (at % 3))


def lie(stage: Stage) -> None:
    """A tree with lists, changed since; lists that accuse others; all of the tree goes."""
    _lie(stage, with_copies=True)


def lie_in_a_row(stage: Stage) -> None:
    """The same with nothing else between the changes: new contents follow old ones in order."""
    _lie(stage, with_copies=False)


def _lie(stage: Stage, with_copies: bool) -> None:
    ballast = make_ballast(stage, 400)
    for kind in KINDS:
        for at in range(EACH):
            stage.write(f"{SITE}/{_path(kind, at)}", _content(kind, at))
    stage.sync()
    for kind in KINDS:
        _write_list(stage, kind, [(_content(kind, at), _path(kind, at)) for at in range(EACH)])
    _write_list(stage, "accusing", [
        (_content("accused", at), _path("accused", (at + 1) % EACH)) for at in range(EACH)
    ])  # fmt: skip
    upwards = [(_content("kept", at), f"../../../../etc/evil-{at}") for at in range(EACH)]
    _write_list(stage, "upwards", upwards)
    stage.write(f"{INFO}/garbage.md5sums", b"\0\xff" * 5000 + b"\n" + b"a" * 32 + b"  \n")
    for at in range(EACH):
        _change(stage, at)
        if with_copies:
            _copy(stage, at)
    for name in ("replaced", "rewritten"):  # a change of the list's inode is none of the list
        stage.path(f"{INFO}/{name}.md5sums").chmod(0o640)
    stage.remount()
    wrap_log(stage, ballast[::16], 300)
    stage.remove_tree(SITE)


def _change(stage: Stage, at: int) -> None:
    """What happens to files after they were listed."""
    old = f"{SITE}/{_path('replaced', at)}"
    stage.write(old + ".new", _content("replaced", at, 1))
    stage.path(old + ".new").replace(stage.path(old))
    if at % 2:
        with stage.path(f"{SITE}/{_path('rewritten', at)}").open("wb") as stream:
            stream.write(_content("rewritten", at, 1))


def _copy(stage: Stage, at: int) -> None:
    """Files with the contents of listed ones, and of live ones that are listed."""
    stage.write(f"{SITE}/notes/my own {at}.txt", _content("copied", at))
    stage.write(f"live/{_path('living', at)}", _content("living", at))
    stage.write(f"{SITE}/notes/of mine {at}.txt", _content("living", at))
    _write_list(stage, f"living-{at}", [(_content("living", at), _path("living", at))])


def _write_list(stage: Stage, name: str, files: list[tuple[bytes, str]]) -> None:
    lines = [f"{hashlib.md5(data).hexdigest()}  {path}\n" for data, path in files]
    stage.write(f"{INFO}/{name}.md5sums", "".join(lines).encode())


_MAKING = ("-t", "ext4", "-J", "size=4"), 32 * MIB
TRAPS = [
    Recipe("listed_traps", "lists of files that were changed since", lie, *_MAKING, forgotten=True),
    Recipe(
        "listed_traps_in_a_row", "the same, one after another", lie_in_a_row, *_MAKING,
        forgotten=True,
    ),
]  # fmt: skip
