"""How long the database of a case of many images takes to build, and each query to answer.

python -m benchmarks.case_database --images 50 --rows 1000000 --folder FOLDER

The volumes are made: 70 % of the files are those of packages, the same on all images; names and
contents repeat; 60 % belong to root, 5 % are deleted. Each query is a process of its own, as
`ext4kit case query` is. With --parquet, the same questions are also put to DuckDB over Parquet
files, if DuckDB and pandas are installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ext4kit.cases.database import CaseDatabase, VolumeInCase

LIMIT = 1000
NOW = 1_750_000_000  # seconds; the newest time in the images
_DAY = 86_400
_EVENTS = 5  # files for each event
_SIGNS = 500
SINCE, UNTIL = (NOW - 3 * _DAY) * 10**9, (NOW - 2 * _DAY) * 10**9
ASKED: tuple[tuple[str, dict[str, str | int]], ...] = (
    ("images", {}),
    ("shared_files", {"images": 2}),
    ("shared_files", {"images": 2, "most_images": 5}),
    ("files_by_hash", {"sha256": hashlib.sha256(b"1").hexdigest()}),
    ("deleted_and_live", {}),
    ("deleted_and_live", {"image": "image-2"}),
    ("activity", {"since": SINCE, "until": UNTIL}),
    ("activity", {"since": SINCE, "until": UNTIL, "image": "image-2"}),
    ("activity_by_hour", {"since": SINCE, "until": UNTIL}),
    ("files_by_owner", {"uid": 0}),
    ("files_by_owner", {"uid": 1007}),
    ("files_by_owner", {"uid": 0, "image": "image-2"}),
    ("files_by_owner", {"uid": 1007, "image": "image-2"}),
    ("owners", {}),
    ("names", {"name": "*-4711*"}),
    ("names", {"name": "*.php"}),
    ("names", {"name": "passwd"}),
    ("files_by_name", {"name": "*-4711*"}),
    ("files_by_name", {"name": "passwd"}),
    ("shared_signs", {}),
    ("not_read", {}),
)

# Kinds of files by the last digit of their number: 0 to 6 of packages; 7 of this image alone, with
# their own names; 8 with contents that every third image has; 9 with names that many images have.
_FILES = """WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT :rows)
INSERT INTO files (id, volume_id, state, grade, path, name, path_known, type, mode, permissions,
                   inode, generation, uid, gid, size, links_count, atime, mtime, ctime, crtime,
                   dtime, deleted_at, sha256)
SELECT n, 1, iif(n % 200 = 9, 'deleted', 'live'), iif(n % 200 = 9, 'intact', NULL),
       '/usr/share/package-' || (n % 3000) || '/module/file-' || (n % 200000) || '.so',
       iif(n = 4, 'passwd', 'file-' || (n % 200000) || '.so'), 1,
       iif(n % 12 = 0, 'directory', 'file'), 33188, '-rw-r--r--',
       n + 11, n * 2654435761 % 4294967296,
       iif(n * 31 % 100 < 60, 0, 1000 + n % 30), 0, n * 48271 % 100000, 1,
       (:now - n % 8640000) * 1000000000 + n, (:now - 60000000 + n % 300000) * 1000000000,
       (:now - 9000000 + n % 200000) * 1000000000 + n,
       (:now - 9000000 + n % 200000) * 1000000000 + n,
       iif(n % 200 = 9, (:now - n % 864000) * 1000000000, NULL),
       iif(n % 200 = 9, (:now - n % 864000) * 1000000000, NULL),
       iif(n % 12 = 0, NULL, digest(n - n % 4 / 3))
