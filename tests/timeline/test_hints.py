"""What does not fit is hinted at with its reason, and a file system left alone gives no hint."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from ext4kit.timeline import Event, EventKind
from sample_images.recipes import machine
from tests.conftest import Cli
from tests.timeline.scripts import events_of, mounted

pytestmark = pytest.mark.kernel

SECOND = 1_000_000_000


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "hints.img"
    machine.make_file_system(path, 48 << 20, ("-t", "ext4", "-J", "size=4"))
    return path


def made(image: Path) -> None:
    """A file and a directory, each changed once."""
    with mounted(image, []) as script:
        (script.root / "file").write_bytes(b"x" * 5000)
        (script.root / "folder").mkdir()
        script.commit()
        (script.root / "file").chmod(0o600)
        (script.root / "folder/other").write_bytes(b"")
        script.commit()


def edited(image: Path, *commands: str) -> None:
    """Change the image behind the journal's back."""
    for command in commands:
        done = subprocess.run(
            ["debugfs", "-w", "-R", command, image], capture_output=True, text=True, check=True
        )
        assert "not" not in done.stderr.partition("\n")[2]


def hints(image: Path) -> list[Event]:
    return [event for event in events_of(image) if event.kind is EventKind.HINT]


def test_a_file_system_left_alone_gives_no_hint(image: Path) -> None:
    made(image)
    assert hints(image) == []


def test_an_inode_changed_behind_the_journal_is_hinted_at_field_by_field(image: Path) -> None:
    made(image)
    edited(image, "set_inode_field /file mtime @1000000000", "set_inode_field /file uid 1234")
    found = hints(image)
    assert {event.path for event in found} == {b"/file"}
    assert {event.reason.split()[0] for event in found} == {"mtime", "uid"}
    assert all("newest copy" in event.reason for event in found)
    assert all(event.transaction is None for event in found)
    uid = next(event for event in found if event.reason.startswith("uid"))
    assert (uid.old, uid.new) == (0, 1234)


def test_times_set_to_the_second_before_creation_and_after_the_commit(image: Path) -> None:
    with mounted(image, []) as script:
        path = script.root / "file"
        path.write_bytes(b"x")
        script.commit()
        os.utime(path, ns=(path.stat().st_atime_ns, 1_200_000_000 * SECOND))
        script.commit()
        late = path.stat().st_ctime_ns + 86_400 * SECOND + 12_345
        os.utime(path, ns=(late, 1_200_000_000 * SECOND))
        script.commit()
    found = [(event.reason.split(";")[0], event.old, event.new) for event in hints(image)]
    reasons = [reason for reason, _, _ in found]
    assert reasons.count("mtime is earlier than the creation of the inode") == 1
    assert reasons.count("mtime has round nanoseconds and the other times have not") == 1
    assert reasons.count("atime is later than the commit that wrote it") == 1
    assert len(found) == 3
    assert {new for _, _, new in found} == {1_200_000_000 * SECOND, late}


def test_a_creation_time_that_changed_and_a_ctime_that_went_back(image: Path) -> None:
    made(image)
    edited(
        image,
        "set_inode_field /file crtime @1100000000",
        "set_inode_field /folder/other ctime @4000000000",
    )
    with mounted(image, []) as script:
        (script.root / "file").chmod(0o640)
        script.commit()
        (script.root / "folder/other").chmod(0o640)
        script.commit()
    found = {(event.path, re.split("[,:;]", event.reason)[0]) for event in hints(image)}
    assert (b"/file", "the creation time changed") in found
    assert (b"/folder/other", "ctime decreased") in found


def test_hints_of_one_inode_are_one_line(image: Path, ext4kit: Cli) -> None:
    made(image)
    edited(image, "set_inode_field /file mtime @1000000000", "set_inode_field /file uid 1234")
    lines = hint_lines(ext4kit, image)
    assert len(lines) == 1 and "/file  [" in lines[0]
    assert "uid and mtime on disk differ from the newest copy" in lines[0]
    assert "uid 0, 1234" in lines[0] and "2001-09-09T01:46:40" in lines[0]
    assert len(hint_lines(ext4kit, image, "--all-hints")) == 2


def test_many_copied_files_are_counted_and_others_are_listed(tmp_path: Path, ext4kit: Cli) -> None:
    """A file of some days ago whose times were set is told, in the midst of an installation.

    So is a copied file where nothing is installed.
    """
    source, image = tmp_path / "source", tmp_path / "copied.img"
    (source / "usr/bin").mkdir(parents=True)
    (source / "usr/bin/tool").write_bytes(b"tool")
    days_ago = int(time.time()) - 5 * 86_400
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-J", "size=4", "-d", str(source), str(image)]
    environment = os.environ | {"E2FSPROGS_FAKE_TIME": str(days_ago)}
    subprocess.run([*command, "48M"], check=True, env=environment)
    old = (1_500_000_000_123_456_789, 1_500_000_000_123_456_789)
    with mounted(image, []) as script:
        (script.root / "usr/bin/tool").chmod(0o755)
        (script.root / "tmp").mkdir()
        script.commit()
        for path in [*(script.root / f"usr/bin/new-{n}" for n in range(30)), script.root / "tmp/x"]:
            path.write_bytes(b"x" * 5000)
            os.utime(path, ns=old)
        os.utime(script.root / "usr/bin/tool", ns=old)
        script.commit()
    done = ext4kit("timeline", image, "--kind", "hint")
    lines = done.stdout.splitlines()
    listed = {line.split("  [")[0].split()[-1] for line in lines if "  hint  " in line}
    assert listed == {"/usr/bin/tool", "/tmp/x"}
    table = [line.split() for line in lines if line.endswith("/usr/bin")]
    assert [(row[0], row[1]) for row in table] == [("30", "60")]
    copied = {event.path: event.is_copied for event in hints(image)}
    assert [path for path, is_copied in copied.items() if not is_copied] == [b"/usr/bin/tool"]
    assert len(copied) == 32


def hint_lines(cli: Cli, image: Path, *options: str) -> list[str]:
    """The lines of single hints."""
    done = cli("timeline", image, *options)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "  hint  " in line]
