"""What packed files hold, held against the tools that made them."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.search import file_scans, inside
from ext4kit.search.file_scans import FileSearch
from ext4kit.search.hits import Area, Hit
from ext4kit.search.patterns import regex_pattern, text_patterns
from ext4kit.search.search import SearchResult, search
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import make_file_system, mounted, run, sync
from tests.conftest import Cli

NEEDLE = b"harbour-ledger"
Place = tuple[str, str, int]  # path, inside, byte


def made(source: Path, image: Path, size: int = 64) -> Path:
    """A file system with the files of a folder."""
    with image.open("wb") as file:
        file.truncate(size << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", source, image)
    return image


def searched(
    image: Path, text: str = NEEDLE.decode(), areas: frozenset[Area] = frozenset(Area)
) -> tuple[SearchResult, list[Hit]]:
    patterns = text_patterns(text)[:1]
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        result = search(workspace, patterns, areas, scanned=FileSearch(is_inside=True))
        hits = [result.hits[at] for at in range(len(result.hits))]
        assert all(hit.around().own.decode() == text for hit in hits if not hit.is_broken)
    return result, hits


def places(data: bytes) -> Iterator[int]:
    """Where GNU grep finds the needle."""
    command = ("grep", "-aobF", NEEDLE.decode())
    found = subprocess.run(command, input=data, capture_output=True, check=False)
    return (int(line.partition(b":")[0]) for line in found.stdout.splitlines())


def inside_places(hits: list[Hit]) -> set[Place]:
    found = [
        (hit.node.path.decode(), hit.inside, hit.offset)
        for hit in hits
        if hit.node and hit.inside is not None and hit.offset is not None
    ]
    assert len(found) == len(set(found))
    return set(found)


def content(rng: random.Random) -> bytes:
    """Text and bytes that do not compress, with needles, some across the windows of a search."""
    size = rng.choice((0, 40, 5000, 70_000, 1 << 20, 3 << 20))
    data = bytearray(rng.randbytes(size // 2) + b"the same words " * (size // 30))
    for at in [rng.randrange(max(len(data), 1)) for _ in range(6)] + [(1 << 20) - 5, (2 << 20) - 1]:
        if at + len(NEEDLE) <= len(data):
            data[at : at + len(NEEDLE)] = NEEDLE
    return bytes(data)


def filled(folder: Path, seed: int) -> Path:
    """A folder of packed files, made by the usual tools."""
    rng, tree, packed = random.Random(seed), folder / "tree", folder / "packed"
    for name in ("a.bin", "sub/b.txt", "sub/deep/c with blanks", "ümlaut", "n" * 150, "empty"):
        path = tree / "top" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(rng) if name != "empty" else b"")
    packed.mkdir()
    (tree / "top/link").symlink_to("a.bin")
    for form in ("ustar", "pax", "gnu"):
        options: tuple[str, ...] = () if form != "ustar" else ("--exclude=nnn*",)
        run("tar", "-C", tree, f"--format={form}", *options, "-cf", packed / f"{form}.tar", "top")
    run("tar", "-C", tree, "-czf", packed / "t.tar.gz", "top")
    run("tar", "-C", tree, "-cJf", packed / "t.txz", "top")
    run("tar", "-C", tree, "--zstd", "-cf", packed / "t.tar.zst", "top")
    run("tar", "-C", tree, "-cjf", packed / "t.tbz2", "top")
    for name, options in (("z.zip", ()), ("stored.zip", ("-0",)), ("b.zip", ("-Z", "bzip2"))):
        command = ["zip", "-qry", *options, str(packed / name), "top"]
        subprocess.run(command, cwd=tree, check=True)
    for name, tool in (("one.gz", "gzip"), ("one.xz", "xz"), ("one.bz2", "bzip2"),
                       ("one.zst", "zstd")):  # fmt: skip
        twice = [run(tool, "-c", tree / "top/a.bin"), run(tool, "-c", tree / "top/sub/b.txt")]
        (packed / name).write_bytes(b"".join(twice))  # two streams in one file
    for name in ("t.tar.gz", "stored.zip", "pax.tar"):
        subprocess.run(["zip", "-q", f"outer-{name}.zip", name], cwd=packed, check=True)
        subprocess.run(["tar", "-cf", f"outer-{name}.tar", name], cwd=packed, check=True)
    return packed


def unpacked(path: Path, names: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes]]:
    """(names joined, bytes) of what a packed file holds, by the tools that made it."""
    suffix = path.suffix
    if suffix in (".gz", ".xz", ".bz2", ".zst", ".txz", ".tbz2"):
        tool = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".txz": "xz"}.get(suffix, "bzip2")
        name = path.stem + ".tar" * (suffix in (".txz", ".tbz2"))
        yield from members(path, names, [(name, run(tool, "-dc", path))])
    elif suffix == ".tar":
        listed = run("tar", "--quoting-style=literal", "-tf", path).decode().splitlines()
        each = [
            (name, run("tar", "-xOf", path, "--no-wildcards", name))
            for name in listed
            if not name.endswith(("/", "link"))
        ]
        yield from members(path, names, each)
    elif suffix == ".zip":
        listed = run("unzip", "-Z1", path).decode().splitlines()
        each = [(name, run("unzip", "-p", path, name)) for name in listed if name[-1] != "/"]
        yield from members(path, names, each)


def members(
    path: Path, names: tuple[str, ...], each: list[tuple[str, bytes]]
) -> Iterator[tuple[str, bytes]]:
    for name, data in each:
        yield " > ".join((*names, name)), data
        if name.endswith((".tar", ".zip", ".gz")):
            inner = path.parent / "inner" / name
            inner.parent.mkdir(exist_ok=True)
            inner.write_bytes(data)
            yield from unpacked(inner, (*names, name))
            shutil.rmtree(inner.parent, ignore_errors=True)


def expected(packed: Path) -> set[Place]:
    """The places of the needle in members, each where it is in the innermost of them."""
    found = set()
    for path in sorted(packed.iterdir()):
        for names, data in unpacked(path):
            if not names.endswith((".tar", ".zip", ".gz")):
                found |= {(f"/{path.name}", names, at) for at in places(data)}
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_the_members_have_the_hits_that_the_tools_unpack(tmp_path: Path, seed: int) -> None:
    packed = filled(tmp_path, seed)
    image = made(packed, tmp_path / "image", 256)
    result, hits = searched(image)
    ours, theirs = inside_places(hits), expected(packed)
    assert len(theirs) > 50
    assert {one for one in ours if not one[1].endswith((".tar", ".zip", ".gz"))} == theirs
    assert result.scans.tally.refused == 0
    data = image.read_bytes()
    for hit in hits:
        if hit.start is not None:
            assert data[hit.start : hit.start + hit.length] == NEEDLE
    starts = [hit.start for hit in hits if hit.start is not None and hit.node]
    assert len(starts) == len(set(starts))  # a hit in a stored member is not that of its file too
    assert set(starts) == set(places(data))


@pytest.mark.kernel
@pytest.mark.heavy
def test_deleted_files_are_unpacked_too(needs_kernel: None, tmp_path: Path) -> None:
    packed, image = filled(tmp_path, 7), tmp_path / "image"
    make_file_system(image, 300 << 20, ("-t", "ext4"))
    with mounted(image, "rw") as root:
        for path in packed.iterdir():
            shutil.copy(path, root)
        sync(root)
    with mounted(image, "rw") as root:
        for path in packed.iterdir():
            (root / path.name).unlink()
        sync(root)
    _, hits = searched(image, areas=frozenset({Area.DELETED}))
    ours = {one for one in inside_places(hits) if not one[1].endswith((".tar", ".zip", ".gz"))}
    assert ours == expected(packed)
    assert {hit.area for hit in hits} == {Area.DELETED}


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_cells_are_those_that_sqlite_prints(tmp_path: Path, encoding: str, mode: str) -> None:
    rng, folder = random.Random(encoding), tmp_path / "files"
    folder.mkdir()
    path, needle = folder / "case.db", NEEDLE.decode()
    statements = [
        f"PRAGMA encoding = '{encoding}'; PRAGMA journal_mode = {mode};",
        'CREATE TABLE "odd ""name" (rowid TEXT, body TEXT, raw BLOB, n INT);',
        "CREATE TABLE bare (k TEXT PRIMARY KEY, v) WITHOUT ROWID;",
        "CREATE VIEW v AS SELECT body || body FROM \"odd \"\"name\";",
        "CREATE TABLE g (a TEXT, b TEXT GENERATED ALWAYS AS (hex(a)) VIRTUAL);",
    ]  # fmt: skip
    for at in range(300):
        body = "é" * rng.randrange(3) + "x" * rng.choice((3, 9000)) + needle * (at % 7 == 0)
        statements.append(
            f"INSERT INTO \"odd \"\"name\" VALUES ('{needle * (at % 90 == 0)}', '{body}',"
            f" x'{(NEEDLE * (at % 11 == 0)).hex()}', {at});"
            f"INSERT INTO bare VALUES ('{at:05d}{needle * (at % 50 == 0)}', '{body}');"
        )
    statements += [f"INSERT INTO g VALUES ('{needle}');", "PRAGMA wal_checkpoint(TRUNCATE);"]
    run("sqlite3", path, stdin="".join(statements).encode())
    shutil.copy(path, tmp_path / "plain.db")
    run("gzip", "-k", path)
    dumped = []
    for table, row, columns in (('odd ""name', "_rowid_", "rowid body raw"), ("bare", "", "k v"),
                                ("g", "rowid", "a")):  # fmt: skip
        for column in columns.split():
            number = row or "row_number() OVER (ORDER BY k)"
            shown = "hex(raw)" if column == "raw" else column
            select = f'SELECT {number}, {shown} FROM "{table}"'
            for one in run("sqlite3", "-ascii", path, select).split(b"\x1e")[:-1]:
                number_text, _, text = one.partition(b"\x1f")
                name = table.replace('""', '"')
                name = f"table {name}, column {column}, row {number_text.decode()}"
                for place in places(bytes.fromhex(text.decode()) if column == "raw" else text):
                    dumped += [("/case.db", name, place),
                               ("/case.db.gz", f"case.db > {name}", place)]  # fmt: skip
    result, hits = searched(made(folder, tmp_path / "image"))
    ours = {one for one in inside_places(hits) if "table" in one[1]}
    assert ours == set(dumped)
    assert len(ours) > 100
    assert result.scans.not_unpacked == []


def test_a_text_that_tags_divide_is_found_in_documents(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    word = (
        "<w:p><w:r><w:t>harb</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>our-ledger</w:t></w:r></w:p>"
        "<w:p><w:t>harbour-</w:t></w:p><w:p><w:t>ledger</w:t></w:p>"
        "<w:t>a &amp; b</w:t><w:t>harbour-ledger</w:t>"
        + "<w:p/>" * 300_000
        + "<w:t>har</w:t>bour-ledger"
    )
    text = '<text:p>harbour<text:span text:style-name="T1">-ledger</text:span><text:s/>x</text:p>'
    for name, member, data in (
        ("a.docx", "word/document.xml", word),
        ("a.odt", "content.xml", text),
    ):
        path = tmp_path / member
        path.parent.mkdir(exist_ok=True)
        path.write_text(data)
        subprocess.run(["zip", "-q", str(folder / name), member], cwd=tmp_path, check=True)
    image = made(folder, tmp_path / "image")
    _, hits = searched(image)
    found = sorted((hit.node.path, hit.inside) for hit in hits if hit.node)
    divided = (b"/a.docx", "word/document.xml, text")
    assert found == [(b"/a.docx", "word/document.xml"), divided, divided,
                     (b"/a.odt", "content.xml, text")]  # fmt: skip
    _, hits = searched(image, "a & b")
    assert [hit.inside for hit in hits] == ["word/document.xml, text"]
    _, hits = searched(image, "ledger x")
    assert [hit.inside for hit in hits] == ["content.xml, text"]


def test_what_cannot_be_unpacked_is_counted_and_listed(ext4kit: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (tmp_path / "text").write_bytes(b"first " + NEEDLE + b" " + random.Random(1).randbytes(50_000))
    for name, options in (("locked.zip", ["-P", "word"]), ("whole.zip", [])):
        subprocess.run(["zip", "-q", *options, f"files/{name}", "text"], cwd=tmp_path, check=True)
    whole = (folder / "whole.zip").read_bytes()
    (folder / "cut.zip").write_bytes(whole[:30_000])
    image = made(folder, tmp_path / "image")
    done = ext4kit("search", image, "--text", NEEDLE.decode(), "--inside", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    refused = {one["path"]: one["reason"] for one in records if one["record"] == "not unpacked"}
    assert done.returncode == 0
    assert refused.keys() == {"/cut.zip", "/locked.zip"}
    assert "encrypted" in refused["/locked.zip"]
    assert records[-1]["inside"]["not_unpacked"] == 3  # the member and the directory of the one
    hits = [one for one in records if one["record"] == "hit" and one["inside"] == "text"]
    found = {(one["path"], one["offset"]) for one in hits}
    assert found == {("/cut.zip", 6), ("/whole.zip", 6)}  # what is before the cut, too
    said = ext4kit("search", image, "--text", NEEDLE.decode(), "--inside").stdout
    assert "3 of the packed files and members could not be unpacked" in said


def test_it_combines_with_paths_areas_counts_and_patterns(ext4kit: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "text").write_bytes(NEEDLE + b" 1234 " + NEEDLE)
    run("gzip", "-k", tmp_path / "text")
    shutil.copy(tmp_path / "text.gz", folder / "a.gz")
    shutil.copy(tmp_path / "text.gz", folder / "sub/b.gz")
    image = made(folder, tmp_path / "image")

    def counted(*words: str) -> dict[str, int]:
        done = ext4kit("search", image, *words, "--inside", "--count", "--json")
        patterns: dict[str, int] = json.loads(done.stdout.splitlines()[-1])["patterns"]
        return patterns

    text = ("--text", NEEDLE.decode())
    assert counted(*text) == {NEEDLE.decode(): 4}
    assert counted("/sub", *text, "--regex", "r [0-9]{4}") == {NEEDLE.decode(): 2, "r [0-9]{4}": 1}
    assert counted(*text, "--in", "deleted,slack") == {}
    assert counted("--name", "a.*", *text) == {NEEDLE.decode(): 2}
    said = ext4kit("search", image, *text, "--inside", "-l").stdout
    assert said.count("/a.gz") == said.count("/sub/b.gz") == 1


def test_regular_expressions_match_in_members_as_in_files(tmp_path: Path) -> None:
    folder, rng = tmp_path / "files", random.Random(3)
    folder.mkdir()
    data = b"".join(b"%d " % rng.randrange(10**6) for _ in range(500_000))  # over three windows
    (folder / "plain").write_bytes(data)
    (tmp_path / "packed").write_bytes(data)
    (folder / "packed.gz").write_bytes(run("gzip", "-c", tmp_path / "packed"))
    with library.open(made(folder, tmp_path / "image")) as opened:
        patterns = [regex_pattern("7[0-9]{2,3}3")]
        result = search(Workspace(opened.filesystem()), patterns, scanned=FileSearch(True))
        hits = [result.hits[at] for at in range(len(result.hits))]
    by_file: dict[bytes, list[int | None]] = {}
    for hit in hits:
        if hit.node:
            by_file.setdefault(hit.node.path, []).append(hit.offset)
    assert by_file[b"/plain"] == by_file[b"/packed.gz"]
    assert len(by_file[b"/plain"]) > 1000


# ------------------------------------------------------------------------------- hostile files


def head(size: bytes, kind: bytes = b"0") -> bytes:
    """A header of tar with a right checksum."""
    data = bytearray(512)
    data[0:1], data[124:136], data[156:157], data[257:265] = b"a", size, kind, b"ustar\x0000"
    data[148:156] = b" " * 8
    data[148:155] = b"%06o\0" % sum(data)
    return bytes(data)


def bombs(folder: Path) -> Iterator[tuple[str, str]]:
    """(name of a file that is written, what is said of it)."""

    def put(name: str, data: bytes) -> str:
        (folder / name).write_bytes(data)
        return name

    zeros = folder.parent / "zeros"
    with zeros.open("wb") as file:
        file.truncate(64 << 20)
    for tool in ("gzip", "xz", "bzip2", "zstd"):
        yield put(f"zeros.{tool}", run(tool, "-c", zeros)), "unpacked bytes"
    (folder.parent / "l0").write_bytes(run("gzip", "-c", zeros))
    for level in range(6):
        name = f"l{level + 1}"
        names = [
            shutil.copy(folder.parent / f"l{level}", folder.parent / f"n{one}") for one in "ab"
        ]
        command = ["zip", "-qj", name, *map(str, names)]
        subprocess.run(command, cwd=folder.parent, check=True)
        (folder.parent / f"{name}.zip").rename(folder.parent / name)
    yield put("nested.zip", (folder.parent / "l6").read_bytes()), "packed more than"
    yield put("negative.tar", head(b"\xff" * 12) + bytes(2048)), "header at byte 0"
    yield put("huge.tar", head(b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7) + bytes(2048)), "ends"
    yield put("name.tar", head(b"77777777777\0", b"L") + b"N" * 9999), ""
    many = b"".join(head(b"0" * 11 + b"\0") for _ in range(3000))
    yield put("many.tar", many), "more than 2,000 members"
    small = folder.parent / "small"
    small.write_bytes(b"x")
    yield put("memory.xz", run("xz", "-c", "--lzma2=preset=0,dict=1536MiB", small)), "limit"
    small.write_bytes(random.Random(0).randbytes(300_000))
    yield put("memory.zst", run("zstd", "-q", "-c", "--long=30", "--no-check", small,
                                stdin=b"")), ""  # fmt: skip
    path = folder / "sound.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a TEXT)")
        rows = [(f"row {at} " + "y" * 300,) for at in range(4000)]
        connection.executemany("INSERT INTO t VALUES (?)", rows)
        connection.executescript(
            "CREATE VIEW r AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i FROM n; CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;"
        )
    connection.close()
    yield "sound.db", ""
    rng = random.Random(5)
    for number in range(8):
        data = bytearray(path.read_bytes())
        for _ in range(200):
            data[rng.randrange(100, len(data))] = rng.randrange(256)
        yield put(f"damaged{number}.db", bytes(data)), ""
    data = bytearray(path.read_bytes())
    page = int.from_bytes(data[16:18], "big")
    for number in range(1, 9):  # inner pages that have the next one as each of their children
        inner = bytearray(page)
        inner[0], inner[3:5], inner[5:7] = (
            5,
            (300).to_bytes(2, "big"),
            (page - 5).to_bytes(2, "big"),
        )
        inner[page - 5 :] = (number + 2).to_bytes(4, "big") + b"\1"
        inner[8:12] = (number + 2).to_bytes(4, "big")
        for cell in range(300):
            inner[12 + 2 * cell : 14 + 2 * cell] = (page - 5).to_bytes(2, "big")
        data[number * page : (number + 1) * page] = inner
    yield put("loops.db", bytes(data)), "rows"


@pytest.mark.heavy
def test_hostile_files_end_soon_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    said = dict(bombs(folder))
    image = made(folder, tmp_path / "image", 128)
    monkeypatch.setattr(inside, "ALWAYS", 8 << 20)
    monkeypatch.setattr(inside, "MOST_MEMBERS", 2000)
    result, _ = searched(image, "row 77 ")
    refused: dict[str, str] = {}
    for one in result.scans.not_unpacked:
        name = one.node.name.decode()
        refused[name] = refused.get(name, "") + one.reason
    for name, part in said.items():
        if part:
            assert part in refused.get(name, ""), (name, refused.get(name))
    assert "sound.db" not in refused
    assert result.scans.tally.unpacked < 400 << 20


def test_the_list_of_what_was_not_unpacked_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.tar").write_bytes(head(b"\xff" * 12) + bytes(2048))
    monkeypatch.setattr(file_scans, "MOST_REFUSALS", 7)
    result, _ = searched(made(folder, tmp_path / "image"))
    assert (len(result.scans.not_unpacked), result.scans.tally.refused) == (7, 20)
