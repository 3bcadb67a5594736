"""Keep goldens anew, or print what another checkout says otherwise of images than this one."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sample_images import packed_names, unpack
from tests.environment import ROOT
from tests.goldens import collect
from tests.goldens.results import KEPT, Results, differences, results_of, to_text


def main() -> int:
    """Write, or compare; 1 where two checkouts differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", action="store_true", help="keep what comes of the samples")
    task.add_argument("--compare", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("images", nargs="*", type=Path, metavar="IMAGE", help="to compare on")
    options = parser.parse_args()
    if options.write == bool(options.images):
        parser.error("--compare needs images, --write takes none")
    if options.write:
        return _write()
    differ = 0
    for image in options.images:
        for line in compare(options.compare, image):
            print(f"{image}: {line}", flush=True)
            differ += 1
    print(f"{len(options.images)} images, {differ} differences")
    return int(differ > 0)


def _write() -> int:
    for golden in KEPT.iterdir():
        golden.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for name in packed_names():
            results = results_of(collect.collect(unpack(name, Path(folder)).image))
            (KEPT / f"{name}.txt").write_text(to_text(results), encoding="utf-8")
    return 0


def compare(old: Path, image: Path) -> Iterator[str]:
    """What a checkout says otherwise of an image than this one, a line each."""
    try:
        yield from differences(_results(old.resolve(), image), _results(ROOT, image))
    except subprocess.CalledProcessError as error:
        yield f"{' '.join(error.cmd)}: ended with {error.returncode}"


def _results(checkout: Path, image: Path) -> Results:
    """Results of a checkout's ext4kit, run by its own Python where it has one.

    Raises:
        subprocess.CalledProcessError: they could not be collected.
    """
    own = checkout / ".venv/bin/python"
    python = str(own) if own.exists() else sys.executable
    command = [python, "-P", collect.__file__, str(checkout), str(image.resolve())]
    env = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
    return results_of(json.loads(line) for line in done.stdout.splitlines())


if __name__ == "__main__":
    sys.exit(main())
