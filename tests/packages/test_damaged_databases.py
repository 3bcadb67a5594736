"""Damaged and hostile databases: problems, never crashes, and what is left is read."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import CorruptError, Ext4kitError, RequestError
from ext4kit.packages.against import read_outside
from ext4kit.packages.apk import read_apk
from ext4kit.packages.apt_cache import digests_in_cache
from ext4kit.packages.database import read_packages
from ext4kit.packages.dpkg import read_dpkg
from ext4kit.packages.findings import package_findings
from ext4kit.packages.owned import Package, PackageRecords, PackageSystem, absolute
from ext4kit.packages.pacman import read_pacman
from ext4kit.packages.roots import MOST_FILE, FolderRoot, FoundFile, SystemRoot
from ext4kit.packages.rpm import RpmHeader, read_rpm
from ext4kit.packages.rpm_stores import headers_in_bdb, headers_in_ndb, headers_in_sqlite
from ext4kit.problems import Problems
from ext4kit.report.packages import difference_lines, difference_records
from ext4kit.workspace import Workspace
from tests.packages.making import image_of

KEPT = Path(__file__).parent / "kept"
NDB = lzma.decompress((KEPT / "Packages.db.xz").read_bytes())


class Memory:
    """A root directory in memory; see `SystemRoot`."""

    def __init__(self, **files: bytes) -> None:
        self.problems = Problems()
        self.files = {name.encode(): data for name, data in files.items()}

    def put(self, path: bytes, data: bytes) -> Memory:
        self.files[path] = data
        return self

    def read(self, path: bytes) -> bytes | None:
        return self.files.get(path)

    def listing(self, path: bytes) -> Sequence[FoundFile]:
        start = path + b"/"
        below = [one[len(start) :] for one in self.files if one.startswith(start)]
        names = {one.partition(b"/")[0]: b"/" in one for one in below}
        return [FoundFile(name, None, is_folder) for name, is_folder in sorted(names.items())]

    def contents(
        self, path: bytes, names: Sequence[bytes], most: int = MOST_FILE
    ) -> Iterator[tuple[bytes, bytes]]:
        for name in names:
            if (data := self.read(path + b"/" + name)) is not None:
                yield name, data[:most]


def header() -> bytes:
    return next(headers_in_ndb(NDB))


def sqlite_of(*headers: bytes) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)")
        connection.executemany("INSERT INTO Packages (blob) VALUES (?)", [(h,) for h in headers])
        connection.commit()
        return bytes(connection.serialize())


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The data with some bytes changed, or cut."""
    if chance.random() < 0.2:
        return data[: chance.randrange(len(data))]
    found = bytearray(data)
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(found))
        found[at : at + 4] = chance.choice(
            [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", chance.randbytes(4)]
        )
    return bytes(found)


STORES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "ndb": headers_in_ndb,
    "bdb": headers_in_bdb,
    "sqlite": lambda data: headers_in_sqlite(data, data[:9000]),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_stores(store: str, seed: int) -> None:
    chance = random.Random(f"{store} {seed}")
    whole = {"ndb": NDB, "sqlite": sqlite_of(*[header()] * 20), "bdb": bdb_of(header())}[store]
    assert list(STORES[store](whole))[0] == header()
    for _ in range(50):
        with suppress(CorruptError):
            for one in STORES[store](damaged(whole, chance)):
                read_header(one)


def bdb_of(data: bytes) -> bytes:
    """A hash table with one header in overflow pages, by the layout of db_page.h."""
    size = 512
    count = -(-len(data) // (size - 26))
    meta = bytearray(size)
    struct.pack_into("<IIII", meta, 12, 0x061561, 9, size, 8 << 8)
    page = bytearray(size)
    page[25] = 13
    key, item = b"\x01" + struct.pack("<I", 1), b"\x03\0\0\0" + struct.pack("<II", 2, len(data))
    places = (size - len(key), size - len(key) - len(item))
    struct.pack_into("<HHBB", page, 20, 2, places[1], 0, 13)
    struct.pack_into("<HH", page, 26, *places)
    page[places[0] :] = key
    page[places[1] : places[0]] = item
    pages = [bytes(meta), bytes(page)]
    for number in range(count):
        part = data[number * (size - 26) :][: size - 26]
        following = number + 3 if number + 1 < count else 0
        head = struct.pack("<8xIIIHHBB", number + 2, 0, following, 1, len(part), 0, 7)
        pages.append((head + part).ljust(size, b"\0"))
    return b"".join(pages)


def read_header(data: bytes) -> None:
    memory = Memory().put(b"var/lib/rpm/rpmdb.sqlite", sqlite_of(data))
    records = PackageRecords()
    assert read_rpm(memory, records)
    assert len(records.packages) + memory.problems.errors >= 0


def test_a_chain_of_pages_without_end() -> None:
    data = bytearray(bdb_of(header()))
    struct.pack_into("<I", data, 3 * 512 + 16, 2)  # the second page leads back to the first
    assert [len(one) for one in headers_in_bdb(bytes(data))] == [len(header())]


def test_a_cut_chain_is_told() -> None:
    data = bytearray(bdb_of(header()))
    struct.pack_into("<I", data, 2 * 512 + 16, 0)
    with pytest.raises(CorruptError, match="cut"):
        list(headers_in_bdb(bytes(data)))


@pytest.mark.parametrize("at", range(0, 16, 4))
def test_headers_of_impossible_counts(at: int) -> None:
    whole = header()
    for value in (0xFFFFFFFF, 0x7FFFFFFF, 0x10000, 0):
        data = whole[:at] + struct.pack(">I", value) + whole[at + 4 :]
        read_header(data)


def test_damaged_headers() -> None:
    chance = random.Random(5)
    for _ in range(300):
        read_header(damaged(header(), chance))
    with pytest.raises(CorruptError):
        RpmHeader(b"short")


def test_the_rest_of_a_damaged_database_is_read() -> None:
    memory = Memory().put(b"var/lib/rpm/rpmdb.sqlite", sqlite_of(b"none", header(), header()[:50]))
    found = read_packages(memory)
    assert [one.name for one in found.packages] == ["tiny"]
    assert memory.problems.errors == 2


def test_an_sqlite_database_of_something_else() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE other (x)")
        connection.execute("CREATE VIEW Packages AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL"
                           " SELECT x + 1 FROM n) SELECT x AS hnum, x AS blob FROM n")  # fmt: skip
        data = bytes(connection.serialize())
    memory = Memory().put(b"var/lib/rpm/rpmdb.sqlite", data)
    assert not read_packages(memory).packages
    assert memory.problems.errors == 1


TEXTS: dict[Callable[[SystemRoot, PackageRecords], bool], dict[bytes, bytes]] = {
    read_dpkg: {
        b"var/lib/dpkg/status": b"Package: a\nStatus: install ok installed\nVersion: 1\n"
        b"Conffiles:\n /etc/a d41d8cd98f00b204e9800998ecf8427e obsolete\n\n",
        b"var/lib/dpkg/info/a.list": b"/.\n/usr\n/usr/a\n/etc/a\n",
        b"var/lib/dpkg/info/a.md5sums": b"d41d8cd98f00b204e9800998ecf8427e  usr/a\n",
        b"var/lib/dpkg/diversions": b"/usr/a\n/usr/b\n:\n",
        b"var/lib/dpkg/statoverride": b"root root 4755 /usr/a\n",
        b"etc/passwd": b"root:x:0:0:::\n",
    },
    read_apk: {
        b"lib/apk/db/installed": b"P:a\nV:1\nF:usr\nM:0:0:755\nR:a\na:0:0:755\n"
        b"Z:Q12jmj7l5rSw0yVb/vlWAYkK/YBwk=\n\n",
    },
    read_pacman: {
        b"var/lib/pacman/local/a-1/desc": b"%NAME%\na\n\n%VERSION%\n1\n\n%INSTALLDATE%\n17\n",
        b"var/lib/pacman/local/a-1/files": b"%FILES%\nusr/\nusr/a\n\n%BACKUP%\netc/a\tx\n",
        b"var/lib/pacman/local/a-1/mtree": gzip.compress(
            b"#mtree\n/set uid=0 gid=0 mode=644\n./usr/a size=3 type=file\n"
        ),
        b"etc/pacman.conf": b"NoExtract = usr/*\n",
    },
}


@pytest.mark.parametrize("reader", TEXTS, ids=lambda reader: reader.__name__)
def test_damaged_texts(reader: Callable[[SystemRoot, PackageRecords], bool]) -> None:
    files = TEXTS[reader]
    memory = Memory()
    memory.files = dict(files)
    records = PackageRecords()
    assert reader(memory, records) and len(records.packages) == 1 and len(records.table()) >= 2
    chance = random.Random(7)
    for _ in range(300):
        memory.files = dict(files)
        for name in chance.sample(sorted(files), chance.randrange(1, len(files) + 1)):
            memory.files[name] = damaged(files[name], chance)
        records = PackageRecords()
        reader(memory, records)
        records.table()


def test_a_list_that_unpacks_to_much_more(tmp_path: Path) -> None:
    memory = Memory()
    memory.files = {**TEXTS[read_pacman]}
    memory.files[b"var/lib/pacman/local/a-1/mtree"] = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    found = read_packages(memory)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    assert len(found.packages) == 1 and memory.problems.errors == 1


def test_too_many_packages_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ext4kit.packages.owned.MOST_PACKAGES", 5)
    memory = Memory().put(b"lib/apk/db/installed", b"P:a\nF:x\n\n" * 50)
    found = read_packages(memory)
    assert len(found.packages) == 5 and memory.problems.errors == 1
    monkeypatch.setattr("ext4kit.packages.owned.MOST_PATHS", 2)
    with pytest.raises(RequestError):
        PackageRecords().add(Package(PackageSystem.APK, "a", "1"), [None] * 3)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (b"/.", b""), (b"/", b""), (b"usr/bin", b"/usr/bin"), (b"./usr//bin/", b"/usr/bin"),
        (b"/usr/../etc", b""), (b"/a\0b", b""), (b"/" + b"x/" * 4000, b""), (b"/...", b"/..."),
        (b"/.hidden", b"/.hidden"), (b"/a/.b", b"/a/.b"),
    ],
)  # fmt: skip
def test_paths_of_lists(listed: bytes, expected: bytes) -> None:
    assert absolute(listed) == expected


