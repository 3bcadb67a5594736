"""`recover --resume`: what an undisturbed run writes, wherever the earlier ones were ended."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, cast

import pytest

from ext4kit.cli import main
from ext4kit.cli.resuming import stopped_text
from ext4kit.filesystem import FileSystem
from ext4kit.output import rooted
from ext4kit.recovery import DeletedFiles
from sample_images.recipes.machine import sync
from sample_images.recipes.score import read_records
from tests.cli.conftest import ROOT, Run
from tests.cli.test_errors import check, small_disk
from tests.recovery.test_restored_trees import make_tree
from tests.recovery.test_traps import Disk

EVENTS = (
    "os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.truncate",
    "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr",
)  # fmt: skip
Entry = tuple[object, ...]
Resume = Callable[..., subprocess.CompletedProcess[bytes]]


def entries(out: Path) -> dict[str, Entry]:
    """What a folder holds: kinds, contents, links, and of what was restored the rest."""
    dated = {
        name
        for record in read_records(out)
        for name in (record["output"], *record["hard_links"])
        if "times" in record["restored"]
    }
    found: dict[str, Entry] = {}
    for path in sorted(out.rglob("*")):
        name, facts = str(path.relative_to(out)), path.lstat()
        if name in ("case.json", "README.txt", "report.html"):
            continue
        kind, attributes = stat.S_IFMT(facts.st_mode), os.listxattr(path, follow_symlinks=False)
        found[name] = (
            kind,
            stat.S_IMODE(facts.st_mode),
            (facts.st_uid, facts.st_gid),
            facts.st_mtime_ns if name in dated else None,
            facts.st_nlink if kind == stat.S_IFREG else None,
            str(path.readlink()) if kind == stat.S_IFLNK else None,
            hashlib.sha256(path.read_bytes()).digest() if kind == stat.S_IFREG else None,
            {each: os.getxattr(path, each, follow_symlinks=False) for each in attributes},
        )
    return found


def case(out: Path) -> dict[str, Any]:
    """The case record without what differs between two runs."""
    record: dict[str, Any] = json.loads((out / "case.json").read_text())
    for name in ("command", "started", "ended"):
        del record[name]
    del record["counts"]["kept"]
    return record


def page(out: Path, name: str) -> str:
    """A page without its time, its command and how much was there."""
    text = " ".join((out / name).read_text().split())
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"(<p>)?Complete: all .*? An earlier run wrote .*?\.(</p>)? ?", "", text)
    return re.sub(r"The command was: ext4kit recover [^<]*?(?=</p>| What| The )", "", text)


def is_same(out: Path, whole: Path) -> None:
    """A folder is as an undisturbed run leaves it."""
    there, wanted = entries(out), entries(whole)
    assert there.keys() == wanted.keys()
    assert {name for name in wanted if there[name] != wanted[name]} == set()
    assert case(out) == case(whole)


class Recovery:
    """A recovery of one image, its undisturbed result, and ways to disturb it."""

    def __init__(self, run: Run, image: Path, folder: Path, *options: str) -> None:
        self.run, self.image, self.folder, self.options = run, image, folder, options
        self.whole = folder / "whole"
        assert self.run(*self.words(self.whole)).returncode in (0, 1)

    def words(self, out: Path, *more: str) -> list[str]:
        return ["recover", str(self.image), "-o", str(out), *self.options, *more]

    def resume(self, out: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
        done = self.run(*self.words(out, "--resume", *more))
        assert done.returncode in (0, 1), done.stderr
        return done

    def copy(self, out: Path) -> Path:
        """A finished recovery, to be damaged."""
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run(["cp", "-a", self.whole, out], check=True)
        return out

    def killed(self, out: Path, step: int, *more: str) -> int:
        """Kill it before a step by which it changes the folder; how many steps there were."""
        ours, theirs = os.pipe()
        process = os.fork()
        if not process:
            _die_at(step, theirs, self.words(out, *more))
        os.close(theirs)
        with open(ours, "rb") as said:  # noqa: PTH123
            count = said.read()
        os.waitpid(process, 0)
        return int(count or 0)


def _die_at(step: int, said: int, words: list[str]) -> None:
    """Be the program until a step. Of bytes that are written then half are written."""
    count, write = 0, os.write

    def tick() -> bool:
        nonlocal count
        count += 1
        return count == step

    def end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, _: tuple[object, ...]) -> None:
        if event in EVENTS and tick():
            end()

    def half(handle: int, data: memoryview) -> int:
        if tick():
            end(write(handle, data[: len(data) // 2]))
        return write(handle, data)

    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        rooted.os.write = half  # type: ignore[attr-defined]
        sys.addaudithook(heard)
        main.run(words)
        write(said, str(count).encode())
    finally:
        os._exit(0)


@pytest.fixture(scope="module")
def plain(run: Run, deleted: Path, tmp_path_factory: pytest.TempPathFactory) -> Recovery:
    """Of a removed tree, with its folders."""
    folder = tmp_path_factory.mktemp("plain")
    return Recovery(run, deleted, folder, "--restore", "mode,times,folders")


@pytest.fixture(scope="module")
def linked(needs_kernel: None, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Recovery:
    """Of a tree with owners, attributes, links, further names and privileges."""
    folder = tmp_path_factory.mktemp("linked")
    disk = Disk(folder, "-J", "size=4")
    with disk.mounted() as root:
        make_tree(root / "tree")
        sync(root)
    with disk.mounted() as root:
        shutil.rmtree(root / "tree")
    return Recovery(run, disk.image, folder, "--restore", "all,privileges", "--versions")


def _survives_kills(recovery: Recovery, out: Path, seed: str, kills: int) -> None:
    """Killed at random steps, some resumed runs too, then resumed to the end."""
    random = Random(seed)
    steps = recovery.killed(out / "all", 0)
    for number in range(kills):
        folder = out / str(number)
        recovery.killed(folder, random.randrange(1, steps))
        if number % 2:
            recovery.killed(folder, random.randrange(1, steps), "--resume")
        recovery.resume(folder)
        is_same(folder, recovery.whole)
        shutil.rmtree(folder)


@pytest.mark.parametrize("seed", ["a", "b"])
def test_a_killed_run_is_finished_as_if_undisturbed(
    plain: Recovery, tmp_path: Path, seed: str
) -> None:
    _survives_kills(plain, tmp_path, seed, 4)


@pytest.mark.kernel
@pytest.mark.parametrize("seed", ["a", "b"])
def test_links_owners_and_attributes_are_as_if_undisturbed(
    linked: Recovery, tmp_path: Path, seed: str
) -> None:
    _survives_kills(linked, tmp_path, seed, 4)


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_a_power_cut_that_lost_what_was_not_on_the_disk(
    plain: Recovery, tmp_path: Path, seed: str
) -> None:
    """The end of the manifest, with or without zeros in its place, and that of some files."""
    random, out = Random(seed), tmp_path / "out"
    plain.killed(out, random.randrange(300, 700))
    for path in [out / "manifest.jsonl", *random.sample(_files(out), 12)]:
        size = path.stat().st_size
        os.truncate(path, random.randrange(size + 1))
        if random.random() < 0.5:
            os.truncate(path, size)
    plain.resume(out)
    is_same(out, plain.whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [str(number) for number in range(20)])
def test_many_killed_runs(plain: Recovery, tmp_path: Path, seed: str) -> None:
    _survives_kills(plain, tmp_path, seed, 5)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_at_any_time(plain: Recovery, tmp_path: Path, number: signal.Signals) -> None:
    out, delay = tmp_path / "out", Random(number.name).uniform(0.6, 1.2)
    process = subprocess.Popen(
        [sys.executable, "-m", "ext4kit", *plain.words(out)],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    sleep(delay)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert process.returncode in (-number, 0)
    elif process.returncode not in (0, -number):  # not before its first line, nor too late
        assert (process.returncode, said) == (130, said)
        assert re.fullmatch(rb"ext4kit: interrupted(; [^\n]+)?\n", said)
    plain.resume(out)
    is_same(out, plain.whole)


def test_a_finished_run_is_verified_and_kept(plain: Recovery, tmp_path: Path) -> None:
    out = plain.copy(tmp_path / "out")
    before = {path: path.stat().st_ino for path in out.rglob("*") if path.parts[-2] != out.name}
    record = json.loads(plain.resume(out, "--json").stdout.splitlines()[0])
    assert record["kept"] == record["written"] > 0
    assert {path: path.stat().st_ino for path in before} == before
    is_same(out, plain.whole)
    said = plain.resume(out).stdout.decode()
    assert f"0 written and {record['kept']} kept in {out}" in said
    complete = f"Complete: all {record['kept']} files are here, and their hashes are right."
    assert complete in said
    for name in ("README.txt", "report.html"):
        assert complete in " ".join((out / name).read_text().split())
        assert page(out, name) == page(plain.whole, name)


def test_a_new_or_empty_folder_is_filled(plain: Recovery, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        record = json.loads(plain.resume(tmp_path / name, "--json").stdout.splitlines()[0])
        assert record["kept"] == 0
        is_same(tmp_path / name, plain.whole)


def _files(out: Path) -> list[Path]:
    """The files of the records."""
    return [out / each["output"] for each in read_records(out) if each["type"] == "file"]


def _tamper(out: Path, outside: Path) -> None:
    """Change files in every way, without another name for any of them."""
    files = _files(out)
    files[0].unlink()
    files[1].write_bytes(b"other" + files[1].read_bytes()[5:])
    files[2].write_bytes(files[2].read_bytes() + b"more")
    files[3].write_bytes(b"")
    files[4].unlink()
    files[4].symlink_to(outside)
    files[5].unlink()
    files[5].mkdir()
    files[6].chmod(0o7777)
    os.utime(files[7], (1, 1))
    os.link(files[8], outside.with_name("other name"))
    files[9].unlink()
    os.mkfifo(files[9])
    os.truncate(files[10], 1 << 40)


def test_what_was_changed_is_written_anew(plain: Recovery, tmp_path: Path) -> None:
    out, outside = plain.copy(tmp_path / "out"), tmp_path / "outside"
    outside.write_bytes(b"not of the recovery")
    _tamper(out, outside)
    other = (tmp_path / "other name").stat().st_mode if (tmp_path / "other name").exists() else None
    plain.resume(out)
    is_same(out, plain.whole)
    assert outside.read_bytes() == b"not of the recovery"
    assert other == (tmp_path / "other name").stat().st_mode


@pytest.mark.parametrize("damage", ["half line", "no line", "garbage", "lost", "shuffled", "names"])
def test_a_damaged_manifest(plain: Recovery, tmp_path: Path, damage: str) -> None:
    out, outside = plain.copy(tmp_path / "out"), tmp_path / "outside"
    outside.write_bytes(b"outside")
    manifest = out / "manifest.jsonl"
    lines = manifest.read_bytes().splitlines(keepends=True)
    if damage == "half line":
        lines = [*lines[:40], lines[40][:100]]
    elif damage == "no line":
        lines = []
    elif damage == "garbage":
        lines[3:9] = [b"\0" * 4096, b"[" * 100_000 + b"\n", b"7\n", b"{}\n", b'{"output": 3}\n']
    elif damage == "shuffled":
        Random(0).shuffle(lines)
    elif damage == "names":
        lines = [_with_output(line, "../outside") for line in lines]
    manifest.write_bytes(b"".join(lines))
    if damage == "lost":
        manifest.unlink()
        manifest.symlink_to(outside)
    plain.resume(out)
    is_same(out, plain.whole)
    assert outside.read_bytes() == b"outside"


def _with_output(line: bytes, output: str) -> bytes:
    record = json.loads(line) | {"output": output, "hard_links": [output]}
    return json.dumps(record).encode() + b"\n"


def test_files_of_others_stay(plain: Recovery, tmp_path: Path) -> None:
    """Beside the recovered ones, and at the name of one that has no record."""
    out = plain.copy(tmp_path / "out")
    mine, taken = _files(out)[0].with_name("mine"), _files(out)[-1]
    mine.write_bytes(b"mine")
    taken.write_bytes(b"mine as well")
    lines = (out / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    name = str(taken.relative_to(out))
    kept = [line for line in lines if json.loads(line)["output"] != name]
    (out / "manifest.jsonl").write_bytes(b"".join(kept))
    done = plain.resume(out)
    assert b"not of this recovery, left as it is" in done.stderr
    assert (mine.read_bytes(), taken.read_bytes()) == (b"mine", b"mine as well")
    assert len(entries(out)) == len(entries(plain.whole)) + 2


def test_a_folder_that_became_a_link_is_not_entered(plain: Recovery, tmp_path: Path) -> None:
    out, elsewhere = plain.copy(tmp_path / "out"), tmp_path / "elsewhere"
    top = next(path for path in (out / "files").iterdir() if path.is_dir())
    top.rename(elsewhere)
    top.symlink_to(elsewhere)
    before = entries_of(elsewhere)
    plain.resume(out)
    assert entries_of(elsewhere) == before
    assert top.is_symlink()


def _unfinished(out: Path) -> None:
    """As a run leaves it that was killed before it wrote the pages."""
    for name in ("README.txt", "report.html"):
        (out / name).unlink()
    record = json.loads((out / "case.json").read_text())
    (out / "case.json").write_text(json.dumps(record | {"state": "incomplete"}))


@pytest.mark.parametrize("theirs", ["file", "folder", "link"])
def test_pages_of_others_stay(plain: Recovery, tmp_path: Path, theirs: str) -> None:
    """Each run finds its own ones beside them again."""
    out, kept = plain.copy(tmp_path / "out"), tmp_path / "kept"
    kept.write_bytes(b"<!doctype html>\nnotes")
    _unfinished(out)
    for name in ("README.txt", "report.html"):
        if theirs == "file":
            shutil.copy(kept, out / name)
        elif theirs == "folder":
            (out / name).mkdir()
        else:
            (out / name).symlink_to(kept)
    before = [(out / name).lstat() for name in ("README.txt", "report.html")]
    for _ in range(2):
        told = plain.resume(out).stderr.decode().splitlines()
        (line,) = [line for line in told if "left as it is" in line]
        assert line.endswith("README.txt and report.html; see README~.txt and report~.html")
    after = [(out / name).lstat() for name in ("README.txt", "report.html")]
    assert [(each.st_ino, each.st_mtime_ns) for each in after] == [
        (each.st_ino, each.st_mtime_ns) for each in before
    ]
    assert kept.read_bytes() == b"<!doctype html>\nnotes"
    text = (out / "README~.txt").read_text()
    assert "report~.html" in text
    assert "report.html" not in text
    assert "What this folder is" in (out / "report~.html").read_text()
    assert not [*out.glob("*~~*")]


@pytest.mark.parametrize(
    "name",
    [
        ".manifest.jsonl.part",
        ".case.json.part",
        ".reserve",
        ".README.txt.part",
        ".report.html.part",
    ],
)
def test_a_hidden_file_is_replaced_if_a_run_left_it(
    plain: Recovery, run: Run, tmp_path: Path, name: str
) -> None:
    out = plain.copy(tmp_path / "out")
    _unfinished(out)
    (out / name).write_bytes(b"notes")
    check(run(*plain.words(out, "--resume")), 2, f"{name}: not of this recovery; move it away")
    assert (out / name).read_bytes() == b"notes"
    whole = {".manifest.jsonl.part": "manifest.jsonl", ".case.json.part": "case.json",
             ".README.txt.part": "README.txt", ".report.html.part": "report.html"}  # fmt: skip
    data = (plain.whole / whole[name]).read_bytes() if name in whole else b"\xff" * 65_536
    for left in (b"", data[:3], bytes(4096), data[: len(data) // 2], data):
        (out / name).write_bytes(left)
        plain.resume(out)
        is_same(out, plain.whole)


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_no_file_in_place_of_the_manifest_is_told_at_the_start(
    plain: Recovery, run: Run, tmp_path: Path, kind: str
) -> None:
    out = plain.copy(tmp_path / "out")
    _unfinished(out)
    (out / "manifest.jsonl").unlink()
    (os.mkdir if kind == "folder" else os.mkfifo)(out / "manifest.jsonl")
    before = entries_of(out)
    check(run(*plain.words(out, "--resume")), 2, "manifest.jsonl: is ", "move it away")
    assert entries_of(out) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_a_top_folder_whose_name_is_in_use_has_another_in_the_pages(
    plain: Recovery, tmp_path: Path, is_link: bool
) -> None:
    out = plain.copy(tmp_path / "out")
    tops = [path for path in out.iterdir() if path.is_dir()]
    assert tops
    for top in tops:
        shutil.rmtree(top)
        if is_link:
            top.symlink_to(tmp_path)
        else:
            top.write_bytes(b"mine")
    done = plain.resume(out)
    assert b"internal" not in done.stderr
    for name in ("README.txt", "report.html"):
        text = (out / name).read_text()
        assert [top for top in tops if f"{top.name}~/" not in text] == []
        if (out / "partial~").exists():
            assert "Damaged files are in the folder partial~." in " ".join(text.split())
    assert all(top.is_symlink() if is_link else top.read_bytes() == b"mine" for top in tops)


@pytest.mark.parametrize("command", ["recover", "recover --resume", "extract", "versions"])
def test_two_runs_do_not_write_into_one_folder(
    plain: Recovery, run: Run, tmp_path: Path, command: str
) -> None:
    out, (name, *rest) = tmp_path / "out", command.split()
    if rest:
        plain.copy(out)
    else:
        out.mkdir()
    path = {"extract": "/", "versions": "/project/tunnel/ledger-0034.db"}.get(name)
    words = [name, plain.image, *filter(None, [path]), "-o", out, *rest]
    words += plain.options if name == "recover" else ()
    before = entries_of(out)
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    check(run(*words), 2, "out is being written by another run")
    os.close(handle)
    assert entries_of(out) == before
    assert run(*words).returncode in (0, 1)


def test_a_folder_is_locked_while_a_run_makes_it(plain: Recovery, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [sys.executable, "-m", "ext4kit", *plain.words(out)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as first:
        while not (out / "case.json").exists():
            sleep(0.005)
        first.send_signal(signal.SIGSTOP)
        check(plain.run(*plain.words(out, "--resume")), 2, "out is being written by another run")
        check(plain.run(*plain.words(out)), 2, "out is being written by another run")
        first.send_signal(signal.SIGCONT)
        first.wait(60)
    is_same(out, plain.whole)


def entries_of(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.lstat().st_ino, path.lstat().st_ctime_ns) for path in folder.rglob("*")}


def test_what_is_of_something_else_is_refused(
    plain: Recovery, image: Path, run: Run, tmp_path: Path
) -> None:
    out = plain.copy(tmp_path / "out")
    before = entries(out)
    record = json.loads((out / "case.json").read_text())

    def refused(words: list[str], *told: str) -> None:
        check(run(*words), 2, *told)
        assert entries(out) == before

    refused(["recover", str(image), "-o", str(out), *plain.options, "--resume"], "UUID")
    refused(plain.words(out, "--resume", "--versions"), "--versions")
    refused(plain.words(out, "--resume", "--min-grade", "intact"), "--min-grade")
    refused(plain.words(out, "--resume", "--no-replay"), "raw")
    refused([*plain.words(out, "--resume"), "/home"], "PATH")
    refused(plain.words(out), "not empty")
    for changed, told in (
        ({"tool": {"name": "ext4kit", "version": "0.0.1"}}, "0.0.1"),
        ({"command": ["ext4kit", "recover", "--help"]}, "damaged"),
        ({"command": 7}, "damaged"),
        ({"volumes": []}, "damaged"),
        ({"state": "incomplete", "tool": None}, "damaged"),
    ):
        (out / "case.json").write_text(json.dumps(record | changed))
        refused(plain.words(out, "--resume"), told)
    (out / "case.json").write_text('{"half')
    refused(plain.words(out, "--resume"), "no recovery to go on with")
    (out / "case.json").unlink()
    refused(plain.words(out, "--resume"), "no recovery to go on with")


def test_an_unfinished_folder_names_the_option(plain: Recovery, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plain.killed(out, 100)
    check(run(*plain.words(out)), 2, "holds an unfinished recovery: go on with --resume")


@pytest.mark.kernel
def test_a_full_disk_is_gone_on_with_when_it_has_room(
    plain: Recovery, run: Run, tmp_path: Path
) -> None:
    with small_disk(tmp_path) as small:
        out = small / "out"
        check(run(*plain.words(out)), 1, "No space left")
        check(run(*plain.words(out, "--resume")), 1, "No space left")
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        plain.resume(out)
        is_same(out, plain.whole)


def _with_small_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))


def test_files_that_were_too_large_are_written_later(plain: Recovery, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ext4kit", *plain.words(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, preexec_fn=_with_small_files)
    assert done.returncode == 1
    assert list(out.rglob("*.incomplete"))
    plain.resume(out)
    is_same(out, plain.whole)


def test_several_images_are_gone_on_with(run: Run, deleted: Path, tmp_path: Path) -> None:
    words = ["recover", deleted, "--all-volumes", "-o", tmp_path / "out"]
    assert run(*words).returncode == 0
    check(run(*words), 2, "not empty")
    done = run(*words, "--resume")
    assert done.returncode == 0
    assert b"Complete: all 100 files are here, and their hashes are right." in done.stdout


def test_an_interrupted_run_names_what_is_written_and_the_command(
    plain: Recovery, tmp_path: Path
) -> None:
    out = plain.copy(tmp_path / "it's out")
    words = plain.words(out)
    text = stopped_text(out, words, DeletedFiles(cast("FileSystem", None), []))
    assert text == (
        f"100 of 0 files written to {out}; go on with `ext4kit {shlex.join([*words, '--resume'])}`"
    )
    assert stopped_text(tmp_path / "none", words, None) == "nothing was written yet"


def test_a_slash_at_the_end_is_no_difference_and_another_path_names_the_command(
    run: Run, deleted: Path, tmp_path: Path
) -> None:
    path = next(iter(read_records(_whole(run, deleted, tmp_path / "all"))))["path"]
    top = f"/{path.split('/')[1]}"
    out = tmp_path / "out"
    assert run("recover", deleted, top, "-o", out).returncode == 0
    assert run("recover", deleted, f"{top}/", "-o", out, "--resume").returncode == 0
    words = shlex.join(["ext4kit", "recover", str(deleted), f"{top}/", "-o", str(out), "--resume"])
    check(run("recover", deleted, top[1:], "-o", out, "--resume"), 2, f"PATH; go on with `{words}`")


def _whole(run: Run, image: Path, out: Path) -> Path:
    assert run("recover", image, "-o", out).returncode == 0
    return out
