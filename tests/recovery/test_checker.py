"""The checker that shares no code with ext4kit confirms what is so, and refutes what is changed."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ext4kit.recovery import Grade
from ext4kit.units import NANOSECONDS
from sample_images import Built
from sample_images.recipes import machine
from sample_images.recipes.proof import CHECKER, FACTS, Proof, changed, load_checker, page, prove
from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images
from tests.writing_kernel import HERE

RECIPES = ["rm_rf_tree", "ext3", "hard_links", "inode_128", "bigalloc", "inline_data"]
RECIPES += ["data_journal", "large_extent_leaves"]
MORE = ["removed_after_remount", "block_1k", "no_metadata_csum", "meta_bg", "renamed_moved"]
MORE += ["wide_directory", "truncate_rewrite", "reuse", "preallocated"]
OTHERS = ["power_cut", "orphan_list", "orphan_file", "removed_now", "reuse_by_metadata"]
Recovered = Callable[[str], tuple[Path, list[dict[str, Any]], Path]]


@pytest.fixture(scope="module")
def checker() -> Any:
    """The checker as a module."""
    return load_checker()


@pytest.fixture(scope="module")
def recovered(ext4kit: Cli, built: Images, tmp_path_factory: pytest.TempPathFactory) -> Recovered:
    """The image of a recipe, the records of its recovery, and the folder of that."""
    known: dict[str, tuple[Path, Path]] = {}

    def give(name: str) -> tuple[Path, list[dict[str, Any]], Path]:
        if name not in known:
            made: Built = built(name)
            out = tmp_path_factory.mktemp(name) / "out"
            ext4kit("recover", made.image, "-o", out, "-q")
            known[name] = made.image, out
        image, out = known[name]
        return image, list(read_records(out)), out

    return give


def file_system(checker: Any, image: Path) -> Any:
    return checker.FileSystem(image, 0)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(CHECKER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def best_of(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the best grade that files of the writing kernel can have."""
    return [record for record in records if record["grade"] == HERE.best]


def test_it_is_one_short_file_that_imports_the_standard_library_alone() -> None:
    text = CHECKER.read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)
    assert len(text.splitlines()) <= 500, "blank lines and comments too"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", [*RECIPES, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)]
)
def test_every_intact_record_is_confirmed(name: str, recovered: Recovered, tmp_path: Path) -> None:
    """Where a file can be intact only after a minute, no other one is; nothing is refuted."""
    image, records, out = recovered(name)
    best = best_of(records)
    assert best or not HERE.log_goes_on
    done = run(image, manifest_of(best, tmp_path), "--out", out)
    verdicts = re.fullmatch(r"(\d+) confirmed, (\d+) refuted, (\d+) undecided\n", done.stdout)
    assert verdicts, done.stdout[-2000:]
    confirmed, refuted, undecided = map(int, verdicts.groups())
    assert (done.returncode, refuted) == (0, 0)
    assert confirmed + undecided == len(best)
    assert confirmed or not best
    if HERE.best is Grade.INTACT:
        assert not undecided
    else:
        intact = [record for record in records if record["grade"] == "intact"]
        files = [record for record in intact if record["type"] == "file"]  # not what the log holds
        assert all(record["dtime"] - record["ctime"] >= 60 * NANOSECONDS for record in files)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_no_record_of_any_grade_is_refuted(name: str, recovered: Recovered) -> None:
    image, _, out = recovered(name)
    done = run(image, out / "manifest.jsonl", "--out", out)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not done.stdout.startswith("0 confirmed")


def confirms(checker: Any, fs: Any, record: dict[str, Any]) -> bool:
    check = checker.Check(fs, record, None)
    return not check.failed and not check.unknown


def refuted(checker: Any, recovered: Recovered, names: list[str], count: int, seed: int) -> None:
    """Change one fact in so many confirmed records and want each of them refuted.

    One image after another: in a user-mode kernel a process has little memory.
    """
    rng, missed, done = random.Random(seed), list[str](), Counter[str]()
    for number, name in enumerate(names, 1):
        image, records, _ = recovered(name)
        fs = file_system(checker, image)
        records = [record for record in best_of(records) if confirms(checker, fs, record)]
        assert records or not HERE.log_goes_on
        while records and done.total() < count * number // len(names):
            kind, record = rng.choice(list(FACTS)), rng.choice(records)
            new = changed(record, kind, rng)
            if new is not None:
                done[kind] += 1
                if not checker.Check(fs, new, None).failed:
                    missed.append(f"{kind}: {record} {new}")
    assert not missed, f"{len(missed)} of {count}, seed {seed}: {missed[:3]}"


@pytest.mark.heavy
def test_one_changed_fact_is_refuted(checker: Any, recovered: Recovered) -> None:
    seed = random.randrange(1 << 16)
    refuted(checker, recovered, ["rm_rf_tree", "ext3", "inline_data", "data_journal"], 20, seed)


@pytest.mark.slow
def test_a_thousand_changed_facts_are_refuted(checker: Any, recovered: Recovered) -> None:
    refuted(checker, recovered, [*RECIPES, *MORE], 1000, random.randrange(1 << 16))


