"""`ext4kit timeline` shows, filters and counts events."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import ext4kit as library
from ext4kit.report import tables
from ext4kit.report.timeline import timeline_lines
from ext4kit.timeline import EventFilter, EventKind, build_timeline
from sample_images import Built
from tests.conftest import Cli, Images


@pytest.fixture(scope="module")
def sample(unpacked: Images) -> Built:
    """A tree that was removed: made in one transaction or some, gone in others."""
    return unpacked("rm_rf_tree")


def records(cli: Cli, *arguments: str | Path) -> list[dict[str, Any]]:
    done = cli("timeline", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def removed_files(sample: Built) -> set[str]:
    truth = json.loads(sample.truth.read_text())
    gone = [file["path"] for file in truth["files"] if file["state"] == "deleted"]
    return {f"/{path}" for path in gone}


def path_of(record: dict[str, Any]) -> str:
    """A path as the truth has it: what is not UTF-8 replaced."""
    if "path_bytes" in record:
        return base64.b64decode(record["path_bytes"]).decode("utf-8", "replace")
    return str(record["path"])


def test_every_file_that_was_removed_has_its_event(ext4kit: Cli, sample: Built) -> None:
    found = records(ext4kit, sample.image, "--kind", "deleted")
    deleted = {path_of(record) for record in found if record["record"] == "event"}
    assert removed_files(sample) <= deleted


def test_the_counts_are_those_of_the_records(ext4kit: Cli, sample: Built) -> None:
    *found, summary = records(ext4kit, sample.image)
    assert summary["record"] == "summary"
    assert summary["events"] + summary["hints"] == len(found)
    assert sum(summary["kinds"].values()) == len(found)
    times = [record["commit_time_ns"] for record in found if record["commit_time_ns"] is not None]
    assert times == sorted(times)


@pytest.mark.heavy
def test_filters_take_what_fits_and_nothing_else(ext4kit: Cli, sample: Built) -> None:
    found = [each for each in records(ext4kit, sample.image) if each["record"] == "event"]
    middle = found[len(found) // 2]
    when, inode = middle["commit_time_ns"], middle["inode"]
    folder = middle["path"].rpartition("/")[0]
    second = -(-when // 1_000_000_000)
    cases: list[tuple[tuple[str, ...], Any]] = [
        (("--inode", str(inode)), lambda each: each["inode"] == inode),
        (("--kind", "created", "--kind", "mode"), lambda each: each["kind"] in ("created", "mode")),
        (("--path", f"{folder}/*"), lambda each: (each["path"] or "").startswith(f"{folder}/")
         or (each.get("old_path") or "").startswith(f"{folder}/")),
        (("--since", f"@{second}"), lambda each: each["commit_time_ns"] >= second * 10**9),
        (("--until", f"@{second}"), lambda each: each["commit_time_ns"] <= second * 10**9),
    ]  # fmt: skip
    for options, fits in cases:
        assert records(ext4kit, sample.image, *options)[:-1] == [
            each for each in found if fits(each)
        ]


def test_types_and_owners_are_those_of_the_files(ext4kit: Cli, sample: Built) -> None:
    """The truth has regular files, as `stat` gave them; root made them before they had owners."""
    files = json.loads(sample.truth.read_text())["files"]
    owner = {(file["inode"], file["generation"]): file["uid"] for file in files}

    def of_files(*options: str) -> Counter[tuple[int, int]]:
        found = records(ext4kit, sample.image, *options)[:-1]
        keys = ((each["inode"], each["generation"]) for each in found)
        return Counter(key for key in keys if key in owner)

    every = of_files()
    assert every
    assert of_files("--type", "file") == every
    assert not of_files("--type", "dir")
    assert records(ext4kit, sample.image, "--type", "dir")[:-1]
    for uid in (1000, 70000):
        own = Counter({key: count for key, count in every.items() if owner[key] == uid})
        assert of_files("--owner", str(uid)) == own
        assert own
    assert of_files("--owner", "1000", "--owner", "70000", "--owner", "0") == every
    assert not of_files("--owner", str(70000 & 0xFFFF))  # what the kernel leaves in a freed inode


def test_each_event_has_the_owner_of_its_file(ext4kit: Cli, sample: Built) -> None:
    """The truth has the owners as `stat` gave them; root made the files and gave them away."""
    files = json.loads(sample.truth.read_text())["files"]
    owner = {(file["inode"], file["generation"]): file["uid"] for file in files}
    found = records(ext4kit, sample.image)[:-1]
    told = [(each, owner.get((each["inode"], each["generation"]))) for each in found]
    of_files = [(each["uid"], uid) for each, uid in told if uid is not None]
    assert of_files and all(told == uid for told, uid in of_files)
    assert {uid for _, uid in of_files} == {0, 1000, 70000}
    lines = ext4kit("timeline", sample.image).stdout.splitlines()
    assert lines[0].split() == ["committed", "transaction", "event", "inode", "uid", "path"]
    shown = {line.split()[4]: line.split()[5] for line in lines[1:] if "  deleted  " in line}
    of_inode = {str(inode): str(uid) for (inode, _), uid in owner.items()}
    assert shown and all(uid == of_inode.get(inode, uid) for inode, uid in shown.items())


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_terminal_has_the_owner_before_the_path(
    sample: Built, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "screen_width", lambda: width)
    with library.open(sample.image) as image:
        timeline = build_timeline(image.volume().filesystem())
        wanted = EventFilter(kinds=(EventKind.DELETED,))
        lines = "\n".join(timeline_lines(timeline, wanted)).splitlines()
    assert max(map(cell_len, lines)) <= width
    heading = lines[: next(at for at, line in enumerate(lines) if line.endswith("path")) + 1]
    assert len(heading) == (2 if width == 80 else 3)
    assert " ".join(heading).split()[-2:] == ["uid", "path"]


def test_lines_tell_the_same_and_hints_stand_at_the_end(ext4kit: Cli, sample: Built) -> None:
    done = ext4kit("timeline", sample.image, "--all-hints")
    *found, summary = records(ext4kit, sample.image)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    inodes = {each["inode"] for each in found if each["kind"] == "hint"}
    counts = f"{summary['events']:,} events, {summary['hints']:,} hints of {len(inodes):,} inodes"
    assert lines[-1] == counts
    plain = [each for each in found if each["path"].isascii() and "\\" not in each["path"]]
    for record in plain[:: max(len(plain) // 50, 1)]:
        assert any(record["path"] in line and record["kind"] in line for line in lines)


def test_copied_files_are_one_line_for_each_directory(ext4kit: Cli, sample: Built) -> None:
    """The table counts each inode with hints once; records and --all-hints have every hint."""
    *found, summary = records(ext4kit, sample.image, "--kind", "hint")
    assert all(each["copied"] for each in found) and summary["hints"] == len(found) > 100
    done = ext4kit("timeline", sample.image, "--kind", "hint")
    lines = done.stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("inodes"))
    table = [line.split() for line in lines[start + 1 : -1]]
    inodes = Counter(f"/{path_of(each).split('/')[1]}" for each in each_inode(found))
    assert {row[-1]: int(row[0]) for row in table} == inodes
    assert {row[-1]: int(row[1]) for row in table} == Counter(
        f"/{path_of(each).split('/')[1]}" for each in found
    )
    every = ext4kit("timeline", sample.image, "--kind", "hint", "--all-hints").stdout
    assert sum("  hint  " in line for line in every.splitlines()) == len(found)
    assert not [line for line in lines if "  hint  " in line]


def each_inode(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record of each inode instance."""
    return list({(each["inode"], each["generation"]): each for each in found}.values())


