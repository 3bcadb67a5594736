"""A command reads the log once, however much it derives from that."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.cli import main
from ext4kit.journal.log import Log
from ext4kit.recovery import find_deleted
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.timeline import build_timeline
from ext4kit.workspace import Workspace
from tests.conftest import Images

SAMPLE = "rm_rf_tree"
COMMANDS = (
    ("report",), ("deleted",), ("timeline",), ("versions", "/etc/hostname"), ("info",),
    ("export", "--bodyfile", "BODY", "--timesketch-csv", "CSV", "--db", "DB"),
)  # fmt: skip


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often a log is opened."""
    count: Counter[str] = Counter()
    given = Log.__init__

    def counted(self: Log, *arguments: object, **named: object) -> None:
        count["log"] += 1
        given(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "__init__", counted)
    return count


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_the_log_is_opened_once(
    unpacked: Images, opened: Counter[str], words: tuple[str, ...], tmp_path: Path
) -> None:
    places = {name: str(tmp_path / name) for name in ("BODY", "CSV", "DB")}
    first, *rest = (places.get(word, word) for word in words)
    main.run([first, str(unpacked(SAMPLE).image), *rest])
    assert opened["log"] == 1


def test_a_result_is_made_once_while_it_is_held(unpacked: Images, opened: Counter[str]) -> None:
    with library.open(unpacked(SAMPLE).image) as image:
        workspace = Workspace(image.filesystem())
        deleted, timeline = workspace.deleted(sources=JOURNAL_ONLY), workspace.timeline()
        assert workspace.deleted(sources=JOURNAL_ONLY) is deleted
        assert workspace.deleted(versions=True, sources=JOURNAL_ONLY) is not deleted
        assert workspace.timeline() is timeline
        assert workspace.verification() is not None and workspace.history() is not None
        last = timeline.commits.tids[-1]
        assert [one.path for one in workspace.as_of(int(last)).fs.walk()] == [
            one.path for one in workspace.fs.walk()
        ]
        assert opened["log"] == 1
        alone = find_deleted(workspace.fs, sources=JOURNAL_ONLY)
        assert (len(alone), len(build_timeline(workspace.fs))) == (len(deleted), len(timeline))
        assert opened["log"] == 3
