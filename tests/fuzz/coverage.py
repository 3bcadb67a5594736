"""Coverage-guided damage: atheris chooses the bytes that the readers' branches depend on.

    python -m tests.fuzz.coverage [--base NAME] [options of libFuzzer, such as -max_total_time=600]

The input is a list of patches, each a structure, a place in it, a width and a value, and the
command that is run. Checksums are made to fit. Needs the extra `fuzz` (atheris).
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import atheris

import ext4kit

with atheris.instrument_imports(include=["ext4kit"]):  # what is imported here is watched
    for module in pkgutil.walk_packages(ext4kit.__path__, "ext4kit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from tests.fuzz import images
    from tests.fuzz.commands import failures
    from tests.fuzz.places import Place

WIDTHS = (1, 2, 4, 8)
COMMANDS = [
    ["info", "IMAGE", "-g"],
    ["ls", "IMAGE", "-r", "-l"],
    ["stat", "IMAGE", "/", "<8>", "/sub/holes"],
    ["deleted", "IMAGE"],
    ["journal", "audit", "IMAGE"],
    ["journal", "list", "IMAGE"],
    ["timeline", "IMAGE"],
]


class Target:
    """The image that is damaged anew for each input."""

    def __init__(self, base: str, folder: Path) -> None:
        self.folder = folder
        self.body = images.body_of(base)
        self.places: list[Place] = [one for each in self.body.places.values() for one in each]

    def __call__(self, data: bytes) -> None:
        """Run the commands on the image that the input means; raises what must not happen."""
        given = atheris.FuzzedDataProvider(data)
        image = bytearray(self.body.data)
        touched: list[Place] = []
        while given.remaining_bytes() > 4 and len(touched) < 8:
            touched.append(self._patch(image, given))
        for place in touched:
            self.body.seal(image, place)
        path = self.folder / "image"
        path.write_bytes(image)
        words = COMMANDS[given.ConsumeIntInRange(0, len(COMMANDS) - 1)]
        for failure in failures(path, [words], self.folder):
            raise AssertionError(f"{failure.arguments}: {failure.what}\n{failure.detail}")

    def _patch(self, image: bytearray, given: atheris.FuzzedDataProvider) -> Place:
        place: Place = self.places[given.ConsumeIntInRange(0, len(self.places) - 1)]
        width = WIDTHS[given.ConsumeIntInRange(0, len(WIDTHS) - 1)]
        at = place.offset + given.ConsumeIntInRange(0, place.length - width)
        value = given.ConsumeBytes(width).ljust(width, b"\0")
        image[at : at + width] = value
        return place


def main() -> None:
    """The command line: ours first, the rest is libFuzzer's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="ext4_unreplayed", choices=images.BASES)
    options, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="ext4kit-fuzz-") as name:
        atheris.Setup(
            [sys.argv[0], "-max_len=256", "-len_control=0", *rest], Target(options.base, Path(name))
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
