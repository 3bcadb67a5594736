"""Several images and all volumes give what each gives alone, and one does not stop the others."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.score import TIMED
from tests.cli.conftest import Run
from tests.partition_tables import write_table
from tests.schemas.outputs import complaint

COMMANDS = ("report", "deleted", "recover", "export", "verify", "timeline")


@pytest.fixture(scope="module")
def disk(deleted: Path, image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions: a sample with deleted files, noise, and a small tree."""
    path = tmp_path_factory.mktemp("disk") / "disk.img"
    parts = [deleted.read_bytes(), bytes(range(256)) * 4096, image.read_bytes()]
    sectors = [len(part) // 512 for part in parts]
    starts = [2048, 2048 + sectors[0], 2048 + sectors[0] + sectors[1]]
    with path.open("wb") as stream:
        stream.truncate((starts[2] + sectors[2] + 2048) * 512)
    lines = [f"start={a}, size={n}, type=83" for a, n in zip(starts, sectors, strict=True)]
    write_table(path, "label: dos\n" + "\n".join(lines) + "\n")
    with path.open("r+b") as stream:
        for start, part in zip(starts, parts, strict=True):
            stream.seek(start * 512)
            stream.write(part)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.img"
    path.write_bytes(b"nothing of ext" * 5000)
    return path


def records(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def told(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs between two runs."""
    return {key: value for key, value in record.items() if key not in ("image", "volume")}


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of each recovered file."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in TIMED)
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.mark.parametrize("command", ["deleted", "verify", "timeline"])
def test_records_say_which_volume_and_are_those_of_each_alone(
    run: Run, disk: Path, command: str
) -> None:
    words = ("--sources", "journal") if command == "deleted" else ()
    both = run(command, disk, "--all-volumes", *words, "--json")
    for number in (1, 3):
        alone = run(command, disk, "--volume", str(number), *words, "--json")
        of_it = [each for each in records(both) if each["volume"] == number]
        assert [told(each) for each in of_it] == records(alone) != []
        assert {each["image"] for each in of_it} == {str(disk)}
    assert {each["volume"] for each in records(both)} == {1, 3}
    assert b"volume 2 (unknown)" in both.stderr


@pytest.mark.parametrize("command", ["report", "deleted", "export"])
def test_records_with_image_and_volume_are_as_their_schemas_say(
    run: Run, disk: Path, tmp_path: Path, command: str
) -> None:
    writes = ("--csv", tmp_path / "files.csv") if command == "export" else ()
    done = run(command, disk, "--all-volumes", "--sources", "journal", *writes, "--json")
    found = records(done)
    assert found and all({"image", "volume"} <= each.keys() for each in found)
    assert [text for each in found if (text := complaint(each["record"], each))] == []


def test_recover_has_a_folder_each(run: Run, disk: Path, image: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("recover", disk, "--all-volumes", "--image", image, "-o", out)
    names = {"disk.img-volume-1", "disk.img-volume-3", "e.img-volume-1"}
    assert {path.name for path in out.iterdir()} == names
    alone = run("recover", disk, "--volume", "1", "-o", tmp_path / "alone")
    assert tree(out / "disk.img-volume-1") == tree(tmp_path / "alone")
    assert done.returncode == alone.returncode
    case = json.loads((out / "disk.img-volume-3/case.json").read_text())
    assert [each["index"] for each in case["volumes"] if each["worked_on"]] == [3]


def test_export_and_report_have_files_of_their_own(run: Run, disk: Path, tmp_path: Path) -> None:
    base = tmp_path / "case.sqlite"
    done = run("export", disk, "--all-volumes", "--db", base, "--sources", "journal")
    assert done.returncode in (0, 1), done.stderr
    for number in (1, 3):
        path = tmp_path / f"case-disk.img-volume-{number}.sqlite"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            assert database.execute("SELECT count(*) FROM files").fetchone()[0] > 0
    outputs = "--html", tmp_path / "page.html", "--attack-navigator", tmp_path / "layer.json"
    other = tmp_path / "other.img"
    other.write_bytes(bytes(1 << 16))
    assert run("report", disk, other, "--all-volumes", "--quick", *outputs).returncode == 3
    page = (tmp_path / "page.html").read_text("utf-8")
    (tmp_path / "page.html").unlink()
    for number in (1, 3):
        assert f'href="page-disk.img-volume-{number}.html"' in page
    assert "could not be read" in page.partition("What could not be read")[2]
    assert "other.img" in page
    for name in ("page.html", "layer.json"):
        stem, dot, end = name.partition(".")
        made = sorted(path.name for path in tmp_path.glob(f"*{dot}{end}"))
        assert made == [f"{stem}-disk.img-volume-{number}.{end}" for number in (1, 3)]


def test_one_database_has_the_rows_of_all_and_names_what_was_not_read(
    run: Run, disk: Path, bad: Path, tmp_path: Path
) -> None:
    base = tmp_path / "lab.sqlite"
    words = "--all-volumes", "--image", bad, "--db", base, "--together", "--sources", "journal"
    assert run("export", disk, *words).returncode == 3
    single = [tmp_path / f"lab-disk.img-volume-{number}.sqlite" for number in (1, 3)]
    for table in ("files", "versions", "events", "findings", "signs"):
        counts = [rows(path, f"SELECT count(*) FROM {table}")[0][0] for path in (*single, base)]
        assert counts[2] == counts[0] + counts[1], table
    known = "SELECT path, inode, size FROM files ORDER BY 1, 2, 3"
    assert rows(base, known) == sorted(rows(single[0], known) + rows(single[1], known))
    assert rows(base, "SELECT image FROM volumes") == [(str(disk),), (str(disk),), ("bad.img",)]
    assert ("bad.img", "not imported") in rows(base, "SELECT image, meaning FROM not_read")
    assert rows(base, "SELECT value FROM state WHERE key = 'is_fresh'") == [(1,)]
    assert not list(tmp_path.glob("*.incomplete"))


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(sql).fetchall()


@pytest.mark.parametrize(
    "words", [["--together"], ["--together", "--all-volumes"], ["--together", "--db", "x.sqlite"]]
)
def test_one_database_needs_a_name_and_several_volumes(
    run: Run, image: Path, words: list[str]
) -> None:
    done = run("export", image, "--csv", "-", *words)
    assert done.returncode == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_image_does_not_stop_the_others_and_its_code_stays(
    run: Run, bad: Path, image: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "out"
    writes = {"recover": ("-o", out), "export": ("--csv", out)}.get(command, ())
    quick = ("--quick",) if command == "report" else ()
    done = run(command, bad, "--image", image, *writes, *quick)
    assert done.returncode == 3
    assert done.stderr.count(b"not ext2, ext3 or ext4") == 1
    written = b"".join(path.name.encode() for path in tmp_path.rglob("*e.img-volume-1*"))
    assert b"e.img-volume-1" in written if writes else f"== {image}".encode() in done.stdout


def test_images_of_one_name_get_outputs_of_two(run: Run, image: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    same = tmp_path / "other" / image.name
    same.write_bytes(image.read_bytes())
    run("recover", image, "--image", same, "-o", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "e.img-volume-1",
        "e.img-2-volume-1",
    }


@pytest.mark.parametrize("command", ["report", "verify"])
def test_images_can_follow_each_other(run: Run, image: Path, disk: Path, command: str) -> None:
    words = ("--quick",) if command == "report" else ()
    done = run(command, image, image, *words, "-q")
    assert done.stdout.count(f"== {image}, volume 1 ==".encode()) == 2


def test_outputs_of_earlier_runs_are_seen_before_the_work(
    run: Run, bad: Path, image: Path, tmp_path: Path
) -> None:
    (tmp_path / "page-e.img-volume-4.html").touch()
    done = run("report", bad, image, "--html", tmp_path / "page.html")
    assert done.returncode == 2 and b"already exists" in done.stderr
    done = run("recover", bad, "--all-volumes", "-o", tmp_path)
    assert done.returncode == 2 and b"not empty" in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [(("--volume", "1"), b"--volume"), (("--offset", "0"), b"--offset")],
)
def test_all_volumes_and_one_exclude_each_other(
    run: Run, image: Path, words: tuple[str, ...], reason: bytes
) -> None:
    done = run("verify", image, "--all-volumes", *words)
    assert done.returncode == 2 and reason in done.stderr


def test_standard_output_holds_one_volume_alone(run: Run, disk: Path) -> None:
    done = run("export", disk, "--all-volumes", "--bodyfile", "-")
    assert done.returncode == 2 and b"standard output" in done.stderr
