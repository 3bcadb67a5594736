"""`python -m benchmarks.run`: ext4kit and the best peer of each task on the same image.

Every figure is the median of several runs after a warm-up, ext4kit and peer in turn. A ratio
above 1 says that ext4kit is that many times as fast.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.image import BIG_FILE, Bench, Shape, build
from benchmarks.measure import Job, Measured, compare, run_once
from sample_images.recipes.machine import SYSTEM_PATH, missing_for_kernel, run
from sample_images.recipes.score import OWN

RECORDS = OWN  # beside the files that a tool wrote
MEMORY_LIMIT = 500_000_000  # bytes
MEBIBYTE = 1 << 20
WORDS = 100_000


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the outcome.

    Attributes:
        name: what was measured.
        ours, theirs: medians; `theirs` None without a peer.
        peer: the peer's name.
        ratio: how many times as fast ext4kit is, None without a peer's figure.
        target: the least ratio, or the most seconds where there is no peer.
        note: what else is to be known.
    """

    name: str
    ours: Measured
    peer: str
    theirs: Measured | None
    ratio: float | None
    target: float
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when the peer is missing or gave no result."""
        if self.ours.code != 0:
            return False
        if self.peer:
            return None if self.ratio is None else self.ratio >= self.target
        return self.ours.seconds < self.target


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how often to measure."""

    work: Path
    runs: int
    bench: Bench

    @property
    def image(self) -> str:
        """The image's path."""
        return str(self.bench.image)


def ext4kit(*arguments: str) -> list[str]:
    """The command line of this program, by the installed script beside the interpreter."""
    script = Path(sys.executable).with_name("ext4kit")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "ext4kit"]
    return [*start, *arguments]


def _peer(name: str) -> str | None:
    return shutil.which(name, path=SYSTEM_PATH)


def _result(
    setting: Setting, name: str, ours: Job, peer: str, theirs: Job, target: float
) -> Result:
    """Ours beside a peer's, in turn; the peer may be missing."""
    jobs = [ours, theirs] if _peer(peer) else [ours]
    figures = compare(jobs, setting.runs)
    if len(figures) == 1:
        return Result(name, figures[0], peer, None, None, target, f"{peer} is missing")
    return Result(name, *_beside(peer, *figures), target)


def _beside(peer: str, ours: Measured, theirs: Measured) -> tuple[Measured, str, Measured, float]:
    return ours, peer, theirs, theirs.seconds / ours.seconds


def listing(setting: Setting) -> list[Result]:
    """All paths of the image."""
    ours, theirs = setting.work / "ours.txt", setting.work / "theirs.txt"
    result = _result(
        setting,
        "ls -r",
        Job(ext4kit("ls", "-r", setting.image), ours),
        "fls",
        Job(["fls", "-rp", setting.image], theirs),
        5.0,
    )
    counted = [path.read_bytes().count(b"\n") for path in (ours, theirs) if path.exists()]
    for path in (ours, theirs):
        path.unlink(missing_ok=True)
    lines = " and ".join(f"{count:,}" for count in counted)
    return [replace(result, note=result.note or f"{lines} lines")]


def reading(setting: Setting) -> list[Result]:
    """The large file, to nowhere and to a file."""
    first = _first_byte(setting)
    out, null = setting.work / "out.bin", Path("/dev/null")
    size = setting.bench.big_bytes // MEBIBYTE
    found = []
    for name, target in (("cat to /dev/null", null), ("cat to a file", out)):
        clear = partial(out.unlink, missing_ok=True)
        dd = ["dd", "bs=1M", f"if={setting.image}", f"of={target}", f"count={size}"]
        dd += [f"skip={first}", "iflag=skip_bytes", "status=none"]
        ours = Job(ext4kit("cat", setting.image, BIG_FILE), target, clear)
        found.append(_result(setting, name, ours, "dd", Job(dd, null, clear), 0.9))
        out.unlink(missing_ok=True)
    return found