FROM numbers"""
_OWN = """UPDATE files SET
    name = {name},
    path = '/home/user-' || (id % 30) || '/project-' || (id % 700) || '/' || {name},
    state = iif((id / 10 + :image) % 20 < 3, 'deleted', 'live'),
    dtime = iif((id / 10 + :image) % 20 < 3, (:now - id % 864000) * 1000000000, NULL),
    mtime = (:now - (id * 48271 + :image * 7919) % 63072000) * 1000000000 + id,
    sha256 = iif(sha256 IS NULL, NULL,
                 digest(id + 100000000 * iif(id % 10 = 8, :image % 3, :image)))
    WHERE id % 10 > 6"""
_OWN_NAME = """iif(id % 10 = 7, 'shell-' || :image || '-' || id || '.php',
                       'page-' || (id % 5000) || '.html')"""
_OTHERS = """
INSERT INTO events (id, volume_id, time, transaction_id, exact, kind, inode, generation, uid, path)
    SELECT id / {events}, 1, ({now} - id % 432000) * 1000000000, id / 50, 1,
           iif(id % 3, 'content', 'created'), inode, generation, uid, path
    FROM files WHERE id % {events} = 0;
INSERT INTO signs (id, volume_id, code, weight, title, reason, path, seen)
    SELECT id, 1, 'rule-' || (id % 40), 'look', 'Title', 'reason', path, '["there"]'
    FROM files WHERE id <= {signs};
INSERT INTO findings (id, volume_id, source, severity, place, meaning)
    SELECT id, 1, 'reading', 'error', 'inode ' || id, 'cannot be read' FROM files WHERE id <= 20;