def test_a_block_with_a_later_owner_is_refuted(checker: Any, recovered: Recovered) -> None:
    image, records, _ = recovered("reuse")
    lost = [record for record in records if record["lost"] and record["extents"]]
    fs = file_system(checker, image)
    assert lost or not HERE.log_goes_on
    for record in lost:
        new = copy.deepcopy(record)
        size = fs.block_size
        first = new["lost"][0]["offset"] // size
        history_map = dict(record_blocks(checker, fs, new))
        new["extents"] = sorted([*new["extents"], [first, history_map[first], 1]])
        new["lost"], new["sha256"] = [], None
        said = checker.Check(fs, new, None).failed
        assert any("is in use" in line or "has block" in line or "journal" in line for line in said)


def record_blocks(checker: Any, fs: Any, record: dict[str, Any]) -> list[tuple[int, int]]:
    """(file block, block) as the checker itself maps the inode of a record."""
    check = checker.Check(fs, record, None)
    runs, _ = fs.map(check.inode)
    return [(run[0] + step, run[1] + step) for run in runs for step in range(run[2])]


def test_wrong_use_exits_with_2(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(bytes(4096))
    assert run(empty, empty).returncode == 2
    assert run(tmp_path / "none", empty).returncode == 2
    assert run(empty).returncode == 2


def manifest_of(records: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return path


def test_a_record_ends_at_a_line_feed_alone(recovered: Recovered, tmp_path: Path) -> None:
    image, records, _ = recovered("hard_links")
    record = copy.deepcopy(records[0])
    record["problems"] = ["a\x85b\u2028c"]
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    done = run(image, manifest)
    assert (done.returncode, done.stdout) == (0, "1 confirmed, 0 refuted, 0 undecided\n")


def test_block_numbers_of_descriptors_have_their_high_halves(checker: Any) -> None:
    """The bitmap, the table and their upper 32 bits stand where the kernel's page has them."""
    fs = object.__new__(checker.FileSystem)
    fs.block_size, fs.descriptor_size, fs.incompat = 4096, 64, 0x80
    block = bytearray(4096)
    block[64:68], block[64 + 8 : 64 + 12] = b"\x01\0\0\0", b"\x02\0\0\0"
    block[64 + 32 : 64 + 36], block[64 + 40 : 64 + 44] = b"\x03\0\0\0", b"\x04\0\0\0"
    fs.as_of = lambda *_: (0, None, bytes(block))
    assert fs._group(1)[:2] == (3 << 32 | 1, 4 << 32 | 2)
    fs.descriptor_size = 32
    block[32:36], block[40:44] = b"\x05\0\0\0", b"\x06\0\0\0"
    assert fs._group(1)[:2] == (5, 6)


@pytest.mark.heavy
@pytest.mark.parametrize("where", ["superblock", "descriptors", "journal", "inodes"])
def test_a_hostile_image_ends_in_a_verdict(
    where: str, recovered: Recovered, tmp_path: Path, checker: Any
) -> None:
    """Whatever bytes are put in its metadata: no traceback, and an end."""
    image, records, _ = recovered("hard_links")
    fs = file_system(checker, image)
    inode, size = fs.locate(8), fs.block_size
    start, length = {
        "superblock": (1024, 1024),
        "descriptors": (size, 64),
        "journal": (fs.log[0] * size, 256),
        "inodes": (inode[0] * size, size),
    }[where]
    seed = random.randrange(1 << 16)
    rng, manifest, hostile = random.Random(seed), manifest_of(records[:3], tmp_path), tmp_path / "x"
    machine.copy_sparse(image, hostile)
    with image.open("rb") as file:
        file.seek(start)
        sound = file.read(length)
    for _ in range(4):
        data = bytearray(sound)
        for _ in range(12):
            data[rng.randrange(length)] = rng.choice((0, 255, rng.randrange(256)))
        with hostile.open("r+b") as file:
            file.seek(start)
            file.write(data)
        done = run(hostile, manifest)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 1, 2), f"seed {seed}: {said}"
        assert "Traceback" not in said, f"seed {seed}: {said}"
        assert "undecided" in done.stdout, f"seed {seed}: {said}"


def test_an_unreadable_image_is_undecided(recovered: Recovered, tmp_path: Path) -> None:
    image, records, _ = recovered("hard_links")
    short = tmp_path / "short"
    with image.open("rb") as file:
        short.write_bytes(file.read(3000))
    done = run(short, manifest_of(records, tmp_path))
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("all undecided")


@pytest.mark.usefixtures("needs_kernel")
def test_the_page_of_the_proof_counts_verdicts_and_changes(tmp_path: Path) -> None:
    proof = Proof()
    prove(proof, "hard_links", tmp_path, 20, random.Random(5))
    assert not proof.is_bad, proof.missed
    if HERE.best is Grade.INTACT:
        assert proof.count() == proof.count(grade="intact") + proof.count(grade="consistent") > 0
    text = page(proof, 5)
    confirmed, undecided = (proof.count(verdict=word) for word in ("confirmed", "undecided"))
    assert f"| hard_links | {confirmed} | 0 | {undecided} |" in text
    assert undecided == 0 or HERE.best is not Grade.INTACT
    changes = 20 if proof.count(grade="intact") else 0  # one fact of an intact record is changed
    assert changes == 20 or HERE.best is not Grade.INTACT
    assert f"at random, {changes} times. {changes} of the" in " ".join(text.split())
    proof.verdicts["hard_links", "carved", "refuted"] += 1
    assert proof.is_bad
