"""What the commands say of the packed samples is what the goldens hold."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from ext4kit.reasons import CARVED_BOUNDARIES, CATALOGUE, EXTENT_COUNT, XATTR_LIMIT
from sample_images import packed_names
from tests.conftest import Images
from tests.environment import ROOT
from tests.goldens.__main__ import compare
from tests.goldens.collect import CRASH, Output, Record, collect
from tests.goldens.results import KEPT, coded, differences, from_text, results_of, to_text

ADVICE = "if the change log tells of such a change: python -m tests.goldens --write"
CODE = re.compile(r"[a-z-]+( \w+=.*)?")
REASON = CARVED_BOUNDARIES.text


@pytest.mark.heavy
@pytest.mark.parametrize("name", packed_names())
def test_results_are_those_that_were_kept(unpacked: Images, name: str) -> None:
    results = results_of(collect(unpacked(name).image))
    kept = from_text((KEPT / f"{name}.txt").read_text(encoding="utf-8"))
    if found := list(differences(kept, results)):
        pytest.fail("\n".join([*found[:40], f"{len(found)} differences; {ADVICE}"]), pytrace=False)
    records = [one for result in results.values() for one in result.records.values()]
    assert [one for one in records if one["record"] == CRASH] == []
    with_codes = [one for one in records if "reasons" in one]
    assert [one for one in with_codes if one["problems"] != _texts(one["reasons"])] == []
    codes = {each["code"] for one in with_codes for each in one["reasons"]}
    assert codes <= {one.code for one in CATALOGUE}
    reasons = {text for one in records for text in one.get("problems", [])}
    assert [text for text in reasons if not CODE.fullmatch(text)] == []


def _texts(reasons: list[dict[str, str]]) -> list[str]:
    return [one["text"] for one in reasons]


def test_every_sample_has_a_golden() -> None:
    assert sorted(path.stem for path in KEPT.iterdir()) == packed_names()


@pytest.fixture(scope="module")
def outputs(unpacked: Images) -> list[Output]:
    return list(collect(unpacked("large_extent_leaves").image))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda records: records[0].update(grade="carved"), 'changed {"rec.*"grade": "carved".*'),
        (lambda records: records[0].update(problems=["a new text"]), 'changed .*"a new text".*'),
        (lambda records: records.append(records[0]), 'new {"record": "deleted", .*'),
        (lambda records: records.pop(0), "missing .*"),
        (lambda records: records.reverse(), "the same records in another order"),
    ],
)
def test_a_change_is_named(
    outputs: list[Output], change: Callable[[list[Record]], object], told: str
) -> None:
    changed = deepcopy(outputs)
    (records,) = (records for command, _, records in changed if command == "deleted IMAGE")
    key = f"deleted {records[0]['inode']} {records[0]['generation']}"
    change(records)
    (line,) = differences(from_text(to_text(results_of(outputs))), results_of(changed))
    assert re.fullmatch(f"deleted IMAGE: ({key}( #2)?: )?{told}", line)


def test_texts_are_held_by_their_codes() -> None:
    said = ["its map is that of an earlier time", "it had 2 extents and more than 1,024 bytes"]
    said += ["extended attributes: more of them than the evidence can hold", "a new text"]
    said += [XATTR_LIMIT.text, EXTENT_COUNT.filled(n=2, size="1,024").text]
    held = ["rebuilt-map-older", "extent-count n=2 size=1,024", "xattrs-incomplete why=xattr-limit"]
    assert coded({"problems": said}) == {"problems": [*held, "a new text", held[2], held[1]]}


@pytest.mark.heavy
def test_another_checkout_is_compared_field_by_field(unpacked: Images, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ext4kit", tmp_path / "ext4kit")
    module = tmp_path / "ext4kit/reasons.py"
    module.write_text(module.read_text(encoding="utf-8").replace(REASON, "old words"))
    found = list(compare(tmp_path, unpacked("removed_on_5_10").image))
    assert found
    expected = re.compile(
        r'.*: changed problems: \["old words".*\] -> \["carved-boundaries".*\]'
        r'; reasons: .*"text": "old words".* -> .*"text": "carved-boundaries".*'
    )
    assert [line for line in found if not expected.fullmatch(line)] == []
