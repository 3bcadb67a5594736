"""The cases of NIST on ext2, ext3 and ext4: nothing wrong is said, and enough comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ext4kit.recovery import Grade
from sample_images.recipes.nist.case import KINDS, Made, make
from sample_images.recipes.nist.cases import CASES
from sample_images.recipes.nist.objects import CaseTruth
from sample_images.recipes.nist.placing import BLOCK, PlacementError
from sample_images.recipes.nist.tagged import (
    PART,
    content,
    identify,
    identifying_size,
    part,
    tag_of,
)
from sample_images.recipes.nist.verdict import Verdict, judge
from sample_images.recipes.truth import Built
from tests.environment import ROOT
from tests.environment.sharing import built_once
from tests.writing_kernel import HERE

MOST_OUTSIDE = 0.01  # of the carved contents hold bytes of live files or metadata; none as a rule


@dataclass(frozen=True, slots=True)
class Floor:
    """What an image of a case has to hold, and what has to come of it, each as a share.

    Attributes:
        possible: objects of which all bytes are left, of the deleted ones.
        exact: objects recovered exactly, of the possible ones; on ext3 and ext4, as the next two.
        whole: intact or consistent ones, of the exact ones; intact: intact ones of them.
        partial: partial ones, of the deleted ones.
        back: bytes that come back, of those left.
        contents: files that come back without their path on ext2, of those with all bytes left.
        back_ext2: as `back`, on ext2.
    """

    possible: float = 1.0
    exact: float = 1.0
    whole: float = 1.0
    intact: float = 0.95
    partial: float = 0.0
    back: float = 0.98
    contents: float = 0.95
    back_ext2: float = 0.98


PIECES = Floor(contents=0.0)  # on ext2 a file in fragments comes back as its pieces
MERGED = Floor(contents=0.0, back_ext2=0.5)  # and files whose fragments alternate as one content
PART_OVER = Floor(possible=0.0, intact=0.0, partial=1.0)
FLOORS = {
    "02": PIECES,
    "03": PIECES,
    "03-order": PIECES,
    "05": PIECES,
    "05-braid": MERGED,
    "05-nest": MERGED,
    "07-first": PART_OVER,
    "07-middle": PART_OVER,
    "07-last": PART_OVER,
    "07-several": PART_OVER,
    "07-whole": Floor(possible=0.0),
    "08": Floor(possible=0.25, intact=0.0, partial=0.5),  # written later in the same group
    "10": Floor(possible=0.3, exact=0.98, intact=0.0),  # the allocator decides which
    # Most files are deleted in the mount that wrote them, and where they lie is left to chance.
    "13": Floor(possible=0.7, exact=0.95, intact=0.05, contents=0.4, back_ext2=0.6, back=0.95),
    "13-forgotten": Floor(
        possible=0.7, exact=0.1, intact=0.2, contents=0.4, back_ext2=0.6, back=0.6
    ),
}
SEVERAL_EXTENTS = {"06"}  # without a map the file comes back as its pieces
EVERY = [
    pytest.param(
        name, kind, id=f"{name}-{kind}",
        marks=[pytest.mark.slow] if case.slow or kind != "ext4" else [],
    )
    for name, case in CASES.items()
    for kind in KINDS
]  # fmt: skip

Judged = tuple[str, str, Verdict]


def made(name: str, kind: str) -> Made:
    """The image of a case, made once in a run."""
    try:
        return built_once(f"nist-{name}-{kind}", lambda folder: make(CASES[name], kind, folder))
    except PlacementError as error:
        pytest.skip(f"needs a kernel that allocates as Linux 6.4 to 6.18 does ({error})")


@pytest.fixture(scope="module")
def judged() -> Callable[[str, str], Verdict]:
    """Give the judgement on a case, made once."""
    known: dict[tuple[str, str], Verdict] = {}

    def give(name: str, kind: str) -> Verdict:
        if (name, kind) not in known:
            known[name, kind] = judge(made(name, kind))
        return known[name, kind]

    return give


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_nothing_that_is_said_of_a_case_is_wrong(
    name: str, kind: str, judged: Callable[[str, str], Verdict]
) -> None:
    verdict = judged(name, kind)
    assert verdict.wrong == []
    assert verdict.foreign_in_whole == 0, verdict.findings  # CR-04
    assert set(verdict.outside) <= {"carved"}, verdict.findings
    assert verdict.outside["carved"] <= MOST_OUTSIDE * verdict.carved, verdict.findings
    assert verdict.deleted


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_living_objects_of_a_case_are_listed_as_they_are(
    name: str, kind: str, judged: Callable[[str, str], Verdict]
) -> None:
    verdict = judged(name, kind)
    assert verdict.listed == verdict.live > 0, verdict.findings


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_enough_of_a_case_comes_back(
    name: str, kind: str, judged: Callable[[str, str], Verdict]
) -> None:
    """Who says nothing, or calls everything partial, says nothing wrong."""
    verdict, floor = judged(name, kind), FLOORS.get(name, Floor())
    assert verdict.possible >= floor.possible * verdict.deleted
    if kind == "ext2" or not HERE.log_goes_on:  # a mount writes over the log of the one before
        in_pieces = kind != "ext2" and name in SEVERAL_EXTENTS
        assert in_pieces or verdict.contents >= floor.contents * verdict.whole
        assert verdict.back >= floor.back_ext2 * verdict.parts
        return
    grades = verdict.grades
    assert verdict.exact >= floor.exact * verdict.possible, verdict.findings
    assert verdict.attributes >= 0.95 * verdict.exact, verdict.findings
    assert grades["intact"] + grades["consistent"] >= floor.whole * verdict.exact, grades
    if HERE.best is Grade.INTACT:
        assert grades["intact"] >= floor.intact * verdict.exact, grades
    assert grades["partial"] >= floor.partial * verdict.deleted, grades
    assert verdict.back >= floor.back * verdict.parts


@pytest.fixture
def braid(tmp_path: Path) -> Made:
    """A copy of the case with two files in turn, on ext4, to be changed."""
    original = made("05-braid", "ext4")
    copies = [
        Path(shutil.copy(path, tmp_path))
        for path in (original.built.image, original.built.truth, original.truth)
    ]
    return Made(Built(copies[0], copies[1]), copies[2])


@pytest.mark.kernel
@pytest.mark.parametrize("whose", ["another", "living", "metadata"])
def test_the_judge_notices_a_foreign_block_in_an_intact_file(braid: Made, whose: str) -> None:
    """Written past the file system, which no evidence on the disk excludes."""
    truth = CaseTruth.load(braid.truth)
    first, second = (one for one in truth.deleted)
    living = next(one for one in truth.live if one.tag)
    strange = {
        "another": content(second.tag, BLOCK),
        "living": content(living.tag, BLOCK),
        "metadata": bytes(range(256)) * (BLOCK // 256),
    }
    with braid.built.image.open("r+b") as image:
        image.seek(first.blocks[1][1] * BLOCK)
        image.write(strange[whose])
    verdict = judge(braid)
    assert verdict.foreign == {HERE.best: 1}
    assert verdict.mixed == ({HERE.best: 1} if whose == "another" else {})
    wrong = int(HERE.best is Grade.INTACT)
    assert (len(verdict.wrong), verdict.exact, verdict.is_bad) == (wrong, 1, True)


@pytest.mark.kernel
def test_the_judge_notices_other_times_and_paths(braid: Made) -> None:
    record = json.loads(braid.truth.read_text())
    record["deleted"][0]["times"]["crtime"] += 1
    record["deleted"][1]["paths"] = ["data/elsewhere"]
    record["live"][0]["times"]["mtime"] += 1
    braid.truth.write_text(json.dumps(record))
    verdict = judge(braid)
    wrong = 1 + HERE.log_goes_on  # else the path is the present place of its directory
    assert (verdict.exact, verdict.attributes, len(verdict.wrong)) == (1, 0, wrong)
    assert verdict.listed == verdict.live - 1


def test_each_part_of_a_content_tells_its_file_and_its_place() -> None:
    tag = tag_of(b"some/file")
    data = content(tag, identifying_size(5 * PART + 1))
    parts = [data[at : at + PART] for at in range(0, len(data), PART)]
    assert [identify(one) for one in parts] == [(tag, number) for number in range(6)]
    assert identify(part(tag, 7)[:-2] + b"x\n") is None
    assert identify(bytes(PART)) is None


def test_the_page_has_every_case() -> None:
    rows = (ROOT / "docs/nist.md").read_text().splitlines()
    named = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    heads = {"case", "---"}
    assert [name for name in named if name not in heads] == [*CASES] * (1 + len(KINDS))
