"""Hits of a search, held against the files that the running kernel and `recover` give."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.search.hits import Area
from ext4kit.search.patterns import Pattern, hex_pattern, regex_pattern, text_patterns
from ext4kit.search.search import SearchResult, search
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import copy_sparse, make_file_system, mounted
from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images

RECIPES = (
    "ext3", "ext2", "block_1k", "inline_data", "hard_links", "meta_bg", "editor_save", "power_cut",
    "truncate_rewrite",
)  # fmt: skip
NEEDLES = 150  # bytes across block borders that are searched for, in each image
SIDE = 7  # of a needle, on each side of the border


@contextmanager
def searched(
    image: Path, patterns: list[Pattern], areas: frozenset[Area] = frozenset(Area)
) -> Iterator[SearchResult]:
    with library.open(image) as opened:
        yield search(Workspace(opened.filesystem()), patterns, areas)


def files_below(root: Path) -> Iterator[tuple[bytes, bytes]]:
    """(path, content) of each regular file of a mounted file system."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield b"/" + os.fsencode(path.relative_to(root)), path.read_bytes()


def places(content: bytes, needle: bytes) -> Iterator[int]:
    """Where some bytes are, none overlapping the one before."""
    return (match.start() for match in re.finditer(re.escape(needle), content))


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("recipe", RECIPES)
def test_bytes_across_blocks_are_found_in_each_file_that_has_them(
    needs_kernel: None, built: Images, tmp_path: Path, recipe: str
) -> None:
    image = tmp_path / "image"
    copy_sparse(built(recipe).image, image)
    rng, copy = random.Random(recipe), tmp_path / "copy"
    copy_sparse(image, copy)
    with mounted(copy, "ro") as root:  # an unclean journal is replayed in the copy
        files = dict(files_below(root))
    size = 1024 if recipe == "block_1k" else 4096
    borders = [
        (path, at) for path, data in files.items() for at in range(size, len(data) - SIDE, size)
    ]
    needles = {
        files[path][at - SIDE : at + SIDE]
        for path, at in rng.sample(borders, min(NEEDLES, len(borders)))
    }
    needles |= {
        data[-12:] for data in rng.sample(sorted(files.values()), min(20, len(files))) if data
    }
    needles = {one for one in needles if one.strip(b"\0")}
    expected = {
        (path, at, needle.hex())
        for needle in needles
        for path, data in files.items()
        for at in places(data, needle)
    }
    assert len(expected) >= len(needles) > 5
    with searched(image, [hex_pattern(one.hex()) for one in sorted(needles)]) as result:
        hits = [result.hits[at] for at in range(len(result.hits))]
        each = [(area, node.path) for area, node, _ in result.hits.by_file()]
        assert len(each) == len(set(each)) == result.hits.file_count
        for hit in rng.sample(hits, min(50, len(hits))):
            assert hit.is_broken or hit.around().own.hex() == hit.pattern.name
    ours = {
        (hit.node.path, hit.offset, hit.pattern.name)
        for hit in hits
        if hit.node and hit.area is Area.LIVE and hit.node.kind == "file" and not hit.is_broken
    }
    assert ours == expected
    assert (result.unreadable, result.cut) == (0, 0)


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("recipe", ["removed_now", "rm_rf_tree", "data_journal", "reuse"])
def test_deleted_files_have_the_hits_of_what_recover_writes(
    needs_kernel: None, built: Images, ext4kit: Cli, tmp_path: Path, recipe: str
) -> None:
    image, out = built(recipe).image, tmp_path / "out"
    ext4kit("recover", image, "-o", out, "--sources", "blocks", "--no-readme", "--partial", "among")
    pattern = re.compile(rb"[a-z]{5}[0-9]|the")
    expected = set()
    for record in read_records(out):
        if record["output"] and record["type"] == "file":
            data = (out / record["output"]).read_bytes()
            number = record["inode"], record["generation"]
            expected |= {(*number, match.start()) for match in pattern.finditer(data)}
    wanted = regex_pattern(pattern.pattern.decode())
    ours = set()
    with searched(image, [wanted], frozenset({Area.DELETED})) as result:
        for at in range(len(result.hits)):
            node, offset = result.hits[at].node, result.hits[at].offset
            assert node is not None
            assert node.inode is not None
            if not result.hits[at].is_broken and node.kind == "file":
                ours.add((node.number, node.inode.generation, offset))
    assert ours == expected


def test_every_byte_of_the_volume_has_an_area(unpacked: Images) -> None:
    """All that grep finds in the image is found, once in each file that has it."""
    image = unpacked("rm_rf_tree").image
    starts = set(places(image.read_bytes(), b"ledger"))
    with searched(image, text_patterns("ledger")[:1]) as result:
        ours = {result.hits[at].start for at in range(len(result.hits))} - {None}
    assert ours == starts