def test_damaged_archives_of_apt() -> None:
    chance = random.Random(3)
    whole = (
        b"!<arch>\n" + b"control.tar.xz".ljust(48) + b"100       `\n" + lzma.compress(b"x" * 999)
    )
    for _ in range(300):
        name = b"var/cache/apt/archives/a_1_all.deb"
        assert list(digests_in_cache(Memory().put(name, damaged(whole, chance)))) == []


def test_a_reference_that_leads_out_of_its_root(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"P:outside\n\n")
    root = tmp_path / "root"
    (root / "lib/apk/db").mkdir(parents=True)
    (root / "lib/apk/db/installed").symlink_to("../../../../secret")
    assert FolderRoot(root, Problems()).read(b"lib/apk/db/installed") is None
    with pytest.raises(RequestError):
        read_outside(root, Problems())
    (root / "secret").write_bytes(b"P:inside\n\n")
    (root / "lib/apk/db/installed").unlink()
    (root / "lib/apk/db/installed").symlink_to("/secret")
    assert [one.name for one in read_outside(root, Problems()).packages] == ["inside"]


@pytest.mark.heavy
@pytest.mark.parametrize("system", ["dpkg", "rpm", "pacman"])
def test_damaged_images(request: pytest.FixtureRequest, tmp_path: Path, system: str) -> None:
    """Each damaged image ends with a result, or with an error of the program's own."""
    root = request.getfixturevalue(f"{system}_root")
    whole = image_of(root, tmp_path / "image", has_journal=True).read_bytes()
    used = [at for at in range(0, len(whole), 4096) if any(whole[at : at + 4096])]
    for seed in range(12):
        chance, data = random.Random(f"{system} {seed}"), bytearray(whole)
        for _ in range(chance.randrange(1, 30)):
            at = chance.choice(used) + chance.randrange(4092)
            data[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), chance.randbytes(4), b"/../"])
        (tmp_path / "damaged").write_bytes(data)
        with suppress(Ext4kitError), library.open(tmp_path / "damaged") as opened:
            found = package_findings(Workspace(opened.filesystem()))
            assert list(difference_lines(found, True, "image"))
            assert all(json.dumps(one) for one in difference_records(found, True))
