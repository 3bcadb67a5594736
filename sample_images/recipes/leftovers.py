"""What a recovery made of the freed blocks: contents, names, and what should not be there.

Where the log has nothing, a file counts as one that could be had when its own blocks, free at
the end, still give its SHA-256; and its name when an entry for it can be read in a free block or
in the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_images.recipes.ondisk import Disk
from sample_images.recipes.score import Output, read_outputs, read_records
from sample_images.recipes.truth import FileTruth, Truth

AT_ONCE = 2048  # blocks


@dataclass(slots=True)
class Leftovers:
    """How much of what is left came back.

    Attributes:
        holding: deleted files whose blocks hold their bytes.
        exact: of these, files whose bytes are in the output under any name.
        named, pathed: of these, files that came under their own name, their own path.
        names: deleted files with an entry left; names_given: of these, with a record of it.
        paths, paths_given: the same of whole paths.
        ends, ends_given: the same of the ends of paths, two parts or more, whose beginning is not
            left: a folder was removed whose own entry is nowhere any more.
        missing: those of `holding` that did not come; nameless: those of `names` likewise.
        intact_wrong: graded intact, with bytes that no file of this inode number ever had.
        carved: outputs graded so; carved_exact: of these, those that are exactly a file.
        live: outputs with the bytes, or the life, of a living file and of no removed one.
        wrong: outputs with bytes that no file ever had, whatever their grade.
        joined: outputs graded carved that came under an inode; misjoined: of these, those with
            the bytes and the place of another file than the last one of that inode.
        misnamed: outputs under a name that no file with their bytes ever had.
        twice: blocks that are in the outputs more often than in the image.
        claimed_twice: blocks that more than one record of the manifest names as its own.
    """

    name: str
    holding: int = 0
    exact: int = 0
    named: int = 0
    pathed: int = 0
    names: int = 0
    names_given: int = 0
    paths: int = 0
    paths_given: int = 0
    ends: int = 0
    ends_given: int = 0
    carved: int = 0
    carved_exact: int = 0
    wrong: int = 0
    twice: int = 0
    claimed_twice: int = 0
    joined: int = 0
    misjoined: list[Output] = field(default_factory=list)
    misnamed: list[Output] = field(default_factory=list)
    missing: list[FileTruth] = field(default_factory=list)
    nameless: list[FileTruth] = field(default_factory=list)
    intact_wrong: list[Output] = field(default_factory=list)
    live: list[Output] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        """Whether something is in the output that must never be."""
        return bool(self.intact_wrong or self.live or self.twice or self.claimed_twice)

    def line(self) -> str:
        """One table line, as `HEADER` names its columns."""
        cells = (
            self.holding,
            self.exact,
            self.named,
            self.pathed,
            f"{self.names_given}/{self.names}",
            f"{self.paths_given}/{self.paths}",
            f"{self.ends_given}/{self.ends}",
            len(self.intact_wrong),
            f"{self.carved_exact}/{self.carved}",
            self.wrong,
            f"{self.twice}+{self.claimed_twice}",
            len(self.live),
            f"{self.joined - len(self.misjoined)}/{self.joined}",
            len(self.misnamed),
        )
        return f"{self.name:<22}" + "".join(f"{cell!s:>12}" for cell in cells)


COLUMNS = ["hold", "exact", "named", "pathed", "names-left", "paths-left", "ends-left"]
COLUMNS += ["int-wrong", "carved-ex", "wrong", "twice", "live", "joined", "misnamed"]
HEADER = f"{'whose blocks hold':<22}" + "".join(f"{column:>12}" for column in COLUMNS)


def judge_leftovers(image: Path, truth: Truth, out: Path) -> Leftovers:
    """Judge an output folder by the files whose blocks are still there.

    Args:
        image: that the recovery read.
        truth: of that image.
        out: the output folder, with its manifest.
    """
    outputs = read_outputs(out)
    result = Leftovers(truth.recipe)
    _judge_states(result, truth, outputs)
    _judge_outputs(result, truth, outputs)
    _judge_joins(result, truth, outputs)
    with Disk(image) as disk:
        result.twice = _blocks_twice(disk, [out / one.file for one in outputs if one.sha256])
    result.claimed_twice = _claimed_twice(out)
    return result


def _judge_states(result: Leftovers, truth: Truth, outputs: list[Output]) -> None:
    by_digest, by_number = _by_digest(outputs), _by_number(outputs)
    for state in truth.files:
        same = by_digest.get(state.sha256, []) if state.size else []
        told = same + by_number.get(state.inode, [])
        name = state.path.rsplit(b"/", 1)[-1]
        if state.holds:
            result.holding += 1
            result.exact += bool(same)
            result.named += any(one.name == name for one in same)
            result.pathed += any(one.path == state.path for one in same)
            if not same:
                result.missing.append(state)
        if state.state != "deleted" or not state.name_left:
            continue
        _judge_names(result, state, told)


def _judge_names(result: Leftovers, state: FileTruth, told: list[Output]) -> None:
    name = state.path.rsplit(b"/", 1)[-1]
    given = any(one.name == name for one in told)
    result.names += 1
    result.names_given += given
    if not given:
        result.nameless.append(state)
    if state.path_left:
        result.paths += 1
        result.paths_given += any(one.path == state.path for one in told)
    elif state.parts_left > 1:
        end = b"/".join(state.path.split(b"/")[-state.parts_left :])
        result.ends += 1
        result.ends_given += any(one.path and one.path.endswith(b"/" + end) for one in told)


def _by_digest(outputs: list[Output]) -> dict[str, list[Output]]:
    found: defaultdict[str, list[Output]] = defaultdict(list)
    for one in outputs:
        if one.sha256:
            found[one.sha256].append(one)
    return found


def _by_number(outputs: list[Output]) -> dict[int, list[Output]]:
    found: defaultdict[int, list[Output]] = defaultdict(list)
    for one in outputs:
        if one.life:
            found[one.life[0]].append(one)
    return found


def _judge_outputs(result: Leftovers, truth: Truth, outputs: list[Output]) -> None:
    removed: defaultdict[int, set[str]] = defaultdict(set)
    for state in truth.files:
        removed[state.inode].add(state.sha256)
    every = {state.sha256 for state in truth.files}
    live = {one.sha256 for one in truth.live}
    living = {(one.inode, one.generation) for one in truth.live}
    for output in outputs:
        if not output.sha256 or output.size == 0:
            continue
        known = removed.get(output.life[0], every) if output.life else every
        if output.grade == "intact" and output.sha256 not in known:
            result.intact_wrong.append(output)
        if output.life in living or (output.sha256 in live and output.sha256 not in every):
            result.live.append(output)
        if output.grade == "carved":
            result.carved += 1
            result.carved_exact += output.sha256 in every
        result.wrong += output.sha256 not in every and output.sha256 not in live


def _judge_joins(result: Leftovers, truth: Truth, outputs: list[Output]) -> None:
    names: defaultdict[str, set[bytes]] = defaultdict(set)
    held = [(one.sha256, one.path) for one in truth.files]
    for digest, path in held + [(one.sha256, one.path) for one in truth.live]:
        names[digest].add(path.rsplit(b"/", 1)[-1])
    lives = {(one.inode, one.generation): one for one in truth.files if one.state == "deleted"}
    for output in outputs:
        if not output.sha256 or output.size == 0:
            continue
        if output.name and output.sha256 in names and output.name not in names[output.sha256]:
            result.misnamed.append(output)
        if output.grade == "carved" and output.life:
            result.joined += 1
            own = lives.get(output.life)
            if own is None or not (own.sha256 == output.sha256 or _begins_alike(own, output)):
                result.misjoined.append(output)


def _begins_alike(state: FileTruth, output: Output) -> bool:
    return bool(state.blocks) and state.blocks[0][1] == output.first_block


def _blocks_twice(disk: Disk, files: list[Path]) -> int:
    """How many blocks of content are in the outputs more often than on the whole disk."""
    given = Counter(hash(block) for file in files for block in _blocks_of(file, disk.block_size))
    often = {digest: count for digest, count in given.items() if count > 1}
    if not often:
        return 0
    for block in _blocks_of(disk.path, disk.block_size):
        digest = hash(block)
        if digest in often:
            often[digest] -= 1
    return sum(count for count in often.values() if count > 0)


def _blocks_of(path: Path, size: int) -> Iterator[bytes]:
    """The blocks of a file that are not all zeros, the last one filled up with zeros."""
    with path.open("rb") as stream:
        while piece := stream.read(size * AT_ONCE):
            for at in range(0, len(piece), size):
                block = piece[at : at + size].ljust(size, b"\0")
                if block.count(0) != size:
                    yield block


def _claimed_twice(out: Path) -> int:
    """How many blocks stand in the `extents` of more than one written record."""
    runs: list[tuple[int, int]] = []
    for record in read_records(out):
        if record.get("output") and not record.get("superseded"):
            runs += _claimed(record)
    overlap = end = 0
    for first, stop in sorted(runs):
        overlap += max(0, min(end, stop) - first)
        end = max(end, stop)
    return overlap


def _claimed(record: dict[str, Any]) -> list[tuple[int, int]]:
    """The runs of blocks (first, end) that a record names as its own, as far as it does."""
    if "extents" in record:
        return [(block, block + count) for _, block, count in record["extents"] or ()]
    first = record.get("first_block")
    return [] if first is None else [(first, first + record["blocks"])]
