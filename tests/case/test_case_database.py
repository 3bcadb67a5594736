"""The database of a case answers what the single exports say together, and survives kills."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cases.database import TABLES, CaseDatabase, VolumeInCase
from ext4kit.cases.queries import QUERIES
from ext4kit.errors import OutputError, RequestError
from tests.case.making import tables
from tests.conftest import Cli, Images
from tests.environment import ROOT
from tests.export.conftest import HOSTILE

Record = dict[str, Any]
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_TIMES = {"mtime": "content modified", "atime": "accessed", "ctime": "metadata changed",
          "crtime": "created", "dtime": "deleted"}  # fmt: skip
_HOUR = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class Part:
    """A volume of the case: its export, and what other commands print of its image.

    Attributes:
        files, events, sightings: their records.
    """

    volume: VolumeInCase
    export: Path
    files: list[Record]
    events: list[Record]
    sightings: list[Record]


def _records(ext4kit: Cli, *words: str | Path) -> list[Record]:
    return [json.loads(line) for line in ext4kit(*words, "--json").stdout.splitlines()]


def _exported(ext4kit: Cli, image: Path, folder: Path, number: int, name: str, host: str) -> Part:
    export, lines = folder / f"{number}.sqlite", folder / f"{number}.jsonl"
    hashes = ("--hash", "sha256")
    done = ext4kit("export", image, "--db", export, "--jsonl", lines, *hashes, "-q")
    assert done.returncode == 0, done.stderr
    events = [one for one in _records(ext4kit, "timeline", image) if one["record"] == "event"]
    report = _records(ext4kit, "report", image)
    return Part(
        VolumeInCase(number, name, f"{name}?volume={number}", host, f"uuid-{number}", "label"),
        export,
        [json.loads(line) for line in lines.read_text().splitlines()],
        events,
        [one for one in report if one["record"] == "sighting"],
    )


@pytest.fixture(scope="module")
def parts(unpacked: Images, ext4kit: Cli, tmp_path_factory: pytest.TempPathFactory) -> list[Part]:
    """Five volumes on four images; what was deleted on one is live, and twice, on another."""
    folder = tmp_path_factory.mktemp("case")
    removed = unpacked("rm_rf_tree").image
    done = ext4kit("recover", removed, "-o", folder / "recovered", "-q")
    assert done.returncode == 0, done.stderr
    root = os.fsencode(folder / "recovered/files")
    for number, name in enumerate(HOSTILE):
        Path(os.fsdecode(root + b"/" + name)).write_bytes(b"x" * number)
    server = folder / "server.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", os.fsdecode(root), str(server), "32M"]
    subprocess.run(command, check=True, capture_output=True)
    images = (
        (removed, "web.img", "web"),
        (removed, "web later.img", "web"),
        (server, "'; DROP TABLE files; --", "db"),
        (unpacked("removed_on_5_10").image, "mail.img", ""),
        (unpacked("orphan_file").image, "mail.img", "mail"),
    )
    return [
        _exported(ext4kit, image, folder, number, name, host)
        for number, (image, name, host) in enumerate(images, 1)
    ]


def _case(path: Path, parts: Iterable[Part]) -> Path:
    with CaseDatabase(path) as database:
        for part in parts:
            database.import_volume(part.volume, part.export, f"job {part.volume.id}")
        database.refresh()
    return path


@pytest.fixture(scope="module")
def case(parts: list[Part], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _case(tmp_path_factory.mktemp("database") / "case.sqlite", parts)


def ask(case: Path, name: str, /, **values: str | int) -> list[Record]:
    with CaseDatabase(case) as database:
        return list(database.query(name, values).by_column())


def _all(parts: Iterable[Part]) -> Iterator[tuple[VolumeInCase, Record]]:
    """(volume, record) of each file."""
    for part in parts:
        for record in part.files:
            yield part.volume, record


def _by_content(parts: Iterable[Part]) -> dict[str, list[tuple[VolumeInCase, Record]]]:
    found = defaultdict(list)
    for volume, record in _all(parts):
        if record.get("sha256") not in (None, _EMPTY):
            found[record["sha256"]].append((volume, record))
    return found


# --------------------------------------------------------------------------------- questions


def test_every_file_of_every_export_is_in_the_case(case: Path, parts: list[Part]) -> None:
    with closing(sqlite3.connect(case)) as database:
        rows = database.execute("SELECT volume_id, state, path, inode, mtime, sha256 FROM files")
        found = Counter(rows)
        events = Counter(database.execute("SELECT volume_id, kind, inode, time FROM events"))
    assert found == Counter(
        (volume.id, one["state"], one["shown"], one["inode"], one["mtime"], one.get("sha256"))
        for volume, one in _all(parts)
    )
    assert events == Counter(
        (part.volume.id, one["kind"], one["inode"], one["commit_time_ns"])
        for part in parts
        for one in part.events
    )


def test_images_have_their_hosts_and_volumes(case: Path) -> None:
    found = {(one["image"], one["host"], one["volumes"]) for one in ask(case, "images")}
    assert found == {
        ("web.img", "web", 1), ("web later.img", "web", 1), ("'; DROP TABLE files; --", "db", 1),
        ("mail.img", "mail", 2),
    }  # fmt: skip


def test_shared_files_are_contents_on_several_images(case: Path, parts: list[Part]) -> None:
    wanted = {}
    for digest, held in _by_content(parts).items():
        images = len({volume.image for volume, _ in held})
        live = {volume.image for volume, one in held if one["state"] == "live"}
        if images > 1:
            states = Counter(one["state"] for _, one in held)
            only = live.pop() if len(live) == 1 else None
            wanted[digest] = (images, len(held), states["live"], states["deleted"], only)
    rows = ask(case, "shared_files")
    names = "images", "files", "live", "deleted", "only_live_on"
    assert {row["sha256"]: tuple(row[name] for name in names) for row in rows} == wanted != {}
    assert len(rows) == len(wanted)
    few = ask(case, "shared_files", images=3, most_images=3)
    assert {one["sha256"] for one in few} == {key for key, one in wanted.items() if one[0] == 3}
    sizes = {one["sha256"]: one["size"] for _, one in _all(parts) if one.get("sha256")}
    assert all(row["size"] == sizes[row["sha256"]] for row in rows)


def test_deleted_and_live_are_on_different_images(case: Path, parts: list[Part]) -> None:
    wanted: Counter[tuple[int, str, str]] = Counter()
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for digest, held in _by_content(parts).items():
        places[digest] = {(v.image, one["shown"]) for v, one in held if one["state"] == "live"}
        for volume, one in held:
            if one["state"] == "deleted" and {image for image, _ in places[digest]} - {
                volume.image
            }:
                wanted[volume.id, one["shown"], digest] += 1
    rows = ask(case, "deleted_and_live")
    found = Counter((row["volume_id"], row["path"], row["sha256"]) for row in rows)
    assert found == wanted and {volume for volume, *_ in wanted} >= {1, 2}
    for row in rows:
        assert (row["live_image"], row["live_path"]) in places[row["sha256"]]
        assert row["live_image"] != row["image"]
    only = ask(case, "deleted_and_live", image="web later.img")
    assert {row["volume_id"] for row in only} == {2}
    assert len(only) == sum(count for key, count in wanted.items() if key[0] == 2)


def _moments(parts: Iterable[Part]) -> Iterator[tuple[int, int, str, str | None]]:
    """(time, volume, what, inode) of all that has a time."""
    for part in parts:
        for event in part.events:
            if event["commit_time_ns"] is not None:
                yield event["commit_time_ns"], part.volume.id, event["kind"], event["inode"]
        for one in part.files:
            for column, what in _TIMES.items():
                if one.get(column) is not None:
                    yield one[column], part.volume.id, what, one["inode"]


def test_activity_of_all_images_is_in_one_list_by_time(case: Path, parts: list[Part]) -> None:
    moments = sorted(_moments(parts), key=lambda one: one[0])
    since, until = moments[len(moments) // 4][0], moments[len(moments) * 3 // 4][0]
    rows = ask(case, "activity", since=since, until=until)
    names = "time", "volume_id", "what", "inode"
    found = [tuple(row[name] for name in names) for row in rows]
    wanted = [one for one in moments if since <= one[0] < until]
    assert Counter(found) == Counter(wanted) and wanted
    times = [row["time"] for row in rows]
    assert times == sorted(times)
    assert Counter(tuple(row[name] for name in names) for row in ask(case, "activity")) == Counter(
        moments
    )
    mail = ask(case, "activity", since=since, image="mail.img")
    assert len(mail) == sum(one[0] >= since and one[1] in (4, 5) for one in moments)
    assert {row["host"] for row in mail} <= {"", "mail"}


def test_activity_is_counted_by_hour(case: Path, parts: list[Part]) -> None:
    wanted = Counter((moment // _HOUR * _HOUR, v, what) for moment, v, what, _ in _moments(parts))
    rows = ask(case, "activity_by_hour")
    found = {(row["time"], row["volume_id"], row["what"]): row["count"] for row in rows}
    assert found == wanted


def test_times_before_1970_are_in_their_hour(parts: list[Part], tmp_path: Path) -> None:
    changed = Path(shutil.copy(parts[0].export, tmp_path / "export"))
    with closing(sqlite3.connect(changed)) as export, export:
        export.execute("UPDATE files SET mtime = -1 WHERE id = 1")
    case = tmp_path / "case"
    with CaseDatabase(case) as database:
        database.import_volume(parts[0].volume, changed, "1")
    early = ask(case, "activity_by_hour", until=0)
    assert [(row["time"], row["count"]) for row in early] == [(-_HOUR, 1)]


def test_owners_and_their_files_are_those_of_all_images(case: Path, parts: list[Part]) -> None:
    wanted: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for volume, one in _all(parts):
        if one["uid"] is not None:
            wanted[one["uid"], volume.id].append(one)
    rows = ask(case, "owners")
    assert {
        (row["uid"], row["volume_id"]): (row["files"], row["deleted"], row["bytes"]) for row in rows
    } == {
        key: (
            len(some),
            sum(one["state"] == "deleted" for one in some),
            sum(one["size"] or 0 for one in some),
        )
        for key, some in wanted.items()
    }
    for uid in {uid for uid, _ in wanted}:
        found = [(row["volume_id"], row["path"]) for row in ask(case, "files_by_owner", uid=uid)]
        assert Counter(found) == Counter(
            (volume, one["shown"]) for (of, volume), some in wanted.items() if of == uid
            for one in some
        )  # fmt: skip


@pytest.mark.parametrize("glob", ["*", "*.log", "*tunnel*", "?[a-m]*", "*'*", "*\\*", "passwd"])
def test_names_are_found_by_globs(glob: str, case: Path, parts: list[Part]) -> None:
    held: dict[str, list[tuple[VolumeInCase, Record]]] = defaultdict(list)
    for volume, one in _all(parts):
        name = one["shown"].rpartition("/")[2]
        if fnmatchcase(name, glob):
            held[name].append((volume, one))
    rows = ask(case, "names", name=glob)
    assert {row["name"]: (row["images"], row["files"]) for row in rows} == {
        name: (len({volume.image for volume, _ in some}), len(some)) for name, some in held.items()
    }
    found = Counter(
        (one["volume_id"], one["path"]) for one in ask(case, "files_by_name", name=glob)
    )
    assert found == Counter((v.id, one["shown"]) for some in held.values() for v, one in some)


def test_files_are_found_by_their_hash(case: Path, parts: list[Part]) -> None:
    for digest, held in _by_content(parts).items():
        rows = ask(case, "files_by_hash", sha256=digest.upper())
        found = Counter((row["volume_id"], row["path"], row["state"]) for row in rows)
        assert found == Counter((v.id, one["shown"], one["state"]) for v, one in held)


def test_shared_signs_are_those_of_several_reports(case: Path, parts: list[Part]) -> None:
    seen: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for part in parts:
        for one in part.sightings:
            seen[one["code"], one["path"]].append(part.volume.image)
    wanted = Counter(
        (code, len(set(some)), len(some)) for (code, _), some in seen.items() if len(set(some)) > 1
    )
    rows = ask(case, "shared_signs")
    assert Counter((row["code"], row["images"], row["sightings"]) for row in rows) == wanted != {}


def test_what_was_not_read_is_told(
    parts: list[Part], ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    """A directory is overwritten: the kernel's own tools refuse its block, so the export does."""
    image = tmp_path / "damaged.img"
    shutil.copy(unpacked("rm_rf_tree").image, image)
    told = subprocess.run(
        ["debugfs", "-R", "blocks /keep", image], capture_output=True, text=True, check=True
    )
    block = int(told.stdout.split()[0])
    with image.open("r+b") as stream:
        stream.seek(block * 4096)
        stream.write(b"\xff" * 4096)
    shown = subprocess.run(["debugfs", "-R", "ls /keep", image], capture_output=True, text=True)
    assert "corrupt" in shown.stderr or "checksum" in shown.stderr
    export = tmp_path / "export"
    done = ext4kit("export", image, "--db", export, "--without", "signs", "-q")
    assert done.returncode in (0, 1), done.stderr
    case = tmp_path / "case"
    with CaseDatabase(case) as database:
        database.set_volumes([VolumeInCase(9, "lost.img", "lost.img", "backup")])
        database.import_volume(VolumeInCase(2, "a.img", "a.img"), export, "2")
        database.import_volume(parts[0].volume, parts[0].export, "1")
    rows = ask(case, "not_read")
    lost = [row["meaning"] for row in rows if row["volume_id"] == 9]
    damaged = [row["place"] for row in rows if row["volume_id"] == 2]
    assert lost == ["not imported"] and not any(row["volume_id"] == 1 for row in rows)
    assert "signs" in damaged and len(damaged) > 1


