"""`journal history` lists the copies that debugfs finds, and the changes that were recorded."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run
from sample_images.recipes import machine
from tests.session import Node, Session, Setup, Tree, record

pytestmark = pytest.mark.kernel

SETUPS = (
    Setup("versions", ("-t", "ext4", "-J", "size=8"), operations=90),
    Setup("versions-crash", ("-t", "ext4", "-b", "1024", "-J", "size=4"), operations=60,
          commit="fsync", crash=True),
    Setup("versions-ext3", ("-t", "ext3", "-J", "size=8"), operations=60),
)  # fmt: skip
COPY = r"  FS block (\d+) logged at sequence (\d+), journal block (\d+)"
FIELDS = {"mode": "mode", "uid": "uid", "gid": "gid", "size": "size", "links_count": "links",
          "mtime": "mtime", "ctime": "ctime", "atime": "atime"}  # fmt: skip


@pytest.fixture(scope="module", params=SETUPS, ids=lambda setup: setup.name)
def session(
    request: pytest.FixtureRequest, needs_kernel: None, tmp_path_factory: pytest.TempPathFactory
) -> Session:
    setup: Setup = request.param
    return record(setup, tmp_path_factory.mktemp("versions"))


def debugfs(image: Path, request: str) -> str:
    done = subprocess.run(
        ["debugfs", "-R", request, str(image)], capture_output=True, check=False,
        env={"PATH": machine.SYSTEM_PATH},
    )  # fmt: skip
    return done.stdout.decode("utf-8", "replace")


def logdump(image: Path, options: str) -> list[tuple[int, int, int]]:
    """(block, transaction, log block) of each copy; with -O debugfs only counts transactions on."""
    found: list[tuple[int, int, int]] = []
    real: dict[int, int] = {}
    for line in debugfs(image, f"logdump {options}").splitlines():
        if seen := re.match(r"Found sequence (\d+) \(not (\d+)\)", line):
            real[int(seen[2])] = int(seen[1])
        elif seen := re.match(COPY, line):
            number = int(seen[2])
            found.append((int(seen[1]), real.get(number, number), int(seen[3])))
    return found


def which_log(session: Session) -> str:
    """The option for a log that no recovery is due for."""
    return "" if session.setup.crash else "-O"


History = Callable[..., tuple[int, str, str]]
Versions = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def history(session: Session, capsys: pytest.CaptureFixture[str]) -> History:
    """Run `journal history` in this process: (exit code, standard output, standard error)."""

    def call(*options: str | int | Path) -> tuple[int, str, str]:
        words = ("journal", "history", session.image, *options)
        code = run([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def versions(history: History) -> Versions:
    """The records of `journal history`."""

    def call(*options: str | int) -> list[dict[str, Any]]:
        code, said, errors = history("--json", *options)
        assert code == 0, errors
        records = [json.loads(line) for line in said.splitlines()]
        return [each for each in records if each["record"] == "version"]

    return call


def blocks_of(session: Session, path: str) -> list[int]:
    return [int(word) for word in debugfs(session.image, f"blocks {path}").split()]


def statistic(session: Session, label: str) -> int:
    found = re.search(rf"{label} at (\d+)", machine.dumpe2fs(session.image))
    assert found
    return int(found[1])


def test_the_copies_of_a_block_are_those_that_debugfs_lists(
    session: Session, versions: Versions
) -> None:
    places = ["Inode table", "Block bitmap", "Inode bitmap", "Group descriptors"]
    blocks = [statistic(session, place) for place in places]
    blocks += blocks_of(session, "/a") + blocks_of(session, "/")
    compared = 0
    for block in blocks:
        listed = {
            copy for copy in logdump(session.image, f"{which_log(session)} -b {block}")
            if copy[0] == block
        }  # fmt: skip
        logged = [each for each in versions("--block", str(block))]
        assert logged[-1]["source"] == "disk"
        found = {(block, each["transaction"], each["log_block"]) for each in logged[:-1]}
        assert found == listed, block
        assert [each["transaction"] for each in logged[:-1]] == sorted(t for _, t, _ in listed)
        compared += len(listed)
    assert compared > len(session.steps)  # each of them changes one of these blocks at least


def test_the_copies_of_an_inode_are_those_of_its_block(
    session: Session, versions: Versions
) -> None:
    number = session.steps[0].tree[b"/a"].inode
    text = debugfs(session.image, f"imap <{number}>")
    found = re.search(r"located at block (\d+), offset 0x([0-9a-f]+)", text)
    assert found
    block, offset = int(found[1]), int(found[2], 16)
    # debugfs 1.47's `logdump -i` seeks inodes of 256 bytes as if they had 128; `imap` does not
    listed = logdump(session.image, f"{which_log(session)} -b {block}")
    of_block = {copy[1:] for copy in listed if copy[0] == block}
    shown = versions("/a")
    assert {(each["transaction"], each["log_block"]) for each in shown[:-1]} == of_block
    size = 4096 if "-b" not in session.setup.mkfs else 1024
    for each in (shown[0], shown[len(shown) // 2]):
        home = int(debugfs(session.image, f"bmap <8> {each['log_block']}"))
        assert each["offset"] == home * size + offset


def recorded_changes(before: Tree, after: Tree) -> dict[int, tuple[Node, Node]]:
    """Inodes that both trees have, and that are not the same in them."""
    old = {node.inode: node for node in before.values()}
    new = {node.inode: node for node in after.values()}
    return {
        number: (old[number], new[number])
        for number in old.keys() & new.keys()
        if old[number] != new[number] and old[number].mode >> 12 == new[number].mode >> 12
    }


def test_changes_of_inodes_are_those_that_were_recorded(
    session: Session, versions: Versions
) -> None:
    """After each step the newest copy says what the kernel showed."""
    numbers = sorted({node.inode for step in session.steps[::7] for node in step.tree.values()})
    compared = 0
    for number in numbers[:12]:
        shown = versions(f"<{number}>")
        for step_before, step in zip(session.steps, session.steps[1:], strict=False):
            changed = recorded_changes(step_before.tree, step.tree).get(number)
            if changed is None:
                continue
            found = changes_of(shown, step_before.transaction, step.transaction)
            known = {change["what"]: change["after"] for change in found}
            for name, attribute in FIELDS.items():
                value = getattr(changed[1], attribute)
                if getattr(changed[0], attribute) != value:
                    assert known.get(name) == value, (number, name, step.operation)
                    compared += 1
    assert compared > 20


def changes_of(shown: list[dict[str, Any]], after: int, up_to: int) -> list[dict[str, Any]]:
    """The changes in the log's transactions (after, up_to]."""
    return [
        change
        for each in shown
        if each["changed"] and each["source"] == "log" and after < each["transaction"] <= up_to
        for change in each["changes"]
    ]


