"""Measure the rules: `python -m sample_images.signs --cache DIR`. Needs root and debootstrap."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from ext4kit.triage.rules.reading import own_rules
from sample_images.recipes import machine
from sample_images.signs.hacking import Scene, act, break_ins, groups, of_rules, variants
from sample_images.signs.installed import SYSTEMS, WEB, System, installed
from sample_images.signs.page import Noticed, page
from sample_images.signs.reading import Sign, signs_of
from sample_images.signs.use import used

PAGE = Path(__file__).parents[2] / "docs" / "signs.md"
Acted = tuple[list[Scene], list[Sign], dict[str, str]]


def clean(folder: Path, system: System) -> tuple[Path, list[Sign]]:
    """A system that was used for a while, and its signs."""
    image = used(system, folder)
    return image, signs_of(image)


def hacked(base: Path, work: Path, numbered: tuple[int, Sequence[Scene]]) -> Acted:
    """Some scenes as acted out on a copy of a system, its signs, and what went wrong."""
    number, scenes = numbered
    image = work / f"hacked-{number}.img"
    machine.copy_sparse(base, image)
    try:
        acted, failed = act(image, scenes)
        return acted, signs_of(image), failed
    finally:
        image.unlink()


def noticed(
    scenes: Sequence[Scene], signs: Sequence[Sign], failed: dict[str, str]
) -> list[Noticed]:
    """For each scene, whether it was noticed."""
    return [
        Noticed(scene, scene.is_noticed(signs), failed.get(scene.name, ""),
                tuple(sorted({one.code for one in signs if scene.is_noticed([one])})))
        for scene in scenes
    ]  # fmt: skip


def measured(folder: Path, jobs: int, say: Callable[[str], None]) -> str:
    """The page, with all that was measured."""
    started = time.monotonic()
    for system in SYSTEMS:  # one after another, because they share what is downloaded
        installed(system, folder)
        say(f"installed: {system.name}")
    with tempfile.TemporaryDirectory(dir=folder) as name, ProcessPoolExecutor(jobs) as pool:
        work = Path(name)
        found = dict(zip(SYSTEMS, pool.map(partial(clean, folder), SYSTEMS), strict=True))
        say(f"used: {len(found)} systems, {time.monotonic() - started:.0f} s")
        base, before = found[WEB]
        stories = list(break_ins().values())
        sets = [*groups(of_rules(own_rules())), *groups(variants()), *stories]
        results: list[Noticed] = []
        numbered = enumerate(sets)
        acted = pool.map(partial(hacked, base, work), numbered)
        for scenes, signs, failed in acted:
            new = [sign for sign in signs if sign not in before]
            results += noticed(scenes, new, failed)
        say(f"hacked: {len(sets)} copies, {time.monotonic() - started:.0f} s")
    return page({system.name: signs for system, (_, signs) in found.items()}, results)


def main() -> int:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.signs", description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("build/signs"), metavar="DIR",
                        help="folder that keeps the installed systems")  # fmt: skip
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    chosen = parser.parse_args()
    if reason := machine.missing_for_kernel():
        parser.error(reason)
    text = measured(chosen.cache.absolute(), chosen.jobs, lambda line: print(line, flush=True))
    chosen.page.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