def test_hostile_names_are_data(case: Path, parts: list[Part]) -> None:
    rows = ask(case, "files_by_owner", uid=0, image="'; DROP TABLE files; --")
    exact = {row["path_bytes"] or row["path"].encode() for row in rows}
    assert {b"/" + name for name in HOSTILE} <= exact
    assert all("\x1b" not in row["path"] for row in rows)


def test_a_limit_is_kept_and_rows_come_while_they_are_read(case: Path) -> None:
    with CaseDatabase(case) as database:
        answer = database.query("activity", limit=7)
        assert len(list(answer.rows)) == 7
        assert answer.columns[:3] == ("image", "host", "time")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("nothing", {}, "no such query"),
        ("names", {}, "give name"),
        ("names", {"name": 1}, "must be of type glob"),
        ("names", {"name": "*", "x": 1}, "no parameter x"),
        ("files_by_owner", {"uid": "0"}, "must be of type integer"),
        ("files_by_owner", {"uid": 1 << 64}, "out of range"),
    ],
)
def test_bad_questions_are_one_line(
    name: str, values: dict[str, str | int], message: str, case: Path
) -> None:
    with CaseDatabase(case) as database, pytest.raises(RequestError, match=message) as raised:
        database.query(name, values)
    assert "\n" not in str(raised.value)


