"""Each key of the browser does what it promises; what is true comes from the recipes."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from textual import events  # noqa: E402
from textual.widgets import Input  # noqa: E402

from ext4kit.browse.actions import FoundLine  # noqa: E402
from ext4kit.browse.background import Task  # noqa: E402
from ext4kit.browse.screens import KEYS  # noqa: E402
from ext4kit.browse.tree import OpenFolder  # noqa: E402
from ext4kit.filesystem.view import Node  # noqa: E402
from ext4kit.units import Progress  # noqa: E402
from ext4kit.workspace import Workspace  # noqa: E402
from tests.browse.browsing import Driver, Kept, browsing, run  # noqa: E402
from tests.conftest import Cli, Images  # noqa: E402
from tests.environment import needs  # noqa: E402
from tests.program import run_program  # noqa: E402

SAMPLE = "rm_rf_tree"
LIVE = "/keep/ledger/number-0014.txt"


@pytest.fixture
def image(unpacked: Images) -> Path:
    return unpacked(SAMPLE).image


@pytest.fixture
def truth(unpacked: Images) -> dict[str, Any]:
    text = unpacked(SAMPLE).truth.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def kept(unpacked: Images) -> Iterator[Kept]:
    """A browser of the sample."""
    found = Kept(unpacked(SAMPLE).image, (110, 44))
    yield found
    found.close()


def deleted_of(truth: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the deleted files whose path is in the log."""
    files = truth["files"]
    return {f"/{one['path']}": one["sha256"] for one in files
            if one["state"] == "deleted" and one["path_in_log"]}  # fmt: skip


def live_of(truth: dict[str, Any]) -> dict[str, str]:
    return {f"/{one['path']}": one["sha256"] for one in truth["live"]}


