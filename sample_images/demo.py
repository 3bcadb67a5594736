"""The demonstration on an E01: its hashes, what was deleted on it, and the files brought back.

Every step is the command line itself; at the end the recovered files are compared with the
SHA-256 sums that the recipe recorded before it deleted them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from sample_images.recipes.packing import ACQUIRED, acquired, unpack_truth
from sample_images.recipes.score import read_records
from sample_images.recipes.truth import Truth, load, path_of


def _run(*arguments: str) -> None:
    print(f"\n$ ext4kit {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "ext4kit", *arguments], check=True)


def _wrong(truth: Truth, out: Path) -> list[bytes]:
    """Paths that the recipe says can be had and that did not come back as they were."""
    back = {(path_of(record), record["sha256"]) for record in read_records(out)}
    wanted = [file for file in truth.files if file.could_be_had]
    print(f"\n{len(wanted)} files could be had by the recipe's own record.")
    return [file.path for file in wanted if (file.path, file.sha256) not in back]


def main() -> int:
    """Run the demonstration; 1 when a file did not come back."""
    with tempfile.TemporaryDirectory(prefix="ext4kit-demo-") as folder:
        image, out = str(acquired()), str(Path(folder) / "recovered")
        _run("hash", image, "--verify")
        _run("volumes", image)
        _run("deleted", image)
        _run("recover", image, "-o", out, "--verify-evidence")
        wrong = _wrong(load(unpack_truth(ACQUIRED, Path(folder))), Path(out))
    for path in wrong:
        print(f"NOT as it was: {path!r}")
    print("All of them came back with their paths, bit for bit." if not wrong else "Not all.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