def test_no_question_sorts_or_scans_all_files(case: Path) -> None:
    """The plan of each query with a parameter reads files and events through an index."""
    given = {"integer": 2, "text": "a", "time": 0, "glob": "*"}
    with closing(sqlite3.connect(case)) as database:
        for query in QUERIES:
            values = {one.name: one.default or given[one.kind] for one in query.parameters}
            plan = database.execute(f"EXPLAIN QUERY PLAN {query.sql}", values).fetchall()
            steps = [row[3] for row in plan]
            assert not {"SCAN files", "SCAN f", "SCAN events", "SCAN l"} & {*steps}, query.name
            if query.name in ("activity", "deleted_and_live", "files_by_owner"):
                assert not [step for step in steps if "TEMP B-TREE" in step], steps


# ----------------------------------------------------------------------------------- imports


def test_the_columns_are_those_of_the_export(case: Path, parts: list[Part]) -> None:
    """A new column of the export needs a new version of the case database."""
    with closing(sqlite3.connect(case)) as mine, closing(sqlite3.connect(parts[0].export)) as its:
        for table in TABLES:
            sql = f"SELECT name, type, \"notnull\" FROM pragma_table_info('{table}')"  # noqa: S608
            assert mine.execute(sql).fetchall() == its.execute(sql).fetchall(), table


