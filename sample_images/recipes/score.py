"""Compare what a recovery wrote with the truth of its image."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample_images.recipes.truth import FileTruth, Truth, bytes_of, path_of

Life = tuple[int, int]  # inode, generation
PRESENT_PLACE = "present place"


@dataclass(frozen=True, slots=True)
class Output:
    """One manifest record and the digest of the file that really lies there.

    Attributes:
        file: where it was written, relative to the output folder; "" when it was not.
        sha256: of the written file; "" when there is none.
        path: exact, without a leading slash; None when it is not known.
        name: the last part of the path, or the name alone where the path is not known.
        size: bytes of the written file.
        first_block: of a content that was found without a map in an inode.
        ground: what the path rests on; "" for none.
    """

    file: str
    sha256: str
    path: bytes | None
    life: Life | None
    grade: str
    kind: str
    name: bytes | None = None
    size: int = 0
    first_block: int | None = None
    ground: str = ""


@dataclass(slots=True)
class Score:
    """What came of each state in the truth.

    Attributes:
        exact: states whose bytes are in the output, by identity of the state.
        missing: states that could be had and are not in the output bit for bit.
        wrong_path: bit-exact states with a path in the log that came under another.
        intact_wrong: outputs graded intact with a content that this life never had.
        live: outputs that belong to a living file.
        unheard_of: outputs of lives that the truth does not know.
        places: outputs of deleted files whose path rests on the present place of a directory;
            wrong_places: of these, those that had another path when they went.
        undescribed: states that only an undescribed log block shows: (there are, came back).
    """

    name: str
    states: int = 0
    could: int = 0
    exact: int = 0
    could_exact: int = 0
    paths: int = 0
    paths_right: int = 0
    missing: list[FileTruth] = field(default_factory=list)
    wrong_path: list[FileTruth] = field(default_factory=list)
    intact_wrong: list[Output] = field(default_factory=list)
    live: list[Output] = field(default_factory=list)
    unheard_of: list[Output] = field(default_factory=list)
    places: int = 0
    wrong_places: list[Output] = field(default_factory=list)
    undescribed: tuple[int, int] = (0, 0)

    def line(self) -> str:
        """One table line, as `HEADER` names its columns."""
        cells = (
            self.states,
            self.could,
            f"{self.could_exact}",
            self.exact,
            f"{self.paths_right}/{self.paths}",
            f"{self.places - len(self.wrong_places)}/{self.places}",
            "{1}/{0}".format(*self.undescribed),
            len(self.intact_wrong),
            len(self.live),
            len(self.unheard_of),
        )
        return f"{self.name:<22}" + "".join(f"{cell!s:>12}" for cell in cells)


COLUMNS = [
    "files",
    "could",
    "of-these",
    "exact",
    "path",
    "places",
    "undescr",
    "int-wrong",
    "live",
    "unknown",
]
HEADER = f"{'recipe':<22}" + "".join(f"{column:>12}" for column in COLUMNS)


TIMED = frozenset({"case.json", "README.txt", "report.html"})  # written with the time
OWN = TIMED | frozenset({"manifest.jsonl"})  # beside the recovered files


def read_outputs(folder: Path) -> list[Output]:
    """The manifest of an output folder, each written file hashed anew."""
    return [_output(folder, record) for record in read_records(folder)]


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """The records of an output folder's manifest, one after the other."""
    with (folder / "manifest.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _output(folder: Path, record: dict[str, Any]) -> Output:
    name = record.get("output") or ""
    file = folder / name
    written = bool(name) and file.is_file()
    life = None
    if record.get("inode") is not None and record.get("generation") is not None:
        life = (int(record["inode"]), int(record["generation"]))
    data = file.read_bytes() if written else b""
    path = path_of(record)
    return Output(
        name,
        hashlib.sha256(data).hexdigest() if written else "",
        path,
        life,
        record.get("grade") or "",
        record.get("type") or "",
        path.rsplit(b"/", 1)[-1] if path else bytes_of(record, "name"),
        len(data),
        record.get("first_block"),
        record.get("path_ground") or "",
    )


def score(truth: Truth, outputs: list[Output]) -> Score:
    """Judge a recovery by lives (inode, generation) and by SHA-256.

    A state counts as exact when its own life came with its bytes, or when its bytes came
    under any name; an empty file has to come under its own life.
    """
    result = Score(truth.recipe)
    by_life: defaultdict[Life, list[Output]] = defaultdict(list)
    for one in outputs:
        if one.life:
            by_life[one.life].append(one)
    digests = {one.sha256 for one in outputs}
    for state in truth.files:
        if state.state == "deleted":
            _score_state(result, state, by_life[(state.inode, state.generation)], digests)
    _score_outputs(result, truth, outputs)
    _score_places(result, truth, outputs)
    return result


def _score_state(result: Score, state: FileTruth, own: list[Output], digests: set[str]) -> None:
    same = [one for one in own if one.sha256 == state.sha256]
    exact = bool(same) or (state.size > 0 and state.sha256 in digests)
    result.states += 1
    result.exact += exact
    if not state.inode_known and state.inode_undescribed and state.blocks_hold:
        there, came = result.undescribed
        result.undescribed = (there + 1, came + exact)
    if not state.could_be_had:
        return
    result.could += 1
    result.could_exact += exact
    if not exact:
        result.missing.append(state)
    if state.path_in_log:
        result.paths += 1
        right = any(
            one.path == state.path and one.file.startswith(("files/", "earlier/", "partial/"))
            for one in same
        )
        result.paths_right += right
        if not right:
            result.wrong_path.append(state)


def _score_outputs(result: Score, truth: Truth, outputs: list[Output]) -> None:
    known: defaultdict[Life, set[str]] = defaultdict(set)
    for state in truth.files:
        known[(state.inode, state.generation)].add(state.sha256)
    living = {(one.inode, one.generation) for one in truth.live}
    for one in truth.live:
        known[(one.inode, one.generation)].add(one.sha256)
    for output in outputs:
        if not output.file or not output.life:
            continue
        if output.life in living:
            result.live.append(output)
        if output.life not in known:
            result.unheard_of.append(output)
        elif output.grade == "intact" and output.sha256 not in known[output.life]:
            result.intact_wrong.append(output)


def _score_places(result: Score, truth: Truth, outputs: list[Output]) -> None:
    paths = {(one.inode, one.generation): one.path for one in truth.files if one.state == "deleted"}
    for output in outputs:
        if output.ground == PRESENT_PLACE and output.life in paths:
            result.places += 1
            if output.path != paths[output.life]:
                result.wrong_places.append(output)


def describe(truth: Truth) -> str:
    """One line on what a truth says: how many of its states can be had, and by what."""
    deleted = [one for one in truth.files if one.state == "deleted"]

    def number(test: Callable[[FileTruth], bool]) -> int:
        return sum(1 for one in deleted if test(one))

    ways = Counter(one.inode_known or "no way" for one in deleted)
    return (
        f"{truth.recipe:<22} deleted {len(deleted):>5}, earlier states "
        f"{len(truth.files) - len(deleted):>4}, live {len(truth.live):>5}; blocks hold "
        f"{number(lambda one: one.blocks_hold):>5}; could be had "
        f"{number(lambda one: one.could_be_had):>5}, of these with path "
        f"{number(lambda one: one.could_be_had and one.path_in_log):>5}; only undescribed "
        f"{number(lambda one: one.inode_undescribed and not one.inode_known):>4}; names left "
        f"{number(lambda one: one.name_left):>5}, paths left "
        f"{number(lambda one: one.name_left and one.path_left):>5}; "
        + ", ".join(f"{way} {count}" for way, count in sorted(ways.items()))
    )
