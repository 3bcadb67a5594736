"""Patterns of paths match what `glob` of the standard library finds in real directories."""

from __future__ import annotations

import glob
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from ext4kit.errors import RequestError
from ext4kit.parsers.directory import Names
from ext4kit.triage.rules.patterns import PathPatterns, as_regex, expanded

NAMES = ("a", "ab", "b.php", ".ssh", "x.php5", "cron.d", "cron.daily", "[a]", "n\nl", "café", "*")
PARTS = ("a", "*", "**", "?b", "*.php", "cron.*", "[ab]*", "[!a]*", ".*", "*a*", "c*[dy]", "café")


def made(root: Path, chance: random.Random, depth: int = 4) -> None:
    for name in chance.sample(NAMES, 6 if depth == 4 else 3):
        if depth and chance.random() < 0.6:
            (root / name).mkdir()
            made(root / name, chance, depth - 1)
        else:
            (root / name).touch()


def every_path(root: Path) -> list[bytes]:
    return [
        b"/" + os.fsencode(path.relative_to(root)) for path in sorted(root.rglob("*"))
    ]  # fmt: skip


def by_glob(root: Path, pattern: str) -> set[bytes]:
    """What a shell with globstar and dotglob finds, with this root; `/**` without its directory."""
    below = pattern[1:] + "/*" if pattern.endswith("/**") else pattern[1:]
    found = glob.glob(below, root_dir=root, recursive=True, include_hidden=True)  # noqa: PTH207 -- hidden ones
    return {b"/" + os.fsencode(path) for path in found}


def random_patterns(chance: random.Random, number: int) -> list[str]:
    return [
        "/" + "/".join(chance.choices(PARTS, k=chance.randrange(1, 5))) for _ in range(number)
    ]  # fmt: skip


@pytest.fixture(scope="module", params=range(4))
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    made(root, random.Random(request.param))
    return root


def matched(patterns: Sequence[str], paths: Sequence[bytes]) -> list[set[bytes]]:
    automaton = PathPatterns([[one] for one in patterns])
    numbers = {path: automaton.of_path(path) for path in paths}
    return [{path for path in paths if at in numbers[path]} for at in range(len(patterns))]


def test_patterns_match_what_glob_finds(tree: Path) -> None:
    paths = every_path(tree)
    patterns = random_patterns(random.Random(len(paths)), 300)
    expected = [by_glob(tree, one) for one in patterns]
    assert sum(map(bool, expected)) > 50
    for pattern, found, wanted in zip(patterns, matched(patterns, paths), expected, strict=True):
        assert found == wanted, pattern
        regex = as_regex(pattern)
        assert {path for path in paths if regex.fullmatch(path)} == wanted, pattern


def test_columns_of_names_match_as_single_names_do(tree: Path) -> None:
    patterns = random_patterns(random.Random(7), 200)
    automaton = PathPatterns([[one] for one in patterns])
    for folder in [b"", *every_path(tree)]:
        path = tree / os.fsdecode(folder[1:])
        names = [os.fsencode(one.name) for one in path.iterdir()] if path.is_dir() else []
        state = automaton.of_folder(folder)
        found: list[set[int]] = [set() for _ in names]
        for rules, mask in state.among(Names.of(names)):
            for row in mask.nonzero()[0].tolist():
                found[row].update(rules)
        assert found == [automaton.of_path(folder + b"/" + name) for name in names]


def test_braces_stand_for_each_alternative() -> None:
    found = expanded("/{a,b}/{c,{d,e}}")
    assert sorted(found) == ["/a/c", "/a/d", "/a/e", "/b/c", "/b/d", "/b/e"]
    assert expanded("{/x,/y}/**") == ("/x/**", "/y/**")
    paths = [b"/x/z.a", b"/y/1/2/z.b", b"/x/z.c", b"/z.a"]
    assert matched(["{/x,/y}/**/z.{a,b}"], paths) == [{b"/x/z.a", b"/y/1/2/z.b"}]


def test_directories_can_be_roots_of_their_own() -> None:
    automaton = PathPatterns([["/etc/passwd"]], [b"/srv/box"].__contains__)
    assert automaton.of_path(b"/srv/box/etc/passwd") == automaton.of_path(b"/etc/passwd") == {0}
    assert automaton.of_path(b"/srv/etc/passwd") == set()


@pytest.mark.parametrize("pattern", ["etc/passwd", "", "{a,/b}", "/" + "{1,2,3,4,5,6,7,8,9}" * 6])
def test_a_pattern_that_cannot_be_followed_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError):
        expanded(pattern)