def children(tree: Tree, folder: bytes) -> dict[str, int]:
    return {
        path.rpartition(b"/")[2].decode(): node.inode
        for path, node in tree.items()
        if path != b"/" and path.rpartition(b"/")[0] == folder
    }


def test_changes_of_a_directory_block_are_those_that_were_recorded(
    session: Session, versions: Versions
) -> None:
    count = 0
    for folder in (b"/a", b"/b", b"/crowd"):
        (block,) = blocks_of(session, folder.decode())
        shown = versions("--block", block)
        assert {each["kind"] for each in shown} == {"directory block"}
        for before, step in zip(session.steps, session.steps[1:], strict=False):
            old, new = children(before.tree, folder), children(step.tree, folder)
            expected = {
                name: (old.get(name), new.get(name))
                for name in old.keys() | new.keys()
                if old.get(name) != new.get(name)
            }
            found = {
                change["which"]: (inode_of(change["before"]), inode_of(change["after"]))
                for change in changes_of(shown, before.transaction, step.transaction)
            }
            assert found == expected, step.operation
            count += len(found)
    assert count > 5


def test_entries_are_the_histories_of_the_blocks_of_a_directory(
    session: Session, versions: Versions
) -> None:
    both = versions("/a", "--entries")
    blocks = [each for each in both if "block" in each]
    assert [each for each in both if "inode" in each] == versions("/a")
    assert blocks == [
        each for block in blocks_of(session, "/a") for each in versions("--block", block)
    ]


