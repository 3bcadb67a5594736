"""Files are removed through the kernel; what comes back is held against what they held before."""

from __future__ import annotations

import os
import random
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import ext4kit
from ext4kit.recovery import DeletedFile, find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from tests.filesystem.matrix_oracle import Digest, Node, Tree
from tests.filesystem.options.drawing import OptionSet
from tests.filesystem.options.making import mounted

SHARE = 0.5  # of the files that are removed one by one
Key = tuple[int, int]  # inode number and generation


@dataclass(frozen=True, slots=True)
class Removed:
    """What came of the removal.

    Attributes:
        files: regular files with content that were removed for good.
        intact, consistent: of those, how many came back with that grade and their own bytes.
        right: came back with their own bytes, whatever the grade.
        wrong_consistent: with that grade and other bytes.
        wrong: intact records that are not what was removed, in words.
    """

    files: int
    intact: int
    consistent: int
    right: int
    wrong_consistent: int
    wrong: list[str]


def remove(chosen: OptionSet, image: Path, tree: Tree) -> set[bytes]:
    """Remove one top folder whole, files by chance elsewhere; the paths that are gone."""
    chance = random.Random(f"remove {chosen.seed}")
    with mounted(image, chosen.mount_options) as (_, root):
        place = os.fsencode(root)
        top = sorted(path for path in tree.paths if path.count(b"/") == 1 and path != b"/")
        whole = chance.choice([path for path in top if path != b"/lost+found"] or [b"/none"])
        for path in sorted(tree.paths):
            kind = _number(tree.nodes[tree.paths[path]], "mode") & 0xF000
            if kind != stat.S_IFDIR and chance.random() < SHARE:
                with suppress(OSError):  # appended to only, or all is read only
                    Path(os.fsdecode(place + path)).unlink()
        shutil.rmtree(os.fsdecode(place + whole), ignore_errors=True)
        return {path for path in tree.paths if not os.path.lexists(place + path)}


def judge(image: Path, trees: list[Tree], gone: set[bytes], is_changed: bool) -> Removed:
    """Hold the deleted files of an image against what was seen.

    Args:
        image: after the removal.
        trees: what the kernel read, the newest last.
        gone: paths of the newest that were removed.
        is_changed: tools worked on the image, which make and remove files of their own.
    """
    seen = _Seen(trees, gone)
    wanted = {key for key in seen.removed if _holds_bytes(seen.nodes[key])}
    right: dict[str, set[Key]] = {"intact": set(), "consistent": set()}
    wrong_consistent, wrong = 0, []
    with ext4kit.open(image) as opened:
        for file in find_deleted(opened.volume().filesystem(), sources=JOURNAL_ONLY):
            if file.kind not in ("file", "directory") or file.inode is None:
                continue
            key = (file.inode.number, file.inode.generation)
            if is_changed and key not in seen.nodes:
                continue
            reason = seen.reason(file, key)
            if not reason:
                right.setdefault(str(file.grade), set()).add(key)
            elif file.grade == "intact":
                wrong.append(f"intact, {reason}: {file.path!r} <{key[0]}> {file.sources}")
            wrong_consistent += bool(reason) and file.grade == "consistent"
    return Removed(
        files=len(wanted),
        intact=len(right["intact"] & wanted),
        consistent=len(right["consistent"] & wanted),
        right=len(set().union(*right.values()) & wanted),
        wrong_consistent=wrong_consistent,
        wrong=wrong,
    )


class _Seen:
    """Every inode and every path that the kernel showed.

    Attributes:
        nodes: the last that was seen of each inode.
        removed: inodes of which no path is left.
    """

    def __init__(self, trees: list[Tree], gone: set[bytes]) -> None:
        self.nodes = {_key(n, node): node for tree in trees for n, node in tree.nodes.items()}
        self._paths = {(p, _key(n, t.nodes[n])) for t in trees for p, n in t.paths.items()}
        newest = [(p, _key(n, trees[-1].nodes[n])) for p, n in trees[-1].paths.items()]
        self._alive = {key for path, key in newest if path not in gone}
        self.removed = {key for path, key in newest if path in gone} - self._alive

    def reason(self, file: DeletedFile, key: Key) -> str:
        """Why a record is not what was removed, or an empty string."""
        node = self.nodes.get(key)
        if node is None:
            return "no such inode was seen"
        if key in self._alive:
            return "it is not deleted"
        if file.path is not None and (file.path, key) not in self._paths:
            return "it was never there"
        if file.mode != node.numbers["mode"]:
            return "another mode"
        if node.digest is not None and _digest(file) != node.digest:
            return "other bytes"
        return ""


def _digest(file: DeletedFile) -> str | None:
    content = file.content()
    if content is None:
        return None
    digest = Digest(content.size)
    for chunk in content.chunks():
        if chunk.data is not None:
            digest.add(chunk.offset, chunk.data)
    return digest.hexdigest()


def _key(number: int, node: Node) -> Key:
    """The kernel tells the generation of files and directories alone."""
    generation = node.numbers.get("generation", 0)
    assert isinstance(generation, int)
    return number, generation


def _holds_bytes(node: Node) -> bool:
    return node.digest is not None and _number(node, "size") > 0


def _number(node: Node, name: str) -> int:
    value = node.numbers[name]
    assert isinstance(value, int)
    return value
