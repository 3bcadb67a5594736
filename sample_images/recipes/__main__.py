"""`python -m sample_images.recipes`: list, build, describe, score, pack, acquire."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from sample_images.recipes import leftovers
from sample_images.recipes.leftovers import judge_leftovers
from sample_images.recipes.machine import MachineError, missing_for_kernel
from sample_images.recipes.making import RECIPES, build
from sample_images.recipes.packing import ACQUIRED, SAMPLES, acquire, pack
from sample_images.recipes.score import HEADER, describe, read_outputs, score
from sample_images.recipes.truth import load


def main() -> int:
    """Do one command; the exit code is 1 when the recovery is not as the truth asks."""
    options = _parser().parse_args()
    try:
        return int(options.do(options))
    except (MachineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _list(_: argparse.Namespace) -> int:
    for recipe in RECIPES.values():
        marks = " (slow)" if recipe.slow else ""
        print(f"{recipe.name:<22} {recipe.size >> 20:>5} MiB  {recipe.about}{marks}")
    return 0


def _build(options: argparse.Namespace) -> int:
    if reason := missing_for_kernel():
        raise MachineError(f"building {reason}")
    failed = False
    for name in options.names or RECIPES:
        try:
            built = build(name, options.output, options.small)
        except (MachineError, OSError) as error:
            print(f"error: {name}: {error}", file=sys.stderr, flush=True)
            failed = True
        else:
            print(describe(load(built.truth)), flush=True)
    return 3 if failed else 0


def _describe(options: argparse.Namespace) -> int:
    for path in options.truths:
        print(describe(load(path)))
    return 0


def _score(options: argparse.Namespace) -> int:
    result = score(load(options.truth), read_outputs(options.out))
    print(HEADER)
    print(result.line())
    left = judge_leftovers(options.image, load(options.truth), options.out)
    print(leftovers.HEADER)
    print(left.line())
    for state in left.missing[: options.show]:
        print(f"  not there: <{state.inode}> {state.size} bytes {state.path!r} {state.blocks[:4]}")
    for state in left.nameless[: options.show]:
        print(f"  without its name: <{state.inode}> {state.path!r}")
    for state in (result.missing + result.wrong_path)[: options.show]:
        print(f"  not so: <{state.inode}> {state.generation} {state.path!r} {state.inode_known}")
    for output in (result.intact_wrong + left.intact_wrong + left.live)[: options.show]:
        print(f"  wrong or live: {output.life} {output.grade} {output.file!r}")
    bad = result.missing or result.wrong_path or result.intact_wrong or result.live
    return int(bool(bad) or left.is_bad)


def _pack(options: argparse.Namespace) -> int:
    for name in options.names or SAMPLES:
        with tempfile.TemporaryDirectory() as scratch:
            packed = pack(name, Path(scratch))
        print(f"{packed.name}: {packed.stat().st_size:,} bytes")
        if name == ACQUIRED:
            print(f"{acquire().name}: the same as an E01")
    return 0


def _acquire(_: argparse.Namespace) -> int:
    made = acquire()
    print(f"{made.name}: {made.stat().st_size:,} bytes")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sample_images.recipes", description=__doc__)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list", help="the recipes").set_defaults(do=_list)
    made = commands.add_parser("build", help="make images and their truth; needs root")
    made.add_argument("names", nargs="*", choices=[[], *RECIPES], metavar="NAME")
    made.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    made.add_argument("--small", action="store_true", help="the small variants")
    made.set_defaults(do=_build)
    described = commands.add_parser("describe", help="one line on each truth")
    described.add_argument("truths", nargs="+", type=Path)
    described.set_defaults(do=_describe)
    scored = commands.add_parser("score", help="compare an output folder with the truth")
    scored.add_argument("image", type=Path)
    scored.add_argument("truth", type=Path)
    scored.add_argument("out", type=Path)
    scored.add_argument("--show", type=int, default=0, help="list so many of what is not right")
    scored.set_defaults(do=_score)
    packed = commands.add_parser("pack", help="rebuild the packed samples; needs root")
    packed.add_argument("names", nargs="*", choices=[[], *SAMPLES], metavar="NAME")
    packed.set_defaults(do=_pack)
    acquiring = commands.add_parser("acquire", help="rebuild the sample in E01 from the packed one")
    acquiring.set_defaults(do=_acquire)
    return parser


if __name__ == "__main__":
    sys.exit(main())
