"""Selection of files: what is given is the condition that each listed or written file meets."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.recover import command
from ext4kit.cli.values import size_limits
from ext4kit.selection import Limits, Selection, is_glob
from ext4kit.times import parse_moment
from ext4kit.units import NANOSECONDS
from sample_images import unpack
from sample_images.recipes.truth import Truth, load
from tests.cli.conftest import Run
from tests.cli.test_reading_commands import path_of
from tests.conftest import Cli, Images

GLOBS = (
    "/a/*", "/*/b", "/**/*.txt", "/a/**", "/**/b/*.o", "/a/?", "/[ab]/*", "/[!a]*/b.txt", "/a/**/b",
    "/*.o", "/a.txt", "/**/[a-b].?",
)  # fmt: skip
NAMES = ("a", "b", "c", "a.txt", "b.txt", "a.o", "b.o", "^x", "a[b]")


def make_random_tree(root: Path, chance: random.Random, depth: int) -> None:
    """Directories and files with names that the patterns tell apart."""
    for name in chance.sample(NAMES, 7):
        if depth and "." not in name:
            (root / name).mkdir()
            make_random_tree(root / name, chance, depth - 1)
        else:
            (root / name).touch()


def test_patterns_match_as_python_globs_do_and_with_all_that_is_below(tmp_path: Path) -> None:
    make_random_tree(tmp_path, random.Random(5), 2)
    every = {b"/" + os.fsencode(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    matching = 0
    for pattern in GLOBS:
        found = glob.glob(pattern[1:], root_dir=tmp_path, recursive=True, include_hidden=True)  # noqa: PTH207
        tops = {b"/" + os.fsencode(path).rstrip(b"/") for path in found}
        expected = {
            path
            for path in every
            if any(path == top or path.startswith(top + b"/") for top in tops)
        }
        selection = Selection(paths=(os.fsencode(pattern),))
        assert {path for path in every if selection.matches_path(path, None)} == expected, pattern
        matching += bool(expected)
    assert matching > len(GLOBS) // 2


def test_a_path_without_a_slash_is_a_name_in_any_directory() -> None:
    selection = Selection(paths=(b"*.odt",))
    assert selection.matches_path(b"/home/me/a.odt", b"a.odt")
    assert selection.matches_path(None, b"a.odt")
    assert not selection.matches_path(b"/home/me/a.odt~", b"a.odt~")
    assert not selection.matches_path(None, None)
    assert Selection(paths=(b"/",)).matches_path(b"/x", b"x")
    assert not Selection(paths=(b"/me/x",)).matches_path(None, b"x")


def test_characters_of_regular_expressions_are_plain() -> None:
    assert Selection(paths=(b"/a.b+(c)",)).matches_path(b"/a.b+(c)", None)
    assert not Selection(paths=(b"/a.b",)).matches_path(b"/aXb", None)
    assert Selection(paths=(b"/[^]",)).matches_path(b"/^", None)
    assert Selection(paths=(b"/x\xff*",)).matches_path(b"/x\xff\ny", None)
    assert is_glob(b"a*") and not is_glob(b"a[b")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@12", 12),
        ("1970-01-02", 86_400),
        ("1970-01-01 00:01", 60),
        ("1970-01-01T01:00+01:00", 0),
        ("2h", 1_000_000 - 7200),
        ("now", 1_000_000),
        ("today", 11 * 86_400),
        ("yesterday", 10 * 86_400),
    ],
)
def test_times(text: str, seconds: int) -> None:
    assert parse_moment(text, 1_000_000 * NANOSECONDS) == seconds * NANOSECONDS


def test_sizes() -> None:
    def limits(text: str) -> Limits:
        return size_limits(None, None, text)  # type: ignore[arg-type]

    assert limits("10k..5M") == Limits(10 << 10, 5 << 20)
    assert limits("1G..") == Limits(1 << 30, None)
    assert limits("..100") == Limits(None, 100)
    assert limits("7") == Limits(7, 7)
    assert not Limits(1, None).include(None)
    assert Limits().include(None)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """What the recipe of the image `deleted` removed."""
    return load(unpack("rm_rf_tree", tmp_path_factory.mktemp("truth")).truth)


def listed(run: Run, *arguments: object) -> dict[str, dict[str, Any]]:
    """Path to record of the files that `deleted` lists."""
    lines = run("deleted", *arguments, "--json").stdout.splitlines()
    found = [record for record in map(json.loads, lines) if record["record"] == "deleted"]
    return {os.fsdecode(path_of(record)): record for record in found}


def test_each_condition_selects_what_the_recipe_says(run: Run, deleted: Path, truth: Truth) -> None:
    files = {os.fsdecode(b"/" + file.path): file for file in truth.files}
    tunnel = {path for path in files if path.startswith("/project/tunnel/")}
    assert tunnel < set(files)
    assert set(listed(run, deleted, "/project/tunnel", "--type", "file")) == tunnel
    texts = {path for path in files if re.search(r"\.txt$", path)}
    assert texts
    assert set(listed(run, deleted, "*.txt")) == texts
    assert set(listed(run, deleted, "--name", r"\.txt$", "--type", "file")) == texts
    small = {path for path, file in files.items() if 1024 <= file.size <= 20 << 10}
    assert small
    assert set(listed(run, deleted, "--size", "1k..20k", "--type", "file")) == small
    both = small & tunnel
    assert both < small
    assert (
        set(listed(run, deleted, "/project/tunnel/**", "--size", "1k..20k", "--type", "file"))
        == both
    )
    path, number = min((path, file.inode) for path, file in files.items())
    assert set(listed(run, deleted, "--inode", str(number))) == {path}
    assert listed(run, deleted, "--grade", "overwritten") == {}
    links = listed(run, deleted, "--type", "link", "--type", "dir")
    assert {record["type"] for record in links.values()} <= {"symlink", "directory"}


def test_times_of_deletion(run: Run, deleted: Path) -> None:
    every = listed(run, deleted, "--sources", "journal")
    times = sorted(record["dtime"] for record in every.values())
    half = times[len(times) // 2] // NANOSECONDS
    later = {path for path, record in every.items() if record["dtime"] >= half * NANOSECONDS}
    assert set(listed(run, deleted, "--deleted-since", f"@{half}")) == later
    assert listed(run, deleted, "--deleted-until", "1990-01-01") == {}
    assert listed(run, deleted, "--modified-since", "1s", "--from-now") == {}
    assert set(listed(run, deleted, "--deleted-since", "0s")) <= set(every), "from the last moment"
    assert set(listed(run, deleted, "--deleted-since", "2h")) == set(every)


def test_one_file_is_recovered_by_its_path(
    run: Run, deleted: Path, truth: Truth, tmp_path: Path
) -> None:
    file = max(truth.files, key=lambda each: each.size)
    path = b"/" + file.path
    done = run("recover", deleted, path, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert not done.stderr, "the file is whole: there is nothing to look for"
    written = [each for each in (tmp_path / "out/files").rglob("*") if each.is_file()]
    assert [os.fsencode(each.relative_to(tmp_path / "out/files")) for each in written] == [
        file.path
    ]
    assert hashlib.sha256(written[0].read_bytes()).hexdigest() == file.sha256


def test_a_dry_run_writes_nothing(run: Run, deleted: Path, tmp_path: Path) -> None:
    done = run("recover", deleted, "*.txt", "--dry-run", "-o", tmp_path / "out")
    assert done.returncode == 0
    assert b"nothing was written" in done.stdout
    assert not (tmp_path / "out").exists()
    refused = run("recover", deleted, "*.txt")
    assert refused.returncode == 2
    assert b"--dry-run" in refused.stderr


def test_what_is_not_there_is_said(run: Run, deleted: Path, tmp_path: Path) -> None:
    done = run("deleted", deleted, "/no/such", "--quiet")
    assert (done.returncode, done.stderr) == (1, b"ext4kit: no such deleted file: /no/such\n")
    assert run("deleted", deleted, "--inode", "99999").returncode == 1
    wrong = run("deleted", deleted, "--deleted-since", "whenever")
    assert wrong.returncode == 2
    assert run("deleted", deleted, "--name", "(").returncode == 2
    gone = run("extract", deleted, "*.none", "-o", tmp_path / "out")
    assert gone.returncode == 1
    assert b"no file matches" in gone.stderr


def test_sorted_and_limited(run: Run, deleted: Path, truth: Truth) -> None:
    largest = sorted((file.size for file in truth.files), reverse=True)[:3]
    found = listed(run, deleted, "--sort", "size", "--limit", "3", "--type", "file")
    assert [record["size"] for record in found.values()] == largest


def test_live_files_are_extracted_by_pattern_and_content(
    run: Run, image: Path, tree: Path, tmp_path: Path
) -> None:
    def extracted(*arguments: object) -> set[str]:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        assert run("extract", image, *arguments, "-o", out).returncode == 0
        return {
            str(each.relative_to(out / "files"))
            for each in out.rglob("files/**/*")
            if each.is_file()
        }

    assert extracted("/sub/**/t*") == {"sub/deep/text"}
    assert extracted("/sub", "--size", "..10", "--type", "file") == {"sub/deep/text"}
    assert extracted("[[]bold]") == {"[bold]"}
    assert extracted("[bold]") == {"[bold]"}
    assert extracted("/sub", "--kind", "documents") == {"sub/deep/text"}
    assert extracted("/", "--size", "1M..", "--type", "file") == {"sparse"}


def test_an_export_has_the_selected_live_and_deleted_files(
    run: Run, deleted: Path, truth: Truth
) -> None:
    def exported(*arguments: str | Path) -> set[str]:
        done = run("export", deleted, *arguments, "--jsonl", "-", "--sources", "journal")
        records = list(map(json.loads, done.stdout.splitlines()))
        assert done.returncode == (not records), done.stderr
        return {os.fsdecode(path_of(record)) for record in records if record["type"] == "file"}

    gone = {os.fsdecode(b"/" + file.path) for file in truth.files}
    live = {os.fsdecode(b"/" + file.path) for file in truth.live}
    assert exported() == gone | live
    assert exported("--deleted-since", "1990-01-01") == gone
    tunnel = {path for path in gone if path.startswith("/project/tunnel/")}
    assert exported("/project/tunnel") == tunnel
    small = {os.fsdecode(b"/" + file.path) for file in truth.files if file.size <= 2048}
    assert exported("--size", "..2k") - live == small
    assert exported("--modified-until", "1990-01-01") == set()


def test_a_time_gives_the_state_after_the_last_transaction_by_then(run: Run, deleted: Path) -> None:
    def tree(when: str) -> bytes:
        done = run("ls", deleted, "-r", "-l", "--as-of", when, "--quiet")
        assert done.returncode in (0, 1)  # 1: some inodes are unknown then
        return done.stdout

    records = map(json.loads, run("journal", "list", deleted, "--json").stdout.splitlines())
    commits = [
        (record["transaction"], record["commit_time_ns"])
        for record in records
        if record["record"] == "transaction"
    ]
    assert len(commits) > 2
    for (number, time), (_, following) in zip(commits, commits[1:], strict=False):
        last = (following - 1) // 1000 * 1000  # a time on the command line has microseconds
        day, rest = divmod(last // 1000, 86_400 * 1_000_000)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day, microseconds=rest)
        assert time <= last
        assert tree(moment.isoformat()) == tree(str(number))
    early = run("ls", deleted, "--as-of", "1999-01-01")
    assert early.returncode == 2
    told = run("ls", deleted, "--as-of", "now").stderr
    assert f"the state after transaction {commits[-1][0]}, committed".encode() in told


def test_help_groups_the_options_and_leaves_none_out(run: Run) -> None:
    text = run("recover", "--help").stdout.decode()
    parts = re.split(r"^(Options[^\n]*):$", text, flags=re.M)
    groups = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(groups) == [
        "Options", "Options that select files", "Options for the image",
        "Options for the case record",
    ]  # fmt: skip
    assert "--dry-run" in groups["Options"] and "--help" in groups["Options"]
    assert "--owner" in groups["Options that select files"]
    assert "--volume" in groups["Options for the image"]
    named = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for name in {name for name in named if name.startswith("--")}:
        assert len(re.findall(rf"^ +(?:-\w, )?{name}(?![-\w])", text, re.M)) == 1, name


@pytest.mark.kernel
def test_what_carving_may_still_find_is_said(run: Run, built: Images) -> None:
    """Freed inodes without a block map: their content is found by carving alone."""
    image = built("forgotten_part").image
    quick = run("deleted", image, "--owner", "0")
    assert re.search(rb"note: [\d,]+ of the selected files are not whole; ", quick.stderr)
    asked = run("deleted", image, "--owner", "0", "--sources", "all")
    assert b"not whole" not in asked.stderr


def test_a_time_is_read_to_the_nanosecond() -> None:
    """As commands print it: a time in microseconds would be that of the commit before."""
    assert parse_moment("1970-01-01T00:00:01.844621632Z", 0) == 1_844_621_632
    assert parse_moment("1970-01-01 00:00:01,5", 0) == 1_500_000_000
    assert parse_moment("1970-01-01T01:00:00.000000001+01:00", 0) == 1


def test_an_empty_list_of_selected_files_does_not_say_that_nothing_is_there(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("00" * 32 + "  name\n")
    done = ext4kit("ls", unpacked("rm_rf_tree").image, "-r", "--known", listed, "--only-known")
    assert "no selected file is in /" in done.stderr
