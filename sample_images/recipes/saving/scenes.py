"""Images on which files were saved over, and what the recovery makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import ext4kit
from ext4kit.filesystem.content import ContentStream
from ext4kit.recovery import DeletedFile, DeletedFiles, find_deleted
from sample_images.recipes.contents import text
from sample_images.recipes.machine import make_file_system, mounted, sync
from sample_images.recipes.saving.patterns import PATTERNS, Pattern

MIB = 1 << 20
SYNCS = ("none", "before", "between", "after", "always")
LAYOUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "ext4": (("-t", "ext4", "-J", "size=4"), ""),
    "ext3": (("-t", "ext3", "-b", "1024", "-J", "size=4"), ""),
    "data=journal": (("-t", "ext4", "-J", "size=16"), "data=journal"),
    "fast commits": (("-t", "ext4", "-O", "fast_commit", "-J", "size=4"), ""),
    "no checksums": (("-t", "ext4", "-O", "^metadata_csum", "-J", "size=4"), ""),
    "inline data": (("-t", "ext4", "-O", "inline_data", "-I", "512", "-J", "size=4"), ""),
}


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that was saved over.

    Attributes:
        path: its path.
        old: its content before.
        others: the contents that files of its folder had since.
    """

    path: bytes
    old: bytes
    others: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came back of one file.

    Attributes:
        content: whether its old content did.
        path: whether under its path.
        wrong: what is said falsely, empty for nothing.
        reused: whether a record of its path says that later files have its blocks.
    """

    content: bool
    path: bool
    wrong: str
    reused: bool = False


def build(
    image: Path, layout: str, sync_at: str, ways: Mapping[str, Pattern] = PATTERNS
) -> list[Saved]:
    """Make an image on which a file of each pattern was saved over."""
    options, mount = LAYOUTS[layout]
    make_file_system(image, 64 * MIB, options)
    saved = []
    with mounted(image, mount or "defaults") as top:
        running = []
        for name, way in ways.items():
            path = top / name / "doc.txt"
            path.parent.mkdir()
            old, new = text(f"old {name}", 9000), text(f"new {name}", 5000)
            path.write_bytes(old)
            saved.append(Saved(f"/{name}/doc.txt".encode(), old, _contents_since(name, old, new)))
            running.append(way(path, new))
        if sync_at in ("before", "always"):
            sync(top)
        for steps in running:
            next(steps)
        if sync_at in ("between", "always"):
            sync(top)
        for steps in running:
            next(steps, None)
        if sync_at in ("after", "always"):
            sync(top)
    return saved


def _contents_since(name: str, old: bytes, new: bytes) -> tuple[bytes, ...]:
    more = {"truncate_to_a_block": (old[:4096],), "save_twice": (new[: len(new) // 2],)}
    return (new, *more.get(name, ()))


def judge(image: Path, saved: Iterable[Saved]) -> dict[bytes, Verdict]:
    """What the recovery makes of each file, by path."""
    with ext4kit.open(image) as evidence:
        found = find_deleted(evidence.volumes[0].filesystem(), versions=True)
        return {one.path: _verdict(one, found) for one in saved}


def _verdict(one: Saved, found: DeletedFiles) -> Verdict:
    has_content = has_path = reused = False
    wrong = ""
    for file in found:
        if file.size is None or file.kind != "file":
            continue
        content = _read(file)
        at_path = one.path in paths_of(file)
        reused |= at_path and file.blocks_reused > 0
        if content == one.old:
            has_content = True
            has_path |= at_path
            if file.path is not None and not file.path.startswith(one.path.rpartition(b"/")[0]):
                wrong = f"its old content under {file.path!r}"
        elif at_path and file.grade.is_whole and content and content not in one.others:
            wrong = f"{len(content)} strange bytes under its path, {file.grade}"
    return Verdict(has_content, has_path, wrong, reused and not has_content)


def _read(file: DeletedFile) -> bytes:
    content = file.content()
    return b"" if content is None else ContentStream(content).readall()


def paths_of(file: DeletedFile) -> set[bytes | None]:
    """All paths that a record gives."""
    return {file.path, *file.other_paths, *file.former_paths}