def test_the_order_of_imports_does_not_matter(
    case: Path, parts: list[Part], tmp_path: Path
) -> None:
    orders = list(permutations(parts))
    for number, order in enumerate(random.Random(1).sample(orders, 4)):
        assert tables(_case(tmp_path / f"{number}", order)) == tables(case)


def test_refreshes_between_imports_do_not_matter(
    case: Path, parts: list[Part], tmp_path: Path
) -> None:
    for part in reversed(parts):
        _case(tmp_path / "case", [part])
    assert tables(tmp_path / "case") == tables(case)


def test_to_import_again_changes_nothing(case: Path, parts: list[Part], tmp_path: Path) -> None:
    again = _case(tmp_path / "case", [*parts, *parts])
    assert tables(again) == tables(case)
    with CaseDatabase(again) as database:
        assert not database.refresh()
        assert database.imports() == {number: f"job {number}" for number in range(1, 6)}


def test_two_runs_of_the_same_evidence_are_alike(
    parts: list[Part], unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    time.sleep(0.01)
    image = unpacked("rm_rf_tree").image
    done = ext4kit("export", image, "--db", tmp_path / "b", "--hash", "sha256", "-q")
    assert done.returncode == 0, done.stderr
    found = []
    for number, export in enumerate([parts[0].export, tmp_path / "b"]):
        with CaseDatabase(tmp_path / f"case {number}") as database:
            database.import_volume(parts[0].volume, export, "job")
            database.refresh()
        found.append(tables(tmp_path / f"case {number}"))
    assert found[0] == found[1]


def test_another_content_replaces_the_first(case: Path, parts: list[Part], tmp_path: Path) -> None:
    """Volume 3 is first imported with the rows of volume 4, which has more of them."""
    other = tmp_path / "case"
    with CaseDatabase(other) as database:
        database.import_volume(parts[2].volume, parts[3].export, "wrong")
    assert tables(_case(other, parts)) == tables(case)


def test_stale_tables_are_not_read(case: Path, parts: list[Part], tmp_path: Path) -> None:
    mine = Path(shutil.copy(case, tmp_path / "case"))
    with CaseDatabase(mine) as database:
        database.import_volume(parts[0].volume, parts[0].export, "again")
        assert not database.is_fresh
        with pytest.raises(RequestError, match="since the last refresh"):
            database.query("shared_files")
        assert list(database.query("files_by_owner", {"uid": 0}, 1).rows)


def test_a_volume_that_changes_its_image_is_counted_there(
    case: Path, parts: list[Part], tmp_path: Path
) -> None:
    mine = Path(shutil.copy(case, tmp_path / "case"))
    with CaseDatabase(mine) as database:
        database.set_volumes([part.volume for part in parts])
        assert database.is_fresh
        database.set_volumes([replace(parts[1].volume, image="web.img")])
        assert not database.is_fresh
        database.refresh()
        database.set_volumes([parts[1].volume])
        database.refresh()
    assert tables(mine) == tables(case)


# ----------------------------------------------------------------------------- refused files


def _truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    """All pages but the first are noise, so that its schema can still be read."""
    with path.open("r+b") as stream:
        size = path.stat().st_size
        stream.seek(4096 * 20)
        stream.write(random.Random(1).randbytes(size - 4096 * 20))


def _foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT)")


