"""Lists of known files: each format, bad lines, hostile lists."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ext4kit.errors import RequestError
from ext4kit.fields import HashName
from ext4kit.known import text
from ext4kit.known.lists import DigestList, KnownList
from ext4kit.known.opening import open_list

RDS = """CREATE TABLE FILE (sha256 VARCHAR NOT NULL, sha1 VARCHAR NOT NULL, md5 VARCHAR NOT NULL,
crc32 VARCHAR NOT NULL, file_name VARCHAR NOT NULL, file_size INTEGER NOT NULL,
package_id INTEGER NOT NULL, CONSTRAINT PK_FILE__FILE PRIMARY KEY
(sha256, sha1, md5, crc32, file_name, file_size, package_id))"""
CONTENTS = [b"content %d" % number for number in range(40)]
NAMES: tuple[HashName, ...] = ("md5", "sha1", "sha256")


def digest(content: bytes, name: str) -> str:
    return hashlib.new(name, content, usedforsecurity=False).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files with the contents, one with a name that must be escaped."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, content in enumerate(CONTENTS):
        (folder / f"file, {number}\n" if number == 3 else folder / f"file {number}").write_bytes(
            content
        )
    return folder


def written(path: Path, data: str | bytes) -> KnownList:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_list(path)


def has_all(found: KnownList, name: HashName) -> bool:
    others = [b"another content %d" % number for number in range(20)]
    has = [found.has(name, bytes.fromhex(digest(one, name))) for one in CONTENTS + others]
    return has == [True] * len(CONTENTS) + [False] * len(others)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("upper", [False, True])
def test_bare_hashes(tmp_path: Path, name: HashName, upper: bool) -> None:
    lines = "# a list\n\n" + "\r\n".join(digest(one, name) for one in CONTENTS)
    found = written(tmp_path / "list", lines.upper() if upper else lines)
    assert has_all(found, name) and found.algorithms == (name,)
    assert (found.count, found.bad) == (len(CONTENTS), 0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [[], ["--tag"], ["-b"]], ids=str)
def test_lists_of_coreutils(
    files: Path, tmp_path: Path, name: HashName, options: list[str]
) -> None:
    command = [f"{name}sum", *options, *sorted(path.name for path in files.iterdir())]
    done = subprocess.run(command, cwd=files, check=True, capture_output=True)
    found = written(tmp_path / "list", done.stdout)
    assert has_all(found, name) and not found.bad


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_lists_of_openssl(files: Path, tmp_path: Path, name: HashName) -> None:
    command = ["openssl", "dgst", f"-{name}", *sorted(path.name for path in files.iterdir())]
    done = subprocess.run(command, cwd=files, check=True, capture_output=True)
    found = written(tmp_path / "list", done.stdout)
    assert found.count == len(CONTENTS) - 1  # openssl breaks the line of the name with a line break
    assert found.bad == 2


@pytest.mark.skipif(shutil.which("hashdeep") is None, reason="hashdeep is not installed")
def test_lists_of_hashdeep(files: Path, tmp_path: Path) -> None:
    done = subprocess.run(["hashdeep", "-r", str(files)], check=True, capture_output=True)
    found = written(tmp_path / "list", done.stdout)
    assert has_all(found, "sha256") and found.algorithms == ("sha256",)
    assert found.may_have_size(len(CONTENTS[0])) and not found.may_have_size(4711)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_takes_the_strongest_hash_that_a_line_has(tmp_path: Path, separator: str) -> None:
    head = separator.join(('"FileName"', '"MD5"', '"SHA-1"', '"FileSize"'))
    lines = [
        separator.join((
            f'"a{separator} ""b"" {number}"', f'"{digest(one, "md5").upper()}"',
            "" if number % 2 else f'"{digest(one, "sha1").upper()}"', str(len(one)),
        ))
        for number, one in enumerate(CONTENTS)
    ]  # fmt: skip
    found = written(tmp_path / "list.csv", "\n".join([head, *lines]))
    assert found.algorithms == ("sha1", "md5") and not found.bad
    for number, one in enumerate(CONTENTS):
        name: HashName = "md5" if number % 2 else "sha1"
        assert found.has(name, bytes.fromhex(digest(one, name)))
    assert found.may_have_size(9) and not found.may_have_size(11)


def test_a_quotation_mark_that_is_not_closed_costs_one_line_at_most(tmp_path: Path) -> None:
    lines = [f'a{"," if number != 5 else chr(34) + ","}{digest(one, "md5")}'
             for number, one in enumerate(CONTENTS)]  # fmt: skip
    found = written(tmp_path / "list.csv", "\n".join(["name,md5", *lines]))
    assert (found.count, found.bad, found.first_bad) == (len(CONTENTS) - 1, 1, 7)


@pytest.mark.parametrize(
    "head", ["Hash Value,Name", "MD5 Hash,Name", "md5sum;Name", "Name,File MD5 hash,x"]
)
def test_names_of_columns(tmp_path: Path, head: str) -> None:
    value, separator = digest(b"x", "md5"), ";" if ";" in head else ","
    line = separator.join(("a", value, "b") if head.startswith("Name") else (value, "a"))
    found = written(tmp_path / "list.csv", f"{head}\n{line}\n")
    assert found.has("md5", bytes.fromhex(value)) and not found.bad


def test_records_and_utf16(tmp_path: Path) -> None:
    lines = [
        json.dumps({"record": "file hash", "path": 'a "sha256": "x', "size": len(one)}
                   | {name: digest(one, name) for name in NAMES})
        for one in CONTENTS
    ]  # fmt: skip
    found = written(tmp_path / "a.jsonl", "\n".join([*lines, '{"record": "problem"}']))
    assert has_all(found, "sha256") and not found.bad and not found.may_have_size(4711)
    wide = "\r\n".join(digest(one, "sha1") for one in CONTENTS).encode("utf-16")
    assert has_all(written(tmp_path / "wide", wide), "sha1")


def make_database(path: Path, schema: str, change: Callable[[str], object]) -> None:
    connection = sqlite3.connect(path)
    connection.execute(schema)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(FILE)")]
    for one in CONTENTS:
        values: dict[str, object] = {name: change(digest(one, name)) for name in NAMES}
        values |= {"file_size": len(one), "file_name": "n", "package_id": 1, "crc32": "0"}
        marks = ",".join("?" * len(columns))
        connection.execute(f"INSERT INTO FILE VALUES ({marks})", [values[name] for name in columns])
    connection.commit()
    connection.close()


@pytest.mark.parametrize("change", [str.upper, str, bytes.fromhex], ids=["upper", "lower", "bytes"])
@pytest.mark.parametrize(
    "schema", [RDS, "CREATE TABLE FILE (sha256, file_size)"], ids=["index", "none"]
)
def test_databases_of_nsrl(tmp_path: Path, schema: str, change: Callable[[str], object]) -> None:
    path = tmp_path / "rds #1?.db"
    make_database(path, schema, change)
    before = path.read_bytes()
    path.chmod(0o400)
    found = open_list(path)
    assert has_all(found, "sha256") and not found.bad
    assert isinstance(found, DigestList) is (schema != RDS)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_database_without_an_index_counts_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_database(path, "CREATE TABLE FILE (sha256, file_size)", str)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE FILE SET sha256 = 'x' WHERE rowid IN (3, 7)")
        connection.execute("UPDATE FILE SET file_size = NULL WHERE rowid = 5")
    found = open_list(path)
    assert (found.count, found.bad, found.first_bad) == (len(CONTENTS) - 2, 2, 3)
    assert found.may_have_size(4711)


def test_a_view_is_read_where_no_table_has_hashes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (h)")
        connection.executemany("INSERT INTO t VALUES (?)", [(digest(c, "md5"),) for c in CONTENTS])
        connection.execute("CREATE VIEW METADATA AS SELECT h AS md5 FROM t")
    assert has_all(open_list(path), "md5")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no MD5, SHA-1 or SHA-256"),
        (b"\n\n# nothing\n", "no MD5, SHA-1 or SHA-256"),
        (b"hello\nworld\n", "no MD5, SHA-1 or SHA-256"),
        (b"md5,name\n", "no MD5, SHA-1 or SHA-256"),
        (b"a" * (5 << 20), "no MD5, SHA-1 or SHA-256"),
        (b"a" * 65 + b"\n", "no MD5, SHA-1 or SHA-256"),
        (b"RMD160 (x) = " + b"a" * 40, "no MD5, SHA-1 or SHA-256"),
        (b"SHA3-256 (x) = " + b"a" * 64, "no MD5, SHA-1 or SHA-256"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "cannot be read as an SQLite database"),
        (b"SQLite format 3\0", "cannot be read as an SQLite database"),
    ],
)
def test_lists_without_a_hash_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(RequestError, match=says) as refused:
        written(tmp_path / "list", data)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("/dev/null")):
        with pytest.raises(RequestError):
            open_list(path)


def test_a_database_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_database(path, RDS, str)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM FILE")
    connection.commit()
    with pytest.raises(RequestError, match="is in use or was not closed"):
        open_list(path)
    connection.close()


def test_a_database_without_hashes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (name)")
    with pytest.raises(RequestError, match="no table has a column"):
        open_list(path)


def test_a_damaged_page_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make_database(path, RDS, str)
    data = bytearray(path.read_bytes())
    data[4096 + 4096 :] = b"\xa5" * (len(data) - 8192)
    found = None
    try:
        found = written(path, bytes(data))
        for one in CONTENTS:
            found.has("sha256", bytes.fromhex(digest(one, "sha256")))
    except RequestError as error:
        assert "cannot be read as an SQLite database" in str(error)
    else:
        pytest.fail("the damage was not noticed")


def test_bad_lines_are_counted_and_the_first_is_told(tmp_path: Path) -> None:
    lines = [digest(one, "md5") for one in CONTENTS]
    lines[6:6] = ["no hash", "# a comment", lines[0] + "0", "x" + lines[0]]
    found = written(tmp_path / "list", "\n".join(lines))
    assert (found.count, found.bad, found.first_bad) == (len(CONTENTS), 3, 7)


def test_pieces_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "list"
    path.write_text("".join(f"{digest(one, 'sha1')}  {'n' * 90}\n" for one in CONTENTS))
    for size in (1, 7, 64, 131, 132, 1000):
        monkeypatch.setattr(text, "_AT_ONCE", size)
        found = open_list(path)
        assert has_all(found, "sha1"), size
        assert (found.count, found.bad) == (len(CONTENTS), 0)


def test_a_line_that_is_far_too_long_costs_itself_alone(tmp_path: Path) -> None:
    value = digest(b"x", "md5")
    data = f"{value}  {'n' * 3_000_000}\n{value} a\n{digest(b'y', 'md5')} b\n"
    found = written(tmp_path / "list", data)
    assert found.has("md5", bytes.fromhex(digest(b"y", "md5")))


def test_digests_that_start_alike_are_told_apart(tmp_path: Path) -> None:
    values = [f"{'ab' * 8}{number:016x}" for number in range(1000)]
    found = written(tmp_path / "list", "\n".join(values))
    assert all(found.has("md5", bytes.fromhex(value)) for value in values)
    assert not found.has("md5", bytes.fromhex("ab" * 16))


def test_random_bytes_never_fail(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    good = digest(b"x", "sha256").encode()
    heads = (b"", b"md5,size\n", b"%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n", b"{")
    for number in range(200):
        noise = chance.choice(np.frombuffer(b'0a,"\n\\ =({}\xff\r;\t', np.uint8), 400).tobytes()
        data = heads[number % 4] + noise + b"\n" + good + b"\n"
        try:
            written(tmp_path / "list", data)
        except RequestError:
            continue
