"""The slider shows the tree as the kernel had it after each transaction of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual")

from ext4kit.browse.actions import FoundLine  # noqa: E402
from ext4kit.errors import CorruptError  # noqa: E402
from ext4kit.units import Moment  # noqa: E402
from ext4kit.workspace import Workspace  # noqa: E402
from tests.browse.browsing import Driver, Kept, browsing, run  # noqa: E402
from tests.environment import sharing  # noqa: E402
from tests.environment.kernel import missing_for_kernel  # noqa: E402
from tests.session import Session, Setup, record  # noqa: E402

pytestmark = pytest.mark.skipif(bool(missing_for_kernel()), reason=missing_for_kernel())
SETUP = Setup("browse", operations=30, size=32 << 20, seed=7)


@pytest.fixture(scope="module")
def session() -> Session:
    return sharing.built_once("browse-session", lambda folder: record(SETUP, folder))


@pytest.fixture(scope="module")
def kept(session: Session) -> Iterator[Kept]:
    found = Kept(session.image, (100, 60))
    yield found
    found.close()


def _names(tree: dict[bytes, object]) -> set[str]:
    return {path.decode("utf-8", "replace") for path in tree} - {"/"}


async def _tree(driver: Driver) -> set[str]:
    await driver.open_all()
    assert set(driver.paths().values()) <= {" "}  # nothing deleted at an earlier time
    return set(driver.paths())


@pytest.mark.heavy
def test_each_moment_has_the_names_of_the_kernel(kept: Kept, session: Session) -> None:
    async def flow(driver: Driver) -> None:
        moments = driver.app.moments
        assert moments is not None
        states = session.states()
        recorded = [moments.transaction(position) for position in range(moments.now)]
        assert len(set(recorded) & states.keys()) > 10
        for position in range(moments.now - 1, -1, -10):
            tid = moments.transaction(position)
            while driver.app.wanted != position:
                await driver.press("[")
            await driver.settled()
            assert f"transaction {tid}," in driver.lines[0]
            assert driver.command.endswith(f"--as-of {tid}")
            if tid in states:
                assert await _tree(driver) == _names(dict(states[tid].tree)), tid

    kept.run(flow)


def test_the_ends_and_a_typed_moment(kept: Kept, session: Session) -> None:
    async def flow(driver: Driver) -> None:
        moments = driver.app.moments
        assert moments is not None
        await driver.press("home")
        await driver.settled()
        assert driver.app.position == 0
        middle = moments.now // 2
        await driver.enter("t", f"tid-{moments.transaction(middle)}")
        await driver.settled()
        assert driver.app.position == middle
        await driver.press("]")
        await driver.settled()
        assert driver.app.position == middle + 1
        await driver.press("end")
        await driver.settled()
        assert driver.app.position == moments.now
        assert "| now" in driver.lines[0]
        time = int(moments.times[middle])
        await driver.enter("t", f"@{time // 10**9 + 1}")
        await driver.settled()
        assert driver.app.position == moments.position_at(Moment((time // 10**9 + 1) * 10**9))
        await driver.enter("t", "1999-01-01")
        await driver.settled()
        assert driver.app.position == 0
        assert "the journal begins at 20" in driver.lines[-2]
        await driver.enter("t", "2999-01-01")
        await driver.settled()
        assert driver.app.position == moments.now
        assert "that is now" in driver.lines[-2]
        await driver.enter("t", "no time")
        await driver.settled()
        assert "is not a time" in driver.lines[-2]

    kept.run(flow)


def test_a_result_of_the_present_says_that_the_moment_is_left(kept: Kept) -> None:
    async def flow(driver: Driver) -> None:
        await driver.press("home")
        await driver.settled()
        await driver.enter("S", "lost.found")
        await driver.list_opened()
        await driver.press("enter")
        await driver.settled()
        assert "now at the present" in driver.lines[-2]

    kept.run(flow)


def test_a_moment_that_cannot_be_read_empties_the_panes_and_says_why(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_workspace: Workspace, _tid: int) -> Workspace:
        raise CorruptError("/", None, "its table " + "of inodes " * 20 + "is not known (the end)")

    async def flow(driver: Driver) -> None:
        await driver.press("g", "j", "j")
        await driver.settled()
        monkeypatch.setattr(driver.app.sources, "earlier", missing)
        await driver.press("home")
        await driver.settled()
        await driver.press("g", "j")
        await driver.settled()
        tid = driver.app.moments.transaction(0)  # type: ignore[union-attr]
        pane = driver.app.preview_pane
        text = " ".join(pane.parts(line)[0][0] for line in range(pane.line_count()))
        assert "(the end)" in text
        assert driver.details == []
        assert driver.lines[-1].rstrip().endswith(f"--as-of {tid}")
        monkeypatch.undo()

    kept.run(flow)


def test_a_file_of_an_earlier_time_is_written_as_it_was(
    kept: Kept, session: Session, tmp_path: Path
) -> None:
    import hashlib

    async def flow(driver: Driver) -> None:
        tid, path, node = _a_file_that_moved(session)
        await driver.go(FoundLine("", path, transaction=tid))
        await driver.press(" ")
        await driver.enter("r", str(tmp_path / "out"))
        await driver.settled()
        written = tmp_path / "out/files" / path.decode()[1:]
        assert hashlib.sha256(written.read_bytes()).hexdigest() == node

    kept.run(flow)


def _a_file_that_moved(session: Session) -> tuple[int, bytes, str]:
    """(transaction, path, SHA-256) of a file that has another name in the end."""
    last = session.steps[-1].tree
    stayed = {(node.inode, node.digest) for node in last.values() if node.size}
    for step in session.steps[len(session.steps) // 2 :]:
        for path, node in step.tree.items():
            if node.digest and path not in last and (node.inode, node.digest) in stayed:
                return step.transaction, path, node.digest
    raise AssertionError("the session moves no file")


def test_versions_of_a_file_that_was_written_twice(kept: Kept, session: Session) -> None:
    written = [step.operation for step in session.steps if step.operation.kind in
               ("create", "write", "append", "truncate")]  # fmt: skip
    last = session.steps[-1].tree
    counts = {each.path: 0 for each in written if each.path in last}
    for each in written:
        if each.path in counts:
            counts[each.path] += 1
    path = max(counts, key=lambda one: counts[one])
    assert counts[path] > 1

    async def flow(driver: Driver) -> None:
        await driver.go(FoundLine("", path))
        await driver.press("v")
        lines = await driver.list_opened()
        assert len(lines) > 1
        assert "p: its content" in driver.screen
        await driver.press("g", "enter")
        await driver.settled()
        pane = driver.app.preview_pane
        assert pane.line_count() > 1
        assert "version 1 (-) compared with version 2 (+)" in pane.parts(0)[0][0]
        assert driver.command.startswith("ext4kit versions ")
        driver.app.go_back()
        await driver.press("v")
        last = len(await driver.list_opened())
        await driver.press("G", "enter")
        await driver.settled()
        assert f"version {last - 1} (-) compared with version {last} (+)" in pane.parts(0)[0][0]
        driver.app.go_back()
        await driver.press("v")
        await driver.list_opened()
        await driver.press("G", "p")
        await driver.settled()
        assert f"content of version {last}" in pane.parts(0)[0][0]

    kept.run(flow)


def test_without_a_journal_there_is_only_now(tmp_path: Path) -> None:
    import subprocess

    image = tmp_path / "plain.img"
    with image.open("wb") as made:
        made.truncate(4 << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext2", image], check=True)

    async def flow() -> None:
        async with browsing(image) as driver:
            await driver.found()
            await driver.press("[", "home", "]", "end")
            await driver.settled()
            assert "| now" in driver.lines[0]
            assert "lost+found" in driver.screen

    run(flow())
