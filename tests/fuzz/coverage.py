"""Coverage-guided damage: atheris chooses the bytes that the readers' branches depend on.

    python -m tests.fuzz.coverage --found FOLDER [--base NAME] [options of libFuzzer]

Of libFuzzer's options -max_total_time=600 is the useful one. The input chooses a base, a command
and patches, each a structure, a place in it, a width and a value. Checksums are made to fit. What
is found is written to FOLDER in the form of the other long run, once for each place in the code,
and the run goes on. Needs the extra `fuzz` (atheris).
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import pkgutil
import random
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import atheris

import ext4kit

with atheris.instrument_imports(include=["ext4kit"]):  # what is imported here is watched
    for module in pkgutil.walk_packages(ext4kit.__path__, "ext4kit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from tests.fuzz import images
    from tests.fuzz.commands import Failure, failures
    from tests.fuzz.forms import every_form
    from tests.fuzz.mutation import Patch, differences
    from tests.fuzz.places import Anatomy, Place

WIDTHS = (1, 2, 4, 8)
MOST_PATCHES = 8
MEMORY_MIB = 6144  # atheris itself keeps what it has seen
COMMANDS = every_form(random.Random("the forms"))


class Base:
    """A sound image, and the file in which it is damaged anew for each input."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.path = name, folder / name
        self.body: Anatomy = images.body_of(name)
        self.places: list[Place] = [one for each in self.body.places.values() for one in each]
        self.path.write_bytes(self.body.data)

    def damage(self, given: atheris.FuzzedDataProvider) -> list[Patch]:
        """What the rest of an input does to the image."""
        image = bytearray(self.body.data)
        touched: list[Place] = []
        while given.remaining_bytes() > 4 and len(touched) < MOST_PATCHES:
            touched.append(self._change(image, given))
        for place in touched:
            self.body.seal(image, place)
        return differences(self.body.data, image)

    def _change(self, image: bytearray, given: atheris.FuzzedDataProvider) -> Place:
        place: Place = self.places[given.ConsumeIntInRange(0, len(self.places) - 1)]
        width = WIDTHS[given.ConsumeIntInRange(0, len(WIDTHS) - 1)]
        at = place.offset + given.ConsumeIntInRange(0, max(place.length - width, 0))
        image[at : at + width] = given.ConsumeBytes(width).ljust(width, b"\0")
        return place

    def put(self, patches: list[Patch]) -> None:
        """Write patches into the file."""
        with self.path.open("r+b") as stream:
            for patch in patches:
                stream.seek(patch.offset)
                stream.write(patch.data)

    def mend(self, patches: list[Patch]) -> None:
        """Write into the file what was there before the patches."""
        sound = self.body.data
        self.put([Patch(p.offset, sound[p.offset : p.offset + len(p.data)]) for p in patches])


class Target:
    """Runs what an input means, and keeps what must not happen."""

    def __init__(self, names: list[str], folder: Path, found: Path) -> None:
        self.bases = [Base(name, folder) for name in names]
        self.folder, self.found = folder, found
        self.known: set[str] = set()

    def __call__(self, data: bytes) -> None:
        """One input."""
        given = atheris.FuzzedDataProvider(data)
        base = self.bases[given.ConsumeIntInRange(0, len(self.bases) - 1)]
        words = COMMANDS[given.ConsumeIntInRange(0, len(COMMANDS) - 1)]
        patches = base.damage(given)
        base.put(patches)
        for failure in failures(base.path, [words], self.folder):
            self._keep(base, patches, failure)
        base.mend(patches)

    def _keep(self, base: Base, patches: list[Patch], failure: Failure) -> None:
        """A new kind of failure as JSON; known ones do not count again."""
        kind = _kind(failure)
        if kind in self.known:
            return
        self.known.add(kind)
        print(base.name, failure.arguments, failure.what, flush=True)
        where = [[patch.offset, patch.data.hex()] for patch in patches]
        finding = {"base": base.name, "patches": where, **asdict(failure)}
        path = self.found / f"{base.name}-coverage-{os.getpid()}-{len(self.known)}.json"
        path.write_text(json.dumps(finding, indent=1))


def _kind(failure: Failure) -> str:
    """What went wrong and the line of ours where it did."""
    lines = re.findall(r'File ".*?(ext4kit/[^"]+)", line (\d+)', failure.detail)
    return f"{failure.what.split(':')[0]} {lines[-1] if lines else failure.arguments}"


def run(target: Target, options: list[str]) -> None:
    """Let libFuzzer work; it ends the process, so this is for a child."""
    limits = ["-max_len=256", "-len_control=0", f"-rss_limit_mb={MEMORY_MIB}"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={target.found}/", *options], target)
    atheris.Fuzz()


def main() -> None:
    """The command line: ours first, the rest is libFuzzer's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", action="append", default=[], choices=images.BASES)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="folder")
    options, rest = parser.parse_known_args()
    options.found.mkdir(parents=True, exist_ok=True)
    before = set(options.found.iterdir())
    with tempfile.TemporaryDirectory(prefix="ext4kit-fuzz-") as name:
        target = Target(options.base or list(images.BASES), Path(name), options.found)
        fork = multiprocessing.get_context("fork")
        child = fork.Process(target=run, args=(target, rest))
        child.start()
        child.join()
    found = set(options.found.iterdir()) - before
    print(f"{len(found):,} findings")
    raise SystemExit(bool(found or child.exitcode))


if __name__ == "__main__":
    main()
