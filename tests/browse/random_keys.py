"""Random keys on damaged images: nothing may raise an error, and the program must not end.

PYTHONPATH=. .venv/bin/python -m tests.browse.random_keys --seconds 600 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

from ext4kit.errors import Ext4kitError
from tests.browse.browsing import Driver, browsing
from tests.fuzz import images
from tests.fuzz.mutation import mutated

_KEYS = (
    *"jjjjkklllllhhggGppPP><vosnNinMLLDcT [][]", "end", "home", "tab", "escape", "escape", "enter",
    "pagedown", "pageup", "up", "down", "left", "right",
)  # fmt: skip
_ASKING = {
    "s": ("a", "file", "\\"), "S": (".", "a.*", "("), "/": ("a", "text"), "b": ("0", "99", "x"),
    "t": ("tid-3", "2h", "now", "?"), "f": ("deleted", "", "kind:pictures", "grade:x", "name:a"),
    "m": ("note",), "r": ("OUT",),
}  # fmt: skip
_SIZES = ((80, 24), (160, 50), (30, 8))


async def keys(driver: Driver, source: random.Random, end: float, out: Path) -> int:
    """Press random keys until a time; returns their number."""
    count = 0
    while time.monotonic() < end:
        count += 1
        if source.random() < 0.1 and not driver.has_list and driver.app._submit is None:
            key = source.choice(sorted(_ASKING))
            text = source.choice(_ASKING[key])
            await driver.enter(key, str(out / str(count)) if text == "OUT" else text)
        elif source.random() < 0.02:
            await driver.pilot.resize_terminal(*source.choice(_SIZES))
        else:
            await driver.press(source.choice(_KEYS))
        assert not driver.app.failures, driver.app.failures
        assert driver.app.is_running
    return count


def damaged(seed: int, folder: Path) -> Path:
    """A damaged image."""
    source = random.Random(seed)
    base = source.choice(sorted(images.BASES))
    image, body = folder / f"{base}-{seed}.img", images.body_of(base)
    image.write_bytes(body.data)
    with image.open("r+b") as stream:
        for patch in mutated(body, source):
            stream.seek(patch.offset)
            stream.write(patch.data)
    return image


async def one(seed: int, seconds: float, folder: Path) -> int:
    """Random keys on one image; -1 for one that cannot be opened."""
    image, source = damaged(seed, folder), random.Random(seed)
    try:
        async with browsing(image, source.choice(_SIZES)) as driver:
            end = time.monotonic() + seconds
            return await keys(driver, source, end, folder)
    except Ext4kitError:
        return -1
    finally:
        image.unlink()


def main() -> None:
    """Try one image after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--each", type=float, default=5, help="seconds for one image")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    end, seed = time.monotonic() + given.seconds, given.seed
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="random-keys-") as folder:
            print(f"seed {seed}: {asyncio.run(one(seed, given.each, Path(folder)))} keys")
        seed += 1


if __name__ == "__main__":
    main()