def _first_byte(setting: Setting) -> int:
    """Where the large file begins in the image; it goes on from there, but for a few gaps."""
    said = run("debugfs", "-R", f"bmap {BIG_FILE} 0", setting.image)
    return int(said.split()[-1]) * 4096


def starting(setting: Setting) -> list[Result]:
    """What every call has to wait for."""
    found = []
    for name, arguments, limit in (
        ("--version", ("--version",), 0.15),
        ("info", ("info", setting.image), 0.4),
    ):
        figure = compare([Job(ext4kit(*arguments))], setting.runs)[0]
        found.append(Result(name, figure, "", None, None, limit))
    return found


def searching(setting: Setting) -> list[Result]:
    """A text, 100,000 words and all features in all bytes of live files, and in everything."""
    words = setting.work / "words.txt"
    drawn = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    wanted = {"".join(drawn.choices(letters, k=drawn.randint(6, 14))) for _ in range(WORDS)}
    words.write_text("\n".join(sorted(wanted)))
    null, text = Path("/dev/null"), "zzyzzyx17"
    live = ("search", "-q", setting.image, "--count", "--in", "live")
    ours = Job(ext4kit(*live, "--text", text), null)
    found = [
        _result(setting, "search a text", ours, "cat", Job(["cat", setting.image], null), 0.7),
        _result(setting, "search a text", ours, "grep",
                Job(["grep", "-a", "-c", "-F", text, setting.image], null), 1.0),
        _result(setting, "search a text", ours, "blkls",
                Job(["sh", "-c", f"blkls -e {setting.image} | srch_strings -a | grep -c {text}"],
                    null), 1.0),
    ]  # fmt: skip
    size = setting.bench.image.stat().st_blocks * 512
    for name, speed, options in (
        ("search 100,000 words", 300e6, (*live, "--words", str(words))),
        ("search all features", 150e6, (*live, "--features", "all")),
        ("search a text everywhere", 150e6,
         ("search", "-q", setting.image, "--count", "--text", text)),
    ):  # fmt: skip
        figure = compare([Job(ext4kit(*options), null)], setting.runs)[0]
        note = f"{size / figure.seconds / 1e6:,.0f} MB/s"
        found.append(Result(name, figure, "", None, None, size / speed, note))
    words.unlink()
    return found


@dataclass(frozen=True, slots=True)
class Yield:
    """What a recovery brought back.

    Attributes:
        outputs: files written.
        right: deleted files of which one output has the exact bytes.
    """

    outputs: int
    right: int


def _judge(out: Path, bench: Bench) -> Yield:
    wanted = set(bench.deleted.values())
    hashes = [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name not in RECORDS
    ]
    return Yield(len(hashes), len(wanted & set(hashes)))


@dataclass(slots=True)
class Attic:
    """Where the outputs of earlier runs go until all is measured.

    ext4 does not reuse the inodes of files deleted in the last minutes, and searching past
    thousands of them makes creating files several times as slow.
    """

    folder: Path
    kept: int = 0

    def take(self, out: Path) -> None:
        """Move an output away, if there is one."""
        if out.exists():
            self.folder.mkdir(exist_ok=True)
            self.kept += 1
            out.rename(self.folder / str(self.kept))


def recovering(setting: Setting) -> list[Result]:
    """Bringing deleted files back: seconds a file that was written."""
    attic = Attic(setting.work / "attic")
    try:
        return [_recovering(setting, attic)]
    finally:
        shutil.rmtree(attic.folder, ignore_errors=True)


def _recovering(setting: Setting, attic: Attic) -> Result:
    out = setting.work / "recovered"
    command = ext4kit("recover", "-q", setting.image, "-o", str(out))
    job = Job(command, prepare=partial(attic.take, out), writes=setting.work)
    figure = compare([job], setting.runs)[0]
    gain = _judge(out, setting.bench)
    attic.take(out)
    note = f"{gain.right:,} of {len(setting.bench.deleted):,} right in {gain.outputs:,} outputs"
    name, target = "recover, a file", 1.0
    if not _peer("ext4magic"):
        return Result(name, figure, "ext4magic", None, None, target, f"{note}; peer missing")
    other, got, how = _ext4magic(setting, attic)
    note += f"; ext4magic {how}: {got.right:,} right in {got.outputs:,}"
    ratio = None
    if gain.outputs and got.outputs and other.code >= 0:
        ratio = other.seconds / got.outputs / (figure.seconds / gain.outputs)
    return Result(name, figure, "ext4magic", other, ratio, target, note)


