"""How long lists of known files of a million rows take to open, by format.

python -m benchmarks.known_lists
"""

from __future__ import annotations

import csv
import io
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from ext4kit.known.opening import open_list

ROWS = 1_000_000
RUNS = 3
_FILE = """CREATE TABLE FILE (sha256, sha1, md5, crc32, file_name, file_size, package_id,
PRIMARY KEY (sha256, sha1, md5, crc32, file_name, file_size, package_id))"""


def _rows() -> Iterator[tuple[str, int]]:
    """(digits of a SHA-256, number of the file) of each row."""
    chance = random.Random(1)
    return ((f"{chance.getrandbits(256):064x}", number) for number in range(ROWS))


def _nsrl(digits: str, number: int) -> str:
    held = io.StringIO()
    row = (digits[:40].upper(), digits[:32].upper(), f"file, {number}.dll", number * 7 % 500_000)
    csv.writer(held, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
    return held.getvalue()


_HASHDEEP = "%%%% HASHDEEP-1.0\n%%%% size,md5,sha256,filename\n"


def _write(folder: Path) -> None:
    texts: dict[str, tuple[str, Callable[[str, int], str]]] = {
        "md5": ("", lambda digits, _: f"{digits[:32]}\n"),
        "sha256sum": ("", lambda digits, at: f"{digits}  ./usr/share/doc/a/file {at}.txt\n"),
        "md5sum --tag": ("", lambda digits, at: f"MD5 (usr/share/{at}.txt) = {digits[:32]}\n"),
        "NSRL CSV": ('"SHA-1","MD5","FileName","FileSize"\n', _nsrl),
        "hashdeep": (_HASHDEEP, lambda d, at: f"{at},{d[:32]},{d},/usr/share/doc/{at}.txt\n"),
    }
    for name, (head, line) in texts.items():
        with (folder / name).open("w") as stream:
            stream.write(head)
            stream.writelines(line(*row) for row in _rows())
    for name, schema in (
        ("RDS 3", _FILE),
        ("SQLite without index", _FILE.split(",\nPRIM")[0] + ")"),
    ):
        connection = sqlite3.connect(folder / name)
        connection.execute(schema)
        rows = ((d.upper(), d[:40], d[:32], d[:8], f"{at}.dll", at, 1) for d, at in _rows())
        connection.executemany("INSERT INTO FILE VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
        connection.close()


def main() -> None:
    """Print the best of some runs: seconds of the processor."""
    with TemporaryDirectory() as folder:
        _write(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            best = float("inf")
            for _ in range(RUNS):
                start = time.process_time()
                open_list(path)
                best = min(best, time.process_time() - start)
            size = path.stat().st_size / 1e6
            print(f"{path.name:<22}{size:7.1f} MB {best:7.3f} s")


if __name__ == "__main__":
    main()
