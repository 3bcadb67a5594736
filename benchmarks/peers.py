"""`python -m benchmarks.peers`: ext4kit and the recovery tools of today on the same images.

Each tool gets every image that `sample_images.recipes.forgotten` makes, its output is compared
with the truth by SHA-256, and what it wrote besides is counted.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measure import Job, run_once
from benchmarks.run import RECORDS, ext4kit
from sample_images.recipes import photorec
from sample_images.recipes.machine import SYSTEM_PATH, missing_for_kernel
from sample_images.recipes.making import RECIPES, build
from sample_images.recipes.truth import Built, FileTruth, Truth, load

LIMIT = 120.0  # seconds a tool may take
BEGIN, END = "<!-- the table of benchmarks.peers -->", "<!-- the end of the table -->"

Command = Callable[[Path, Path], list[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that brings files back.

    Attributes:
        name: as people know it.
        program: the executable.
        modes: commands for (image, output folder); the one that brings most counts.
        asks: what makes the program tell its version.
    """

    name: str
    program: str
    modes: tuple[Command, ...]
    asks: tuple[str, ...] = ("-V",)


def _ours(image: Path, out: Path) -> list[str]:
    return ext4kit("recover", "-q", str(image), "-o", str(out))


def _extundelete(image: Path, out: Path) -> list[str]:
    return ["extundelete", "--restore-all", "-o", str(out / "restored"), str(image)]


def _ext4magic(image: Path, out: Path, how: str) -> list[str]:
    return ["ext4magic", str(image), how, "-d", str(out)]


def _tsk_recover(image: Path, out: Path) -> list[str]:
    return ["tsk_recover", str(image), str(out)]