def test_hints_can_be_left_out(ext4kit: Cli, sample: Built) -> None:
    *every, _ = records(ext4kit, sample.image)
    *found, summary = records(ext4kit, sample.image, "--no-hints")
    assert found == [each for each in every if each["kind"] != "hint"]
    assert summary["hints"] == 0 and "hint" not in summary["kinds"]
    done = ext4kit("timeline", sample.image, "--no-hints")
    assert "hint" not in done.stdout
    assert done.stdout.splitlines()[-1] == f"{len(found):,} events"
    for words in (["--all-hints"], ["--kind", "hint"]):
        assert ext4kit("timeline", sample.image, "--no-hints", *words).returncode == 2


def test_a_time_that_is_none_is_a_usage_error(ext4kit: Cli, sample: Built) -> None:
    done = ext4kit("timeline", sample.image, "--since", "whenever")
    assert done.returncode == 2
    assert "whenever" in done.stderr


def test_without_a_log_there_are_no_events_and_the_reason_is_told(
    ext4kit: Cli, tmp_path: Path, needs_kernel: None
) -> None:
    from sample_images.recipes import machine

    image = tmp_path / "plain.img"
    machine.make_file_system(image, 16 << 20, ("-t", "ext2"))
    done = ext4kit("timeline", image)
    assert done.returncode == 0
    assert done.stdout == "0 events, 0 hints\n"
    assert "no readable journal" in done.stderr
