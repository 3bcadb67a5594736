"""Names that lists of the living system give to carved contents, held against the truth."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.matching.file_lists import DigestKind
from ext4kit.recovery.listed_files import ListedName, listed_name
from ext4kit.recovery.listed_matches import (
    LIKELIER,
    LIKELIER_LATE,
    FreedFiles,
    ListedMatches,
    match_listed,
)
from ext4kit.recovery.names import KnownName
from sample_images import build
from sample_images.recipes.leftovers import Leftovers, judge_leftovers
from sample_images.recipes.making import make
from sample_images.recipes.recipe import Recipe
from sample_images.recipes.score import read_records
from sample_images.recipes.truth import Built, FileTruth, Truth, load
from tests.conftest import Cli
from tests.environment.sharing import built_once
from tests.recovery.listed_traps import EACH, TRAPS
from tests.writing_kernel import HERE

# Of the contents in lists that are younger than the files so many come under their names, if their
# files were written within a clock tick. A file that was written in several looks like one that was
# written again.
LISTED = 0.9
WRONG = 0.01  # of what is joined, at most: where a list leaves several files, order decides
UNLISTED = b"home/anna/project/plain"
UNPACKED = b"home/anna/project/unpacked"  # from an archive, which is older: order has to speak too


@dataclass(frozen=True, slots=True)
class Came:
    """A recovery: its records, its folder, and the judgement on it."""

    image: Path
    out: Path
    truth: Truth
    records: list[dict[str, Any]]
    left: Leftovers

    @property
    def listed(self) -> list[dict[str, Any]]:
        """Records whose content is in a list."""
        return [one for one in self.records if "digest" in one["sources"]]


def came_of(ext4kit: Cli, built: Built, out: Path) -> Came:
    done = ext4kit("recover", built.image, "-o", out)
    assert done.returncode in (0, 1), done.stderr
    truth, records = load(built.truth), list(read_records(out))
    return Came(built.image, out, truth, records, judge_leftovers(built.image, truth, out))


@pytest.fixture(scope="module")
def packages(needs_kernel: None, ext4kit: Cli, tmp_path_factory: pytest.TempPathFactory) -> Came:
    name = "forgotten_packages"
    built = built_once(f"small-{name}", lambda folder: build(name, folder, small=True))
    return came_of(ext4kit, built, tmp_path_factory.mktemp("packages") / "out")


@pytest.fixture(scope="module", params=TRAPS, ids=lambda recipe: recipe.name)
def traps(
    request: pytest.FixtureRequest,
    needs_kernel: None,
    ext4kit: Cli,
    tmp_path_factory: pytest.TempPathFactory,
) -> Came:
    recipe: Recipe = request.param
    built = built_once(recipe.name, lambda folder: make(recipe, folder))
    return came_of(ext4kit, built, tmp_path_factory.mktemp("traps") / "out")


def counted_changes(came: Came) -> dict[tuple[int, int], int]:
    """(inode, generation) of the files that are gone -> i_version, where debugfs still has it."""
    asked = [f"stat <{one.inode}>" for one in came.truth.files]
    done = subprocess.run(
        ["debugfs", "-f", "-", came.image],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.findall(
        r"^Inode: (\d+) .*\nGeneration: (\d+) +Version: 0x(\w+):(\w+)", done.stdout, re.MULTILINE
    )
    gone = {(one.inode, one.generation) for one in came.truth.files}
    versions = {(int(one), int(two)): int(high + low, 16) for one, two, high, low in found}
    return {key: version for key, version in versions.items() if key in gone}


@pytest.mark.kernel
def test_listed_contents_come_under_their_names(packages: Came) -> None:
    names: dict[str, set[bytes]] = {}
    for one in packages.records:
        if one["sha256"] and one["name"]:
            names.setdefault(one["sha256"], set()).add(one["name"].encode())
    changes = counted_changes(packages)
    fewest = min(changes.values())
    listed = [
        one
        for one in packages.truth.files
        if not one.path.startswith((UNLISTED, UNPACKED))
        and changes.get((one.inode, one.generation), fewest) == fewest
    ]
    unpacked = [one for one in packages.truth.files if one.path.startswith(UNPACKED)]

    def is_named(one: FileTruth) -> bool:
        return one.path.rpartition(b"/")[2] in names.get(one.sha256, set())

    assert sum(map(is_named, listed)) >= LISTED * len(listed) > 0
    assert any(map(is_named, unpacked))
    wrong = max(len(packages.left.misnamed), len(packages.left.misjoined))
    assert wrong <= WRONG * packages.left.joined


@pytest.mark.kernel
def test_each_digest_of_a_record_is_that_of_the_output_and_stands_in_its_list(
    packages: Came,
) -> None:
    info = {path.name: path for path in Path("/var/lib/dpkg/info").glob("*.md5sums")}
    found = 0
    for one in packages.listed:
        assert one["output"].startswith("inferred/")
        assert one["grade"] == "carved"
        kind, _, rest = one["sources"]["digest"].partition(" of the content in ")
        where, _, path = rest.partition(", for ")
        if kind == "MD5":
            data = (packages.out / one["output"]).read_bytes()
            line = f"{hashlib.md5(data).hexdigest()}  {path}\n"
            assert line in info[Path(where).name].read_text()
            found += 1
    assert found > 0


@pytest.mark.kernel
def test_explain_says_which_list_names_the_content(ext4kit: Cli, packages: Came) -> None:
    one = packages.listed[0]
    line = str(packages.records.index(one) + 1)
    manifest = packages.out / "manifest.jsonl"
    done = ext4kit("explain", packages.image, "--manifest", manifest, "--record", line)
    assert one["sources"]["digest"] in done.stdout, done.stderr


@pytest.mark.kernel
def test_lists_of_files_that_were_changed_since_give_no_wrong_name(traps: Came) -> None:
    assert traps.left.holding >= EACH * 6 and traps.left.names_given >= EACH * 6
    assert traps.left.misnamed == []
    assert [one["output"] for one in traps.records if "evil" in str(one["output"])] == []
    known = {one.sha256 for one in traps.truth.files}
    versions = [one["output"] for one in traps.listed if one["sha256"] not in known]
    earlier = [one.file for one in traps.left.misjoined]
    if not HERE.counts_changes:  # nothing tells there that these files were written again
        earlier = [path for path in earlier if "/rewritten/" not in path]
        versions = [path for path in versions if "/rewritten/" not in path]
    assert versions == earlier == []  # contents that the files of these names had earlier


def name(path: bytes) -> KnownName:
    return KnownName(path.rpartition(b"/")[2], None, b"inode-5-7/" + path, "")


NUMBER = 77


def said(
    path: bytes,
    time: int = 100,
    where: bytes = b"/var/lib/dpkg/info/x.md5sums",
    inode: int | None = None,
) -> ListedName:
    return ListedName(path, DigestKind.MD5, where, time, inode)


def matched(
    listed: dict[int, list[ListedName]],
    files: list[bytes],
    made: int = 50,
    version: int = 2,
    folder_made: int = 0,
) -> ListedMatches:
    """What is matched among contents 0 to 9 and files that were made at one time."""
    columns = (np.full(len(files), one) for one in (NUMBER, made, folder_made, version))
    return match_listed(listed, np.arange(10), FreedFiles([name(path) for path in files], *columns))


README, COPY = b"usr/share/doc/x/README", b"home/x/README"


def test_a_file_that_ends_as_the_listed_path_is_named() -> None:
    assert matched({3: [said(README)]}, [b"root/" + README]).named == {3: 0}
    assert matched({3: [said(README)]}, [b"doc/x/README"]).named == {3: 0}


def test_of_files_with_one_name_the_one_of_the_longest_common_path_is_named() -> None:
    assert matched({3: [said(README)]}, [b"x/README", README, COPY]).named == {3: 1}


def test_a_file_whose_path_is_another_one_is_only_possible() -> None:
    found = matched({3: [said(README)]}, [COPY])
    assert found.named == {}
    assert list(found.texts[3]) == [0]


@pytest.mark.parametrize("made", [100, 101])
def test_a_file_that_was_not_made_before_the_list_is_only_possible(made: int) -> None:
    """Of all that happens within one tick of the clock, no count tells how often it did."""
    found = matched({3: [said(README)]}, [README], made=made)
    assert found.named == {}
    assert list(found.texts[3]) == [0]


@pytest.mark.parametrize(
    ("made", "inode", "is_named"),
    [(100, NUMBER, True), (101, NUMBER, False), (100, NUMBER + 1, False), (99, NUMBER + 1, True)],
)
def test_a_list_with_inode_numbers_tells_what_was_made_in_its_tick(
    made: int, inode: int, is_named: bool
) -> None:
    found = matched({3: [said(README, inode=inode)]}, [README], made=made)
    assert found.named == ({3: 0} if is_named else {})


@pytest.mark.parametrize(
    ("made", "folder_made", "is_late"), [(99, 50, False), (100, 99, True), (101, 100, False)]
)
def test_a_file_may_replace_a_listed_one_in_a_directory_older_than_the_list(
    made: int, folder_made: int, is_late: bool
) -> None:
    found = matched({3: [said(README)]}, [README], made=made, folder_made=folder_made)
    assert found.late[3] == ({0} if is_late else set())
    assert found.contradicts(3, 0, name(README)) == is_late  # order cannot tell old from new
    files, contents = np.array([0]), np.array([3])
    likelier = LIKELIER_LATE if is_late else LIKELIER
    assert found.added_to({}, contents, files)[0][1].tolist() == [likelier]
    in_content = {0: (np.array([0]), np.array([50.0]))}  # it names the file itself
    likelier = max(50.0, likelier)
    assert found.added_to(in_content, contents, files)[0][1].tolist() == [likelier]


def test_a_file_that_was_written_again_does_not_get_what_it_held_before() -> None:
    found = matched({3: [said(README)]}, [README], version=9)
    assert (found.named, found.texts[3]) == ({}, {})
    assert found.contradicts(3, 0, name(README))


def test_a_file_whose_changes_leave_room_for_a_second_writing_is_only_possible() -> None:
    """A truncation and a write within one tick of the clock count as one change."""
    files = [b"usr/a/one", b"usr/a/two"]
    versions = np.array([4, 5])
    listed = {2: [said(files[0])], 7: [said(files[1])]}
    names = [name(path) for path in files]
    columns = FreedFiles(names, np.arange(2), np.full(2, 50), np.zeros(2, np.int64), versions)
    found = match_listed(listed, np.arange(10), columns)
    assert found.named == {2: 0}
    assert list(found.texts[7]) == [1]


def test_a_file_whose_changes_the_kernel_did_not_count_is_only_possible() -> None:
    found = matched({3: [said(README)]}, [README], version=1)
    assert found.named == {}
    assert list(found.texts[3]) == [0]


def test_contents_of_the_same_bytes_are_given_to_as_many_files_in_order() -> None:
    both = [said(b"usr/a/copyright"), said(b"usr/b/copyright")]
    files = [b"usr/a/copyright", b"usr/b/copyright"]
    assert matched({2: both, 7: both}, files).named == {2: 0, 7: 1}
    assert matched({2: both}, files).named == {}
    assert matched({2: both, 7: both, 8: both}, files).named == {}


def test_a_file_for_which_lists_name_two_contents_is_given_neither() -> None:
    older = said(README, where=b"/backup/x.md5sums")
    assert matched({2: [older], 7: [said(README)]}, [README]).named == {}


def test_only_what_order_finds_likely_too_is_given() -> None:
    found = matched({2: [said(README)], 7: [said(b"usr/bin/tool")]}, [README, b"usr/bin/tool"])
    assert found.supported([(2, 0)]) == {2: 0}
    assert found.supported([(5, 0), (7, 1)]) == {7: 1}


def test_a_name_that_no_list_has_contradicts_the_lists() -> None:
    found = matched({2: [said(README)]}, [README])
    assert found.contradicts(2, 0, name(b"home/notes.txt"))
    assert not found.contradicts(2, 0, name(COPY))
    assert not found.contradicts(3, 0, name(b"home/notes.txt"))


def test_a_content_without_an_inode_is_named_where_all_lists_agree() -> None:
    assert listed_name([said(README), said(README)]) == (b"README", README)
    assert listed_name([said(README), said(COPY)]) == (b"README", b"README")
    assert listed_name([said(README), said(b"usr/share/doc/x/NEWS")]) is None


def test_a_content_of_a_listed_file_that_lives_has_no_name() -> None:
    living = ListedName(README, DigestKind.MD5, b"/x.md5sums", 100, is_live=True)
    assert listed_name([living]) is None