TOOLS = (
    Tool("ext4kit", "ext4kit", (_ours,), ("--version",)),
    Tool(
        "PhotoRec",
        photorec.PROGRAM,
        tuple(partial(photorec.command, mode=mode) for mode in photorec.MODES),
        ("/version",),
    ),
    Tool("ext4magic", "ext4magic", tuple(partial(_ext4magic, how=how) for how in ("-R", "-m"))),
    Tool("extundelete", "extundelete", (_extundelete,), ("--version",)),
    Tool("tsk_recover", "tsk_recover", (_tsk_recover,)),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one tool made of one image.

    Attributes:
        exact: files whose blocks still hold their bytes, and that are in the output.
        named, pathed: of these, under their own name, under their own full path.
        wrong: files in the output that no file ever was, empty ones left out.
        live: files in the output that are on the disk and not deleted.
        seconds: wall time.
        code: exit code; negative: a signal ended it, at the time limit or in a crash.
    """

    tool: str
    exact: int
    named: int
    pathed: int
    wrong: int
    live: int
    seconds: float
    code: int

    @property
    def ending(self) -> str:
        """How it ended, when not in order."""
        if self.code >= 0:
            return ""
        return "time" if self.seconds >= LIMIT else "crash"


@dataclass(frozen=True, slots=True)
class Row:
    """All outcomes on one image.

    Attributes:
        holding: deleted files whose blocks still hold their bytes.
        names, paths: of these, how many have their name, their whole path left anywhere.
    """

    recipe: str
    about: str
    holding: int
    names: int
    paths: int
    outcomes: tuple[Outcome, ...]


def present() -> list[Tool]:
    """The tools that are installed here, ext4kit first; says which are not."""
    found = [tool for tool in TOOLS if tool.program == "ext4kit" or _path(tool.program)]
    for tool in TOOLS:
        if tool not in found:
            print(f"skipped: {tool.name} is not installed", file=sys.stderr)
    return found


def _path(program: str) -> str | None:
    return shutil.which(program, path=SYSTEM_PATH)


def version(tool: Tool) -> str:
    """A tool's name and version in a few words."""
    command = ext4kit(*tool.asks) if tool.program == "ext4kit" else [tool.program, *tool.asks]
    command[0] = _path(command[0]) or command[0]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    number = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
    return f"{tool.name} {number.group() if number else '(version not told)'}"


def compare(sample: Built, tools: Sequence[Tool], work: Path) -> Row:
    """Run each tool on one image and judge what it wrote."""
    truth = load(sample.truth)
    holding = [one for one in truth.files if one.holds]
    outcomes = tuple(_best(tool, sample.image, truth, work) for tool in tools)
    return Row(
        truth.recipe,
        RECIPES[truth.recipe].about,
        len(holding),
        sum(one.name_left or one.path_in_log for one in holding),
        sum((one.name_left and one.path_left) or one.path_in_log for one in holding),
        outcomes,
    )


def _best(tool: Tool, image: Path, truth: Truth, work: Path) -> Outcome:
    found = [_outcome(tool, mode, image, truth, work) for mode in tool.modes]
    return max(found, key=lambda one: (one.exact, one.pathed, -one.wrong))


def _outcome(tool: Tool, mode: Command, image: Path, truth: Truth, work: Path) -> Outcome:
    with tempfile.TemporaryDirectory(dir=work, prefix="out-") as folder:
        out = Path(folder, "out")
        out.mkdir()
        command = mode(image.resolve(), out.resolve())
        command[0] = _path(command[0]) or command[0]
        once = run_once(Job(command, limit=LIMIT, writes=out, folder=Path(folder)))
        counts = _judge(out, truth)
    return Outcome(tool.name, *counts, once.seconds, once.code)


def _judge(out: Path, truth: Truth) -> tuple[int, int, int, int, int]:
    """(exact, named, pathed, wrong, live)."""
    written = [(digest, path) for path, digest in _written(out)]
    places: dict[str, list[str]] = {}
    for digest, path in written:
        places.setdefault(digest, []).append("/" + path)
    exact = [one for one in truth.files if one.holds and one.sha256 in places]
    named = [one for one in exact if any(_ends(path, _name(one)) for path in places[one.sha256])]
    pathed = [one for one in exact if any(_ends(path, _text(one)) for path in places[one.sha256])]
    every, alive = {one.sha256 for one in truth.files}, {one.sha256 for one in truth.live}
    live = sum(digest in alive and digest not in every for digest, _ in written)
    wrong = sum(digest not in every for digest, _ in written) - live
    return len(exact), len(named), len(pathed), wrong, live


def _written(out: Path) -> Iterator[tuple[str, str]]:
    """(path, SHA-256) of each file in an output folder that is not empty."""
    for path in out.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.name in RECORDS:
            continue
        if path.stat().st_size:
            with path.open("rb") as stream:
                yield str(path.relative_to(out)), hashlib.file_digest(stream, "sha256").hexdigest()


def _text(one: FileTruth) -> str:
    return one.path.decode(errors="surrogateescape")


def _name(one: FileTruth) -> str:
    return _text(one).rsplit("/", 1)[-1]


def _ends(path: str, tail: str) -> bool:
    return path.endswith("/" + tail)


# -- tables -----------------------------------------------------------------------------------


def tables(rows: Sequence[Row], versions: Sequence[str]) -> str:
    """The results as Markdown: contents and names, then what else was written, and the time."""
    names = [outcome.tool for outcome in rows[0].outcomes]
    parts = [
        f"Measured with {', '.join(versions)}.",
        _table(
            ("image", "blocks hold", *names),
            [(_recipe(row), str(row.holding), *map(_contents, row.outcomes)) for row in rows],
        ),
        "Files that are none, and living files (`+n`), in the output:",
        _table(("image", *names), [(_recipe(row), *map(_besides, row.outcomes)) for row in rows]),
        "Seconds:",
        _table(("image", *names), [(_recipe(row), *map(_cost, row.outcomes)) for row in rows]),
        "The images:",
        "\n".join(
            f"* `{_recipe(row)}`: {row.about}; of {row.holding} names {row.names}, "
            f"whole paths {row.paths} left"
            for row in rows
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _recipe(row: Row) -> str:
    return row.recipe.removeprefix("forgotten_")


def _contents(one: Outcome) -> str:
    names = f" ({one.named} / {one.pathed})" if one.named else ""
    ending = f" {one.ending}" if one.ending else ""
    return f"{one.exact}{names}{ending}"


def _besides(one: Outcome) -> str:
    return f"{one.wrong}" + (f" +{one.live}" if one.live else "")


def _cost(one: Outcome) -> str:
    return f"{one.seconds:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def put_into(document: Path, text: str) -> None:
    """Replace what stands between the two marks of a document."""
    before, rest = document.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    document.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    chosen = [name for name, recipe in RECIPES.items() if recipe.forgotten]
    parser.add_argument("names", nargs="*", metavar="RECIPE", help=f"of: {', '.join(chosen)}")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keeps the images")
    parser.add_argument("--small", action="store_true", help="the small variants")
    parser.add_argument("--fast", action="store_true", help="without what takes minutes to make")
    parser.add_argument("--only", action="append", metavar="TOOL", help="these tools alone")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables in there")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RECIPES):
        parser.error(f"no such recipe: {', '.join(sorted(unknown))}")
    usual = [name for name in chosen if not (options.fast and RECIPES[name].slow)]
    options.names = options.names or usual
    return options


def _run(work: Path, options: argparse.Namespace) -> None:
    tools = [tool for tool in present() if not options.only or tool.name in options.only]
    rows = []
    for name in options.names:
        sample = Built.of(name, work)
        if not sample.truth.exists():
            sample = build(name, work, options.small)
        rows.append(compare(sample, tools, work))
        cells = [f"{one.tool} {_contents(one)} wrong {_besides(one)}" for one in rows[-1].outcomes]
        print(f"{name} {rows[-1].holding}: {'; '.join(cells)}", file=sys.stderr, flush=True)
        if not options.work:
            sample.image.unlink()
    text = tables(rows, [version(tool) for tool in tools])
    print(text)
    if options.write:
        put_into(options.write, text)


def main() -> int:
    """Build the images, run every tool that is there, print the tables."""
    options = _arguments()
    if reason := missing_for_kernel():
        print(f"benchmarks skipped: {reason}")
        return 0
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
        _run(options.work, options)
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        _run(Path(folder), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