"""


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def make_export(path: Path, rows: int) -> None:
    """Make the export of a volume with so many files."""
    from ext4kit.export.columns import sql_columns  # slow, and not for the processes that ask
    from ext4kit.export.database import _sql

    with closing(_connect(path)) as to:
        columns = ",\n    ".join(f"{name} {kind}" for name, kind in sql_columns().items())
        to.executescript(_sql("schema.sql").replace("-- columns of a file", columns))
        to.execute("INSERT INTO volumes VALUES (1, NULL, 0, 1, 1, 'ext4', '', '', '', '', 1)")
        to.execute("INSERT INTO meta VALUES ('hashes', 'sha256'), ('signs', 'searched')")
        to.execute(_FILES, {"rows": rows, "now": NOW})
        to.commit()
        to.executescript(_OTHERS.format(events=_EVENTS, signs=_SIGNS, now=NOW))


def change_export(path: Path, image: int) -> None:
    """Make the export that of another image."""
    with closing(_connect(path)) as to, to:
        to.execute(_OWN.format(name=_OWN_NAME), {"image": image, "now": NOW})


def _connect(path: Path) -> sqlite3.Connection:
    to = sqlite3.connect(path)
    to.execute("PRAGMA journal_mode = OFF")
    to.execute("PRAGMA synchronous = OFF")
    to.create_function("digest", 1, _digest, deterministic=True)
    return to


@contextmanager
def _timed(what: str) -> Iterator[None]:
    start, before = time.monotonic(), os.times()
    yield
    took, used = time.monotonic() - start, zip(os.times()[:4], before[:4], strict=True)
    processor = sum(after - earlier for after, earlier in used)
    print(f"{what:<60}{took:9.2f} s{processor:9.2f} s of the processor", flush=True)


def build(folder: Path, images: int, rows: int, parquet: bool) -> None:
    """Build the case database, and the Parquet files."""
    export, case = folder / "export.sqlite", folder / "case.sqlite"
    export.unlink(missing_ok=True)
    case.unlink(missing_ok=True)
    with _timed("export of one volume, made"):
        make_export(export, rows)
    for number in range(1, images + 1):
        change_export(export, number)
        volume = VolumeInCase(number, f"image-{number}", f"image-{number}", f"host-{number}")
        with _timed(f"import {number}"), CaseDatabase(case) as database:
            database.import_volume(volume, export, str(number))
        if parquet:
            with _timed(f"parquet {number}"):
                _write_parquet(folder, export, number)
    with _timed("refresh"), CaseDatabase(case) as database:
        database.refresh()
    with _timed("import of the last volume again"), CaseDatabase(case) as database:
        database.import_volume(volume, export, str(number))
    with _timed("refresh after it"), CaseDatabase(case) as database:
        database.refresh()
    print(f"case database {case.stat().st_size / 1e9:.2f} GB; {images} x {rows:,} files")


def ask(folder: Path, parquet: bool) -> None:
    """Put each question in a process of its own, twice; the second time counts."""
    for at, (name, values) in enumerate(ASKED):
        shown = " ".join([name, *(f"{key}={value}"[:14] for key, value in values.items())])
        command = [sys.executable, "-m", "benchmarks.case_database", "--one", str(at)]
        command += ["--folder", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with _timed(shown):
            subprocess.run(command, check=True)
        if parquet and name in _PARQUET:
            again = [*command, "--parquet"]
            subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
            with _timed(f"{shown}, DuckDB"):
                subprocess.run(again, check=True)


def _one(folder: Path, at: int) -> None:
    name, values = ASKED[at]
    with CaseDatabase(folder / "case.sqlite") as database:
        rows = sum(1 for _ in database.query(name, values, LIMIT).rows)
    print(f"{rows:>6} rows ", end="", flush=True)


# ------------------------------------------------------------------------------------ Parquet

_COLUMNS = "id, volume_id, state, path, name, uid, size, mtime, atime, ctime, crtime, dtime, sha256"
_PARQUET = {
    "shared_files": "SELECT count(DISTINCT volume_id) AS images, count(*), min(path), sha256"
    " FROM files WHERE sha256 IS NOT NULL GROUP BY sha256 HAVING images >= 2"
    " ORDER BY images DESC, sha256",
    "files_by_hash": "SELECT * FROM files WHERE sha256 = $sha256",
    "deleted_and_live": "SELECT d.* FROM files d WHERE d.state = 'deleted' AND EXISTS"
    " (SELECT 1 FROM files l WHERE l.sha256 = d.sha256 AND l.state = 'live'"
    " AND l.volume_id <> d.volume_id)"
    " ORDER BY volume_id, id",
    "activity": "SELECT * FROM (SELECT mtime AS time, path FROM files UNION ALL SELECT atime, path"
    " FROM files UNION ALL SELECT ctime, path FROM files UNION ALL SELECT crtime, path FROM files"
    " UNION ALL SELECT dtime, path FROM files) WHERE time BETWEEN $since AND $until ORDER BY time",
    "files_by_owner": "SELECT * FROM files WHERE uid = $uid ORDER BY volume_id, id",
    "names": "SELECT name, count(*), count(DISTINCT volume_id) FROM files WHERE name GLOB $name"
    " GROUP BY name ORDER BY name",
}


def _write_parquet(folder: Path, export: Path, number: int) -> None:
    import duckdb
    import pandas as pd

    with closing(sqlite3.connect(export)) as source:
        frame = pd.read_sql(f"SELECT {_COLUMNS} FROM files", source)
    frame["volume_id"] = number
    to = duckdb.connect()
    to.register("frame", frame)
    to.execute(f"COPY (SELECT * FROM frame) TO '{folder}/{number}.parquet' (COMPRESSION zstd)")


def _one_parquet(folder: Path, at: int) -> None:
    import duckdb

    name, values = ASKED[at]
    to = duckdb.connect()
    to.execute(f"CREATE VIEW files AS SELECT * FROM '{folder}/*.parquet'")
    sql = _PARQUET[name]
    used = {key: value for key, value in values.items() if f"${key}" in sql}
    rows = len(to.execute(f"{sql} LIMIT {LIMIT}", used).fetchall())
    print(f"{rows:>6} rows ", end="", flush=True)


def main() -> None:
    """Build and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parquet", action="store_true")
    parser.add_argument("--ask", action="store_true", help="ask only, of what is built")
    parser.add_argument("--one", type=int)
    given = parser.parse_args()
    if given.one is not None:
        (_one_parquet if given.parquet else _one)(given.folder, given.one)
        return
    os.environ["SQLITE_TMPDIR"] = str(given.folder.absolute())
    if not given.ask:
        build(given.folder, given.images, given.rows, given.parquet)
    ask(given.folder, given.parquet)


if __name__ == "__main__":
    main()