def inode_of(entry: list[Any] | None) -> int | None:
    return None if entry is None else entry[0]


def test_bits_of_the_inode_bitmap_follow_what_was_made_and_removed(
    session: Session, versions: Versions
) -> None:
    shown = versions("--block", str(statistic(session, "Inode bitmap")))
    text = machine.run("dumpe2fs", "-h", session.image).decode()
    per_group = int(re.findall(r"Inodes per group:\s+(\d+)", text)[0])
    compared = 0
    for before, step in zip(session.steps, session.steps[1:], strict=False):
        old, new = (
            {node.inode for node in tree.values() if node.inode <= per_group}
            for tree in (before.tree, step.tree)
        )
        found: dict[int, int] = {}
        for change in changes_of(shown, before.transaction, step.transaction):
            first, last = change["which"]
            found |= dict.fromkeys(range(first, last + 1), change["after"])
        expected = dict.fromkeys(new - old, 1) | dict.fromkeys(old - new, 0)
        assert found == expected, step.operation
        compared += len(expected)
    assert compared > 5


def test_free_inodes_of_the_descriptor_follow_too(session: Session, versions: Versions) -> None:
    shown = versions("--block", str(statistic(session, "Group descriptors")))
    free: dict[int, int] = {}  # group -> count as of the newest copy
    sums, copies = set(), iter(shown[:-1])
    waiting = next(copies, None)
    for step in session.steps:
        while waiting is not None and waiting["transaction"] <= step.transaction:
            for change in waiting["changes"]:
                if change["what"] == "free_inodes_count":
                    free[change["which"]] = change["after"]
            waiting = next(copies, None)
        if free:
            sums.add(sum(free.values()) + len({node.inode for node in step.tree.values()}))
    assert len(sums) == 1


def test_raw_bytes_are_those_of_the_log(
    session: Session, versions: Versions, history: History, tmp_path: Path
) -> None:
    (block,) = blocks_of(session, "/a")
    shown = versions("--block", str(block))
    size = 1024 if "1024" in session.setup.mkfs else 4096
    for place, each in enumerate(shown[:-1][:3]):
        out = tmp_path / f"raw-{place}"
        options = ("--block", str(block), "--transaction", str(each["transaction"]))
        assert history(*options, "--raw", out)[0] == 0
        home = int(debugfs(session.image, f"bmap <8> {each['log_block']}"))
        with session.image.open("rb") as file:
            file.seek(home * size)
            assert out.read_bytes() == file.read(size)
        assert history(*options, "--raw", out)[0] == 2  # never over a file that is there
    code, _, errors = history("--block", block, "--transaction", 999999, "--raw", "-")
    assert code == 2
    assert str(shown[0]["transaction"]) in errors


def test_a_path_that_is_gone_is_found_as_of_a_transaction(
    session: Session, versions: Versions, history: History
) -> None:
    last = session.steps[-1].tree
    for step in session.steps:
        gone = [path for path, node in step.tree.items() if path not in last and node.inode]
        if gone and step.operation.kind != "start":
            break
    path = gone[0].decode()
    assert history(path)[0] == 2
    shown = versions(path, "--as-of", str(step.transaction))
    assert {each["inode"] for each in shown} == {step.tree[gone[0]].inode}


def test_the_text_names_fields_and_values(session: Session, history: History) -> None:
    code, said, _ = history("/a")
    assert code == 0
    assert re.search(r"^transaction \d+  \S+ \S+  log block [\d,]+, byte [\d,]+: inode", said)
    assert re.search(r"^    mtime: \S+Z -> \S+Z$", said, re.MULTILINE)
    assert "on disk now, byte " in said


def test_a_target_or_a_block_is_needed(session: Session, history: History) -> None:
    for options in (
        (),
        ("/a", "--block", "3"),
        ("--block", "3", "--entries"),
        ("/a", "--raw", "-"),
        ("--block", "999999999"),
    ):
        assert history(*options)[0] == 2