def test_the_command_prints_hits_files_and_counts(ext4kit: Cli, unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    done = ext4kit("search", image, "--text", "harbour", "--json")
    *hits, summary = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0
    assert summary["hits"] == len(hits) > 0
    assert {hit["record"] for hit in hits} == {"hit"}
    assert all(hit["text"] == "harbour" for hit in hits if not hit["broken"])
    assert summary["files"] == len({hit["path"] for hit in hits} - {None})
    *files, total = map(
        json.loads,
        ext4kit("search", image, "--text", "harbour", "-l", "--json").stdout.splitlines(),
    )
    assert sum(one["hits"] for one in files) == sum(1 for one in hits if one["path"])
    assert {one["path"] for one in files} == {one["path"] for one in hits if one["path"]}
    assert (total["hits"], total["listed"]) == (summary["hits"], len(files))
    listed = ext4kit("search", image, "--text", "harbour", "-l").stdout
    assert f"{summary['hits']:,} hits" in listed
    counted = ext4kit("search", image, "--text", "harbour", "--count", "--json").stdout
    assert json.loads(counted)["patterns"] == {"harbour": summary["hits"]}


def test_a_search_below_a_path_reads_only_its_files(ext4kit: Cli, unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    whole, below = (
        json.loads(ext4kit("search", image, *words, "--text", "e", "--count", "--json").stdout)
        for words in ((), ("/keep",))
    )
    assert 0 < below["bytes_read"] < whole["bytes_read"]
    assert 0 < below["hits"] < whole["hits"]


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "say what to search for"), (("--regex", "("), "at character 1"),
     (("--hex", "zz"), "hexadecimal"), (("--features", "shoe"), "shoe"),
     (("--text", ""), "empty text"), (("--words", "/nonexistent"), "/nonexistent")],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_in_one_line(
    ext4kit: Cli, unpacked: Images, words: tuple[str, ...], said: str
) -> None:
    done = ext4kit("search", unpacked("rm_rf_tree").image, *words)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


WORDS = regex_pattern("[a-z]{6} [a-z]{6}")


@pytest.mark.heavy
@pytest.mark.parametrize("sample", ["rm_rf_tree", "power_cut", "ext3"])
def test_an_area_alone_has_the_hits_that_it_has_among_all(unpacked: Images, sample: str) -> None:
    image, found = unpacked(sample).image, {}
    for areas in (frozenset(Area), *(frozenset({area}) for area in Area)):
        with searched(image, [WORDS], areas) as result:
            found[areas] = {
                (hit.area, hit.node and hit.node.path, hit.start, hit.offset, hit.is_broken)
                for hit in (result.hits[at] for at in range(len(result.hits)))
            }
    assert len({one[0] for one in found[frozenset(Area)]}) > 1
    for area in Area:
        assert found[frozenset({area})] == {one for one in found[frozenset(Area)] if one[0] == area}


@pytest.mark.heavy
@pytest.mark.parametrize("sample", ["rm_rf_tree", "power_cut", "ext3", "removed_on_5_10"])
def test_hits_know_of_their_blocks_what_who_tells(
    ext4kit: Cli, unpacked: Images, sample: str
) -> None:
    """`who` looks at each block by itself, and reads the states of live files too."""
    image = unpacked(sample).image
    done = ext4kit("search", image, "--regex", "[a-z]{6}", "--json")
    hits = [one for one in map(json.loads, done.stdout.splitlines()) if one["record"] == "hit"]
    blocks = {one["block"]: one for one in hits if one["block"] is not None}
    assert len({one["area"] for one in blocks.values()}) > 2
    homes = {}
    for at, one in blocks.items():
        home = one["log"] and one["log"]["home"]
        homes[at] = at if home is None else home
    asked = sorted({*blocks, *homes.values()})
    answers = {
        one["block"]: one
        for at in range(0, len(asked), 500)
        for one in map(
            json.loads,
            ext4kit("who", image, "--json", *map(str, asked[at : at + 500])).stdout.splitlines(),
        )
    }
    for at, hit in blocks.items():
        answer = answers[homes[at]]
        assert hit["log"] == answers[at]["log"]
        assert hit["now"] == [use | {"since": mine["since"]} for use, mine in
                              zip(answer["present"], hit["now"], strict=True)]  # fmt: skip
        assert [use for use in hit["earlier"] if use["grade"]] == [
            use for use in answer["earlier"] if use["grade"]
        ]


def test_where_nothing_matches_is_told_of_selected_files(
    ext4kit: Cli, tmp_path: Path, needs_kernel: None
) -> None:
    image = tmp_path / "disk.img"
    make_file_system(image, 8 << 20, ("-t", "ext4"))
    with mounted(image, "rw") as top:
        (top / "a").write_bytes(b"needle")
    for arguments, where in (
        (("/b",), "the selected files"),
        (("--name", "b"), "the selected files"),
        (("--name", "b", "--in", "live"), "the selected files (live)"),
        ((), "the whole volume"),
    ):
        text = "needle" if arguments else "nowhere"
        done = ext4kit("search", image, *arguments, "--text", text)
        assert f"note: nothing matches in {where};" in done.stderr