def digests_below(folder: Path) -> dict[str, str]:
    """SHA-256 of the files below a folder, by path."""
    return {f"/{path.relative_to(folder)}": hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def test_the_tree_has_live_and_deleted_files_together(
    kept: Kept, image: Path, truth: dict[str, Any]
) -> None:
    async def flow(driver: Driver) -> None:
        await driver.open_all()
        letters = driver.paths()
        live = {path for path, letter in letters.items() if letter == " "}
        gone = {path for path, letter in letters.items() if letter == "D"}
        assert live_of(truth).keys() <= live
        assert {path.replace("//", "/") for path in deleted_of(truth)} <= gone
        assert not live & deleted_of(truth).keys()

    kept.run(flow)


def test_the_letter_is_on_the_screen_and_without_colour(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            assert any(line.startswith(" D   ▸ project/") for line in driver.lines)
            assert any(line.startswith("     ▸ keep/") for line in driver.lines)
            assert any("#" in line or "@" in line for line in driver.lines[-4:-3])  # histogram
            assert "O" in driver.lines[-3]

    run(flow())


def test_a_marked_file_is_written_with_its_bytes(
    kept: Kept, image: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    gone = next(path for path in sorted(deleted_of(truth)) if path.endswith(".db"))
    live, out = next(iter(live_of(truth))), tmp_path / "out"

    async def flow(driver: Driver) -> None:
        for path in (gone, live):
            await driver.go(FoundLine("", path.encode()))
            await driver.press(" ")
        assert "2 marked" in driver.lines[0]
        await driver.enter("r", str(out))
        await driver.settled()
        assert len(driver.app.marks) == 0

    kept.run(flow)
    assert digests_below(out / "live/files")[live] == live_of(truth)[live]
    assert digests_below(out / "deleted/files")[gone] == deleted_of(truth)[gone]
    for part in ("live", "deleted"):
        assert (out / part / "manifest.jsonl").exists()
        case = json.loads((out / part / "case.json").read_text())
        assert (case["state"], case["command"][2]) == ("complete", str(image))


def test_a_marked_folder_is_written_with_its_deleted_files(
    kept: Kept, truth: dict[str, Any], tmp_path: Path
) -> None:
    out, gone = tmp_path / "both", tmp_path / "gone"

    async def flow(driver: Driver) -> None:
        await driver.press("g", " ")  # all of the image
        await driver.enter("r", str(out))
        await driver.settled()
        assert f"live, {len(truth['files'])} deleted files written" in driver.app.message
        await driver.enter("f", "deleted")
        await driver.settled()
        await driver.press("g", " ")
        await driver.enter("r", str(gone))
        await driver.settled()
        assert driver.app.message.startswith(f"{len(truth['files'])} deleted files written")

    kept.run(flow)
    deleted, live = Counter(deleted_of(truth).values()), live_of(truth)
    for folder in (out / "deleted", gone):
        assert deleted <= Counter(digests_below(folder).values())
        assert (folder / "manifest.jsonl").exists()
    assert Counter(live.values()) <= Counter(digests_below(out / "live/files").values())
    assert not any("ledger/number-0014" in path for path in digests_below(gone))


def test_a_deleted_folder_and_the_filter_on_what_is_below(
    kept: Kept, image: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    async def flow(driver: Driver) -> None:
        await driver.enter("f", "name:contract")
        await driver.settled()
        await driver.go(FoundLine("", b"/mail"))
        await driver.enter("r", str(out))  # without a mark: the one at the cursor
        await driver.settled()

    kept.run(flow)
    wanted = [sha for path, sha in deleted_of(truth).items()
              if path.startswith("/mail/") and "contract" in path.rpartition("/")[2]]  # fmt: skip
    assert wanted
    found = {path: sha for path, sha in digests_below(out).items() if path.startswith("/files/")}
    assert sorted(found.values()) == sorted(wanted)


def test_since_is_the_time_of_the_deletion_and_any_time_of_a_live_file(
    kept: Kept, image: Path, truth: dict[str, Any]
) -> None:
    latest = max(file["mtime_ns"] for file in truth["files"]) // 10**9 + 1  # deleted after that

    async def flow(driver: Driver) -> None:
        await driver.enter("f", f"since:@{latest}")  # the inodes of live ones were changed
        await driver.settled()
        await driver.open_all()
        assert deleted_of(truth).keys() <= driver.paths().keys()
        assert live_of(truth).keys() <= driver.paths().keys()
        await driver.enter("f", f"deleted until:@{latest}")
        await driver.settled()
        await driver.open_all()
        assert not (deleted_of(truth).keys() | live_of(truth).keys()) & driver.paths().keys()
        assert any("hidden by the filter" in line for line in driver.lines)
        assert not any(line.rstrip().endswith(" empty") for line in driver.lines)

    kept.run(flow)


def test_all_deleted_files_are_listed_with_their_times(kept: Kept, truth: dict[str, Any]) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("D")
        lines = await driver.list_opened()
        plain = [path for path in deleted_of(truth) if "odd names" not in path]
        assert all(any(line.endswith(path) for line in lines) for path in plain)
        assert all(line.startswith("20") for line in lines[:50])  # a time
        await driver.press("enter")
        await driver.settled()
        row = driver.app.tree_pane.row
        assert row is not None
        assert lines[0].endswith(row.label + "/" * row.is_directory)

    kept.run(flow)


def test_changes_below_a_directory_are_those_of_the_timeline(
    kept: Kept, image: Path, ext4kit: Cli
) -> None:
    def events(*words: str) -> list[dict[str, Any]]:
        done = ext4kit("timeline", image, *words, "--no-hints", "--json")
        return [json.loads(line) for line in done.stdout.splitlines()][:-1]  # the summary

    async def changes(driver: Driver, path: bytes, wanted: str) -> tuple[list[str], str]:
        driver.app.set_filter("")
        await driver.settled()
        await driver.go(FoundLine("", path))
        driver.app.set_filter(wanted)
        await driver.settled()
        await driver.press("w")
        lines = await driver.list_opened()
        await driver.press("escape")
        return lines, driver.app.last_command

    async def flow(driver: Driver) -> None:
        times = sorted(event["commit_time_iso"] for event in events())
        cut = times[len(times) // 2]
        for path, wanted in ((b"/", ""), (b"/mail/harbour", ""), (b"/", f"until:{cut}"),
                             (b"/", f"since:{cut}"), (b"/keep", "since:1s")):  # fmt: skip
            lines, command = await changes(driver, path, wanted)
            words = command.split()
            assert words[:2] == ["ext4kit", "timeline"]
            told = events(*(word for word in words[3:] if word != "--no-hints"))
            assert len(lines) == len(told), command
            for line, event in zip(lines, told, strict=True):
                assert f"uid {event['uid']}" in line
                assert event["kind"] in line
        driver.app.set_filter("")

    kept.run(flow)


def test_the_hint_stays_and_a_long_command_is_cut_with_a_mark(image: Path) -> None:
    async def flow() -> None:
        async with browsing(image, size=(80, 24)) as driver:
            await driver.found()
            await driver.go(FoundLine("", b"/mail/harbour/ledger/contract-0014.tar.gz"))
            await driver.settled()
            driver.app.say("something " * 20)
            await driver.pilot.pause()
            assert driver.lines[-2].rstrip().endswith("… ? for keys") or "…" in driver.lines[-2]
            assert driver.lines[-2].rstrip().endswith("? for keys")
            long = "ext4kit cat " + "word " * 30
            driver.app.show_command(long.strip())
            await driver.pilot.pause()
            assert driver.lines[-1].rstrip().endswith("word …")
            driver.app.show_command("ext4kit report disk.img")
            await driver.press("c")
            assert long.strip() in await driver.list_opened()  # whole, of an earlier action
            await driver.press("escape")

    run(flow())


def test_the_pane_with_the_keys_is_in_reverse(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            app = driver.app

            def reversed_panes() -> list[bool]:
                panes = (app.tree_pane, app.preview_pane, app.details_pane)
                lines = (pane.cursor if pane.has_cursor else 0 for pane in panes)
                strips = [pane.render_line(y) for pane, y in zip(panes, lines, strict=True)]
                return [any(one.style and one.style.reverse for one in strip) for strip in strips]

            assert reversed_panes() == [True, False, False]
            await driver.press("tab")
            assert reversed_panes() == [False, True, False]

    run(flow())


def test_a_directory_preview_has_names_first_and_counts_deleted_entries(kept: Kept) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("g", "j", "k")
        await driver.settled()
        pane = driver.app.preview_pane
        lines = ["".join(text for text, _ in pane.parts(at)) for at in range(pane.line_count())]
        assert any(line.startswith("project/") for line in lines)
        assert any(line.startswith("keep/") for line in lines)
        assert any(line.strip().startswith(("deleted", "folder of deleted")) for line in lines)

    kept.run(flow)


def test_a_search_that_finds_nothing_says_that_there_is_a_filter(kept: Kept) -> None:
    async def flow(driver: Driver) -> None:
        await driver.enter("f", "deleted")
        await driver.settled()
        await driver.enter("S", "number-0014.txt")  # is live
        await driver.list_opened()
        assert "nothing was found (the filter is on)" in driver.screen
        await driver.press("escape")

    kept.run(flow)


def test_right_goes_into_an_open_directory(kept: Kept) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("g", "j", "l")
        await driver.settled()
        await driver.press("l")
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.branch.names == (b"keep",)
        assert driver.app.tree_pane.cursor == 2

    kept.run(flow)


def test_quit_asks_once_when_marks_are_left(image: Path) -> None:
    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            await driver.press("j", " ", "q")
            assert "q again quits" in driver.app.message
            assert driver.app.is_running
            assert driver.app.return_code is None
            await driver.press("q")
            assert driver.app.return_value == 0

    run(flow())


def test_a_folder_that_is_not_empty_is_refused(kept: Kept, image: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    async def flow(driver: Driver) -> None:
        await driver.go(FoundLine("", LIVE.encode()))
        await driver.press(" ")
        await driver.enter("r", str(tmp_path))
        await driver.settled()
        assert "empty" in driver.lines[-2]

    kept.run(flow)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_names_are_found_while_they_are_typed_and_again(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("s", "p", "r", "o", "enter")
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.label == "project"
        await driver.press("g", "n")
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.label == "project"
        await driver.enter("s", "nothing-has-this")
        assert "no open directory" in driver.lines[-2]

    kept.run(flow)


def test_what_is_typed_ahead_is_part_of_the_answer(kept: Kept) -> None:
    async def flow(driver: Driver) -> None:
        for key in ("s", "p", "i", "q", "b"):  # keys of the browser, all at once
            driver.app.post_message(events.Key(key, key))
        await driver.settled()
        assert driver.app.query_one("#answer", Input).value == "piqb"
        assert not driver.app.tasks
        assert not driver.has_list
        await driver.press("escape")

    kept.run(flow)


def test_names_of_all_files_are_found_and_gone_to(
    kept: Kept, image: Path, truth: dict[str, Any]
) -> None:
    wanted = {path for path in {**live_of(truth), **deleted_of(truth)} if "harbour-0006" in path}
    assert wanted

    async def flow(driver: Driver) -> None:
        await driver.enter("S", "HARBOUR-0006")
        lines = await driver.list_opened()
        assert {line.split("  ")[0] for line in lines} == wanted
        await driver.press("enter")
        await driver.settled()
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.node is not None
        assert row.node.path.decode() in wanted

    kept.run(flow)


def test_content_is_searched_and_a_hit_is_gone_to(
    kept: Kept, image: Path, truth: dict[str, Any]
) -> None:
    path = next(path for path in sorted(deleted_of(truth)) if path.endswith("-0014.tar.gz"))
    text = f"0 {path[1:]}"  # with what the recipe begins each file

    async def flow(driver: Driver) -> None:
        await driver.enter("/", text)
        lines = await driver.list_opened()
        assert any(path in line for line in lines)
        await driver.press("j", "enter")
        await driver.settled()
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.node is not None
        assert row.node.path.decode() == path

    kept.run(flow)


def test_the_filter_shows_deleted_files_of_a_name_alone(
    kept: Kept, image: Path, truth: dict[str, Any]
) -> None:
    async def flow(driver: Driver) -> None:
        await driver.enter("f", "deleted name:contract")
        await driver.settled()
        await driver.open_all()
        files = {path for path in driver.paths() if path in
                 {**deleted_of(truth), **live_of(truth)}}  # fmt: skip
        assert files == {path for path in deleted_of(truth) if "contract" in path}
        assert "filter: deleted name:contract" in driver.lines[0]
        await driver.enter("f", "")
        await driver.settled()
        assert live_of(truth).keys() & driver.paths().keys()
        await driver.enter("f", "wrong:word")
        assert "is none of" in driver.lines[-2]

    kept.run(flow)


def test_known_files_are_hidden(image: Path, truth: dict[str, Any], tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text(live_of(truth)[LIVE] + "\n")

    async def flow() -> None:
        async with browsing(image, known=(known,)) as driver:
            await driver.found()
            await driver.enter("f", "hide-known")
            await driver.settled()
            await driver.open_all()
            paths = driver.paths()
            assert LIVE not in paths
            assert "/keep/ledger/private-0015.conf" in paths

    run(flow())


def test_signs_of_the_report_are_listed(kept: Kept, image: Path, ext4kit: Cli) -> None:
    told = [json.loads(line) for line in ext4kit("report", image, "--json").stdout.splitlines()]
    titles = {one["title"] for one in told if one["record"] == "sign"}

    async def flow(driver: Driver) -> None:
        await driver.press("i")
        lines = await driver.list_opened()
        headings = {line.rpartition("  (")[0] for line in lines if not line.startswith(" ")}
        assert headings == titles

    kept.run(flow)


def test_a_block_leads_to_its_file(kept: Kept, image: Path, truth: dict[str, Any]) -> None:
    file = next(one for one in truth["files"] if one["state"] == "deleted" and one["blocks"])
    block = file["blocks"][0][1]

    async def flow(driver: Driver) -> None:
        await driver.enter("b", str(block))
        lines = await driver.list_opened()
        assert f"before: /{file['path']}" in lines
        await driver.press("escape")
        await driver.enter("b", "99999999")
        await driver.settled()
        assert "this file system has blocks" in driver.lines[-2]

    kept.run(flow)


def test_another_kind_of_preview_has_the_bytes(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.go(FoundLine("", LIVE.encode()))
        await driver.settled()
        assert "keep/ledger/number-0014.txt" in driver.screen
        await driver.press("p")
        await driver.settled()
        assert b"keep/".hex(" ") in driver.screen or b"keep/".hex() in driver.screen

    kept.run(flow)


def test_the_panes_tell_inode_and_grade(kept: Kept, truth: dict[str, Any]) -> None:
    file = next(one for one in truth["files"] if one["path"].endswith("0014.tar.gz"))

    async def flow(driver: Driver) -> None:
        await driver.go(FoundLine("", f"/{file['path']}".encode()))
        await driver.settled()
        facts = driver.details
        assert f"Inode: {file['inode']}" in facts
        assert any(line.startswith("Grade: intact") for line in facts)
        assert f"a file of {file['size']:,} bytes" in " ".join(facts)  # a sentence of `explain`

    kept.run(flow)


def test_a_bookmark_is_saved_listed_and_found_again(image: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.jsonl"

    async def flow() -> None:
        async with browsing(image, case=case) as driver:
            await driver.found()
            await driver.go(FoundLine("", LIVE.encode()))
            await driver.enter("m", "look at [this]")
        async with browsing(image, case=case) as driver:
            await driver.found()
            await driver.press("M")
            lines = await driver.list_opened()
            assert lines == [f"{LIVE}  look at [this]"]
            await driver.press("enter")
            await driver.settled()
            row = driver.app.tree_pane.row
            assert row is not None
            assert row.label == LIVE.rpartition("/")[2]

    run(flow())
    (record,) = map(json.loads, case.read_text().splitlines())
    assert (record["record"], record["path"], record["note"]) == (
        "bookmark", LIVE, "look at [this]")  # fmt: skip
    assert str(image) in record["locator"]


def test_names_of_the_image_cannot_control_the_screen(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.go(FoundLine("", b"/keep/odd names/two words.txt"))
        text = driver.screen
        assert r"\x1b[31mred\x1b[0m" in text
        assert "[bold]not markup[/" in text
        assert r"line\x0abreak.log" in text
        assert "\x1b" not in text

    kept.run(flow)


@pytest.mark.heavy
@pytest.mark.parametrize("size", [(80, 24), (20, 5), (1, 1)])
def test_any_size_of_screen(image: Path, size: tuple[int, int]) -> None:
    async def flow() -> None:
        async with browsing(image, size=size) as driver:
            await driver.found()
            await driver.press("j", "l", "p", "?", "escape", "c", "escape")
            await driver.pilot.resize_terminal(100, 30)
            await driver.settled()
            assert "keep" in driver.screen

    run(flow())


def test_vim_keys_and_arrows_move_alike(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        places = []
        for keys in (("g", "j", "j", "k", "l"), ("g", "down", "down", "up", "right")):
            await driver.press(*keys)
            await driver.settled()
            row = driver.app.tree_pane.row
            assert row is not None
            places.append((row.label, row.is_open))
            await driver.press("h")
        assert places == [("keep", True), ("keep", True)]
        await driver.press("G")
        assert driver.app.tree_pane.cursor == len(driver.app.rows) - 1

    kept.run(flow)


def test_the_mouse_moves_opens_and_chooses_a_moment(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.pilot.click("#tree", offset=(8, 1))
        await driver.pilot.click("#tree", offset=(8, 1))
        await driver.settled()
        row = driver.app.tree_pane.row
        assert row is not None
        assert (row.label, row.is_open) == ("keep", True)
        await driver.pilot.click("#slider", offset=(0, 1))
        await driver.settled()
        assert driver.app.position == 0

    kept.run(flow)


def test_keys_are_listed_and_every_key_is_in_the_list(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("?")
        lines = await driver.list_opened()
        assert len(lines) == len(KEYS)
        await driver.press("escape")
        assert not driver.has_list

    kept.run(flow)


def test_light_and_dark(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        before = driver.app.current_theme.dark
        await driver.press("T")
        assert driver.app.current_theme.dark is not before

    kept.run(flow)


def test_carving_shows_progress_and_can_be_left(kept: Kept, image: Path) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("G", "l")
        await driver.settled()
        row = driver.app.tree_pane.row
        assert row is not None
        assert row.is_open

    kept.run(flow)


def by_shell(line: str) -> bytes:
    """What a command line writes, its words as bash reads them."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    name, *words = done.stdout.split(b"\0")[:-1]
    assert name == b"ext4kit"
    ended = run_program(*words)
    assert ended.returncode == 0, (line, ended.stderr)
    return ended.stdout


def test_a_directory_opened_while_another_tree_is_read_stays_open(image: Path) -> None:
    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            fill = driver.app._fill

            async def slow(branch: OpenFolder, task: Task | None = None) -> None:
                if not branch.names:
                    await driver.press("j", "l")  # while the root of the other state is read
                await fill(branch, task)

            driver.app._fill = slow  # type: ignore[method-assign]
            driver.app.run_worker(driver.app._go_to(0))
            await driver.settled()
            row = driver.app.rows.row(1)
            assert driver.app.position == 0
            assert row is not None
            assert (row.label, row.is_open) == ("keep", True)

    run(flow())


def test_what_takes_long_is_left_with_escape(image: Path) -> None:
    def carve(_workspace: Workspace, progress: Progress | None) -> Node:
        assert progress is not None
        while True:  # until it is cancelled
            progress(1, 4)

    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            driver.app.sources._carved_top = carve  # type: ignore[method-assign,assignment]
            await driver.press("G", "l")
            await driver.until(lambda: "carving 25 %" in driver.lines[-2], "no progress")
            await driver.press("k", "j")  # the screen does not wait
            await driver.press("escape")
            await driver.settled()
            row = driver.app.rows.row(len(driver.app.rows) - 1)
            assert row is not None
            assert row.message == "cancelled"

    run(flow())


@needs("debugfs")
def test_a_directory_that_is_damaged_says_so_in_its_place(image: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.img"
    shutil.copyfile(image, copy)
    asked = ["debugfs", "-R", "blocks /keep/ledger", str(copy)]
    block = int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0])
    with copy.open("r+b") as stream:
        stream.seek(block * 4096)
        stream.write(b"\xff" * 4096)

    async def flow() -> None:
        async with browsing(copy) as driver:
            await driver.found()
            await driver.go(FoundLine("", b"/keep/ledger"))
            await driver.press("l")
            await driver.settled()
            assert any("  error: " in line for line in driver.lines)
            await driver.go(FoundLine("", b"/keep/meeting/invoice/harbour-0006.tar.gz"))
            row = driver.app.tree_pane.row
            assert row is not None
            assert row.label == "harbour-0006.tar.gz"

    run(flow())


async def _shown_command(driver: Driver, path: str) -> list[str]:
    await driver.go(FoundLine("", path.encode()))
    await driver.settled()
    await driver.press("c")
    lines = await driver.list_opened()
    await driver.press("escape")
    return lines


@pytest.mark.heavy
def test_the_commands_do_the_same(kept: Kept, image: Path, truth: dict[str, Any]) -> None:
    gone = sorted(p for p in deleted_of(truth) if "odd names" in p and "\ufffd" not in p)
    live = sorted(p for p in live_of(truth) if "odd names" in p and "\ufffd" not in p)
    commands: dict[str, list[str]] = {}

    async def flow(driver: Driver) -> None:
        for path in (*gone[:2], *live[:2]):
            commands[path] = await _shown_command(driver, path)

    kept.run(flow)
    assert len(commands) == 4
    for path, lines in commands.items():
        digests = {**deleted_of(truth), **live_of(truth)}
        assert lines[0].startswith("ext4kit cat")
        assert hashlib.sha256(by_shell(lines[0])).hexdigest() == digests[path], lines[0]
        for line in lines[1:]:
            by_shell(line)