def _views_in_place(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("ALTER TABLE signs RENAME TO others")
        other.execute("CREATE VIEW signs AS SELECT * FROM others")


def _without_column(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DROP TABLE events")
        other.execute("CREATE TABLE events (id INTEGER PRIMARY KEY)")
        other.execute("INSERT INTO events VALUES (1)")


def _negative_ids(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE signs SET id = -id")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA user_version = 3")


def _text(path: Path) -> None:
    path.write_text("no database\n" * 1000)


@pytest.mark.parametrize(
    "damage",
    [_truncated, _overwritten, _foreign, _views_in_place, _without_column, _negative_ids, _newer,
     _text, Path.unlink],
)  # fmt: skip
def test_a_bad_export_is_one_error_and_changes_nothing(
    damage: Callable[[Path], None], case: Path, parts: list[Part], tmp_path: Path
) -> None:
    mine, export = Path(shutil.copy(case, tmp_path / "case")), tmp_path / "bad export"
    shutil.copy(parts[0].export, export)
    damage(export)
    before = export.read_bytes() if export.exists() else b""
    with CaseDatabase(mine) as database:
        with pytest.raises(RequestError, match="bad export: ") as raised:
            database.import_volume(parts[2].volume, export, "bad")
        assert "\n" not in str(raised.value)
        assert database.is_fresh
        database.import_volume(parts[2].volume, parts[2].export, "job 3")  # it goes on
        database.refresh()
    assert tables(mine) == tables(case)
    assert (export.read_bytes() if export.exists() else b"") == before


def test_an_export_that_is_still_written_to_is_not_changed(
    parts: list[Part], tmp_path: Path
) -> None:
    export = Path(shutil.copy(parts[0].export, tmp_path / "export"))
    before = export.read_bytes()
    export.chmod(0o444)
    with CaseDatabase(tmp_path / "case") as database:
        database.import_volume(parts[0].volume, export, "1")
    assert export.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"export", "case"}


def test_a_newer_case_is_refused(case: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copy(case, tmp_path / "case"))
    with closing(sqlite3.connect(mine)) as database, database:
        database.execute("PRAGMA user_version = 99")
    before = mine.read_bytes()
    with pytest.raises(RequestError, match="version 99 .* use a newer one") as raised:
        CaseDatabase(mine)
    assert "\n" not in str(raised.value) and mine.read_bytes() == before


def test_files_that_are_no_case_are_refused(parts: list[Part], tmp_path: Path) -> None:
    export = Path(shutil.copy(parts[0].export, tmp_path / "export"))
    text = tmp_path / "text"
    text.write_text("not a database, but long enough for its first bytes to be read\n" * 20)
    for path, error in ((export, RequestError), (text, OutputError), (tmp_path, OutputError)):
        with pytest.raises(error, match=path.name):
            CaseDatabase(path)
    with pytest.raises(RequestError, match="ids are"), CaseDatabase(tmp_path / "case") as database:
        database.import_volume(VolumeInCase(0, "a", "a"), parts[0].export, "1")


_IMPORT = """
import sys
from pathlib import Path
from ext4kit.cases.database import CaseDatabase, VolumeInCase
path, export = map(Path, sys.argv[1:])
with CaseDatabase(path) as database:
    print("begun", flush=True)
    database.import_volume(VolumeInCase(7, "new.img", "new.img"), export, "7")
"""


def test_a_writer_waits_for_a_reader(case: Path, parts: list[Part], tmp_path: Path) -> None:
    mine = Path(shutil.copy(case, tmp_path / "case"))
    reader = sqlite3.connect(mine)
    cursor = reader.execute("SELECT * FROM files")
    cursor.fetchone()
    command = [sys.executable, "-c", _IMPORT, str(mine), str(parts[0].export)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        assert process.poll() is None
        cursor.close()
        reader.close()
        assert process.wait(60) == 0
    assert len(ask(mine, "files_by_owner", uid=0, image="new.img")) > 0


# -------------------------------------------------------------------------------------- kills


def _kill_imports(case: Path, parts: Sequence[Part], folder: Path, times: int, seed: int) -> int:
    """Kill imports at random moments, then import again; how many kills hit a transaction."""
    draw, wanted, hit = random.Random(seed), tables(case), 0
    start = time.monotonic()
    _case(folder / "once", parts)
    whole = time.monotonic() - start
    mine = folder / "case"
    for _ in range(times):
        process = os.fork()
        if not process:
            try:
                _case(mine, parts)
            finally:
                os._exit(0)
        time.sleep(draw.uniform(0, whole))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        hit += mine.with_name("case-journal").exists()
        _is_whole(mine, wanted)
        if draw.random() < 0.3:
            mine.unlink(missing_ok=True)
            mine.with_name("case-journal").unlink(missing_ok=True)
    assert tables(_case(mine, parts)) == wanted
    return hit


def _is_whole(mine: Path, wanted: dict[str, list[tuple[object, ...]]]) -> None:
    """Each volume of a killed run is there as a whole or not at all."""
    with CaseDatabase(mine) as database:
        done = set(database.imports())
    found = tables(mine)
    for table in (*TABLES, "imports", "owners", "hours"):
        at = {"owners": 1, "hours": 1, "imports": 0}.get(table, 1)
        assert found[table] == [row for row in wanted[table] if row[at] in done], table


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_import_leaves_nothing(case: Path, parts: list[Part], tmp_path: Path) -> None:
    _kill_imports(case, parts, tmp_path, 10, os.getpid())  # few may end in the middle


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_many_killed_imports_leave_nothing(case: Path, parts: list[Part], tmp_path: Path) -> None:
    assert _kill_imports(case, parts, tmp_path, 100, 1) > 10


_LONG = """
import signal
import sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # as the program does
from ext4kit.cases.database import CaseDatabase, VolumeInCase
with CaseDatabase(Path(sys.argv[1])) as database:
    print("begun", flush=True)
    try:
        with database._told():
            database._run(
                "WITH RECURSIVE n AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"
            )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_an_interrupt_ends_a_long_statement(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LONG, str(tmp_path / "case")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"


# ----------------------------------------------------------------------------- other programs


def test_the_database_is_sound(case: Path) -> None:
    for check in ("integrity_check", "foreign_key_check"):
        told = subprocess.run(
            ["sqlite3", "-readonly", case, f"PRAGMA {check}"], capture_output=True, check=True
        )
        assert told.stdout in (b"ok\n", b"")


def test_pandas_reads_the_views(case: Path, parts: list[Part]) -> None:
    pandas = pytest.importorskip("pandas")
    with closing(sqlite3.connect(case)) as database:
        frame = pandas.read_sql("SELECT * FROM all_files", database)
        shared = pandas.read_sql("SELECT * FROM shared_files", database)
    assert len(frame) == sum(len(part.files) for part in parts)
    assert len(shared) == len(ask(case, "shared_files"))


def test_datasette_opens_it(case: Path, parts: list[Part]) -> None:
    pytest.importorskip("datasette")
    query = "/case.json?_shape=array&sql=select+count(*)+as+n+from+all_files"
    told = subprocess.run(
        [sys.executable, "-m", "datasette", case, "--get", query], capture_output=True, check=True
    )
    assert json.loads(told.stdout) == [{"n": sum(len(part.files) for part in parts)}]


def test_the_page_documents_every_query_and_table(case: Path) -> None:
    page = (ROOT / "docs/case-database.md").read_text()
    for query in QUERIES:
        assert f"`{query.name}`" in page, query.name
    for name in tables(case):
        assert f"`{name}`" in page, name