def _ext4magic(setting: Setting, attic: Attic) -> tuple[Measured, Yield, str]:
    """The whole image; where that ends in a crash, a folder of it that it can do."""
    whole = _ext4magic_once(setting, attic, [])
    if whole[0].code >= 0:
        return *whole, "-R"
    return *_ext4magic_once(setting, attic, ["-f", "tree-00"]), "crashed, so -R -f tree-00"


def _ext4magic_once(setting: Setting, attic: Attic, extra: list[str]) -> tuple[Measured, Yield]:
    """One run and what it brought back; it is too slow for several."""
    out = setting.work / "recovered-by-peer"
    attic.take(out)
    command = ["ext4magic", setting.image, "-R", *extra, "-d", str(out)]
    once = run_once(Job(command, writes=setting.work))
    got = _judge(out, setting.bench)
    attic.take(out)
    return Measured(once.seconds, once.cpu, once.peak, once.code, (once.seconds,)), got


def checking(setting: Setting) -> list[Result]:
    """Every checksum and cross-reference, against the reference checker without repairs."""
    ours, theirs = Job(ext4kit("verify", setting.image)), Job(["e2fsck", "-fn", setting.image])
    return [_result(setting, "verify", ours, "e2fsck", theirs, 1.0)]


PARTS = {
    "start": starting,
    "ls": listing,
    "cat": reading,
    "recover": recovering,
    "verify": checking,
    "search": searching,
}


def table(results: Sequence[Result]) -> str:
    """The results for people to read."""
    head = ("task", "ext4kit", "memory", "peer", "its time", "memory", "ratio", "target", "", "")
    rows = [head, *(_row(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _row(result: Result) -> tuple[str, ...]:
    theirs = result.theirs
    met = {True: "met", False: "missed", None: "-"}[result.met]
    if result.ours.code != 0:
        met = f"failed ({result.ours.code})"
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    if result.ours.peak > MEMORY_LIMIT:
        met += ", memory missed"
    return (
        result.name,
        f"{result.ours.seconds:.3f} s",
        _mebibytes(result.ours),
        result.peer,
        f"{theirs.seconds:.3f} s" if theirs else "",
        _mebibytes(theirs) if theirs else "",
        ratio,
        f">= {result.target}" if result.peer else f"< {result.target} s",
        met,
        result.note,
    )


def _mebibytes(figure: Measured) -> str:
    return f"{figure.peak / MEBIBYTE:.0f} MiB"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("--work", type=Path, metavar="DIR", help="keeps the image from run to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON too")
    parser.add_argument("--runs", type=int, default=5, help="runs after the warm-up (default 5)")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="these parts alone")
    return parser.parse_args()


def _run(work: Path, chosen: argparse.Namespace) -> int:
    setting = Setting(work, chosen.runs, build(work, Shape()))
    results: list[Result] = []
    for name in chosen.only or PARTS:
        results += PARTS[name](setting)
    print(table(results))
    if chosen.json:
        records = [{**asdict(result), "met": result.met} for result in results]
        chosen.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0


def main() -> int:
    """Build the image, measure, print.

    Returns:
        The exit code: 0 also where a target is missed or nothing can be built here.
    """
    chosen = _arguments()
    if reason := missing_for_kernel():
        print(f"benchmarks skipped: {reason}")
        return 0
    if chosen.work:
        chosen.work.mkdir(parents=True, exist_ok=True)
        return _run(chosen.work, chosen)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return _run(Path(folder), chosen)


if __name__ == "__main__":
    sys.exit(main())
