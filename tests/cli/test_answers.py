"""No command ends empty or refused without saying what there is, and one command to type next."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.cli.telling import tell_line
from ext4kit.recovery import Grade
from ext4kit.report.deleted import counts_line
from ext4kit.report.safe import shown, unprinted
from tests.conftest import Cli, Images

_NEXT = re.compile(r"`ext4kit [a-z]+ [^`]+`")
_EMPTY = re.compile(r"\A\s*(0 [a-z ,0]+)?\s*\Z")
FORMS = (
    ("deleted", "IMAGE", "/no/such/thing.jpg"),
    ("deleted", "IMAGE", "*.nope"),
    ("deleted", "IMAGE", "--deleted-since", "2100-01-01"),
    ("deleted", "IMAGE", "--inode", "4"),
    ("deleted", "IMAGE", "--size", "900G..", "--type", "link"),
    ("recover", "IMAGE", "/no/such", "-o", "OUT"),
    ("recover", "IMAGE", "--inode", "4", "-o", "OUT"),
    ("ls", "IMAGE", "/no/such"),
    ("ls", "IMAGE", "/lost+found"),
    ("ls", "IMAGE", "/no/such", "--view", "deleted"),
    ("ls", "IMAGE", "-r", "--lost"),
    ("ls", "IMAGE", "--as-of", "1999-01-01"),
    ("cat", "IMAGE", "/no/such"),
    ("stat", "IMAGE", "/no/such"),
    ("extract", "IMAGE", "/no/such", "-o", "OUT"),
    ("extract", "IMAGE", "*.nope", "-o", "OUT"),
    ("versions", "IMAGE", "/no/such"),
    ("explain", "IMAGE", "/no/such"),
    ("timeline", "IMAGE", "/no/such"),
    ("timeline", "IMAGE", "--since", "2100-01-01"),
    ("timeline", "IMAGE", "--bursts", "--since", "2100-01-01"),
    ("journal", "list", "IMAGE"),
    ("journal", "audit", "IMAGE"),
    ("journal", "replay", "IMAGE", "-o", "OUT"),
    ("journal", "history", "IMAGE", "/no/such"),
    ("export", "IMAGE", "/no/such", "--csv", "OUT"),
    ("info", "IMAGE", "--lost"),
)


def _fresh(images: Images, _folder: Path) -> Path:
    return images("rm_rf_tree").image


def _formatted(images: Images, folder: Path) -> Path:
    image = folder / "formatted.img"
    shutil.copyfile(images("rm_rf_tree").image, image)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image], check=True)
    return image


def _damaged(images: Images, folder: Path) -> Path:
    image = folder / "damaged.img"
    shutil.copyfile(images("rm_rf_tree").image, image)
    with image.open("r+b") as file:
        file.write(bytes(range(256)) * 2048)
    return image


def _without_journal(_images: Images, folder: Path) -> Path:
    image = folder / "no-journal.img"
    image.touch()
    subprocess.run(["truncate", "-s", "32M", image], check=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", image], check=True)
    return image


SCENES: dict[str, Callable[[Images, Path], Path]] = {
    "fresh": _fresh,
    "formatted": _formatted,
    "damaged": _damaged,
    "no journal": _without_journal,
}


def _ends_helpfully(ext4kit: Cli, form: tuple[str, ...], image: Path, out: Path) -> None:
    words = [str({"IMAGE": image, "OUT": out}.get(word, word)) for word in form]
    done = ext4kit(*words)
    assert "internal error" not in done.stderr
    is_refused = done.returncode not in (0, 1)
    if is_refused or _EMPTY.match(done.stdout) or "no such" in done.stderr:
        assert _NEXT.search(done.stderr), f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("scene", SCENES)
def test_no_empty_answer_is_without_a_next_step(
    unpacked: Images, ext4kit: Cli, tmp_path: Path, scene: str, form: tuple[str, ...]
) -> None:
    _ends_helpfully(ext4kit, form, SCENES[scene](unpacked, tmp_path), tmp_path / "out")


@pytest.mark.heavy
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_after_the_journal_has_wrapped(
    built: Images, ext4kit: Cli, tmp_path: Path, form: tuple[str, ...]
) -> None:
    _ends_helpfully(ext4kit, form, built("log_rotation").image, tmp_path / "out")


def test_a_wrapped_journal_is_not_told_as_a_loss_of_everything(built: Images, ext4kit: Cli) -> None:
    image = built("forgotten_documents").image
    done = ext4kit("deleted", image)
    assert "carved files without a name" in done.stdout
    assert "documents" in done.stdout
    assert "The journal reaches back to" in done.stdout
    assert f"`ext4kit recover {image} -o OUT`" in done.stdout
    assert "(path unknown)" not in done.stdout, "rows that say nothing are counted, not listed"
    asked = ext4kit("deleted", image, "*.odt")
    assert asked.returncode == 1
    assert "--kind documents" in asked.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("recover", "/no/such"),
        ("recover", "--name", "nope"),
        ("recover", "--owner", "4242"),
        ("recover", "--deleted-since", "2100-01-01"),
        ("extract", "/", "--owner", "4242"),
        ("extract", "*.nope"),
    ],
    ids=" ".join,
)
def test_what_selects_nothing_leaves_the_output_as_it_was_and_ends_with_1(
    unpacked: Images, ext4kit: Cli, tmp_path: Path, words: tuple[str, ...]
) -> None:
    image = unpacked("rm_rf_tree").image
    out, empty = tmp_path / "out", tmp_path / "empty"
    empty.mkdir()
    for folder in (out, empty):
        done = ext4kit(words[0], image, *words[1:], "-o", folder)
        assert done.returncode == 1
        assert f"nothing was selected, so nothing was written to {folder}" in done.stderr
    assert list(tmp_path.iterdir()) == [empty] and not list(empty.iterdir())
    if words[0] == "extract" and "--owner" in words:
        assert "; owners of the live files: 0 (" in done.stderr


def test_an_empty_listing_is_an_error_only_where_what_was_named_is_not_there(
    unpacked: Images, ext4kit: Cli
) -> None:
    image = unpacked("rm_rf_tree").image
    assert ext4kit("deleted", image, "--owner", "4242").returncode == 0
    assert ext4kit("deleted", image, "/no/such").returncode == 1
    assert ext4kit("deleted", image, "--inode", "4").returncode == 1


def test_a_selection_by_path_tells_what_no_path_can_select(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image, out = unpacked("removed_on_5_10").image, tmp_path / "out"
    every = ext4kit("deleted", image, "--json").stdout
    files = [one for one in map(json.loads, every.splitlines()) if one["record"] == "deleted"]
    path = next(one["path"] for one in files if one["path"])
    pathless = sum(one["path"] is None and one["inode"] is not None for one in files)
    contents = sum(one["inode"] is None for one in files)
    done = ext4kit("recover", image, path, "-o", out)
    readme = " ".join((out / "README.txt").read_text().split())
    assert "Everything that was found" not in readme
    for text in (done.stdout, readme, " ".join((out / "report.html").read_text().split())):
        if pathless:
            assert f"{pathless:,} more deleted file" in text
        assert f"{contents:,} contents without a name are left" in text
        assert "some may belong here" in text
        assert "manifest.jsonl alone: 0" not in text
    assert f"`ext4kit recover {image} -o NEW` brings them" in done.stdout
    assert "contents without a name: ext4kit recover IMAGE -o NEW" in readme


@pytest.mark.parametrize(
    ("words", "state", "suggested"),
    [
        (("deleted", "/FIRST"), "exists; 50 deleted files below it", "deleted IMAGE /first"),
        (("recover", "/mnt/disk/first/"), "50 deleted files", "recover IMAGE /first -o OUT"),
        (("ls", "/First"), "exists; 50 deleted files below it", "ls IMAGE /first"),
        (("stat", "/First"), "exists; 50 deleted files below it", "stat IMAGE /first"),
    ],
)  # fmt: skip
def test_a_near_path_has_one_state_and_the_command_that_was_given(
    unpacked: Images, ext4kit: Cli, tmp_path: Path, words: tuple[str, str], state: str,
    suggested: str,
) -> None:  # fmt: skip
    image = unpacked("ext3").image
    more = ("-o", tmp_path / "out") if words[0] == "recover" else ()
    done = ext4kit(words[0], image, words[1], *more)
    assert state in done.stderr
    assert f"`ext4kit {suggested.replace('IMAGE', str(image))}`" in done.stderr


def test_a_path_that_is_right_is_told_from_options_that_exclude_all(
    unpacked: Images, ext4kit: Cli
) -> None:
    done = ext4kit("deleted", unpacked("rm_rf_tree").image, "/project", "--type", "link")
    assert done.returncode == 0
    told = "deleted files are at or below /project, none of them is selected by the other options"
    assert told in done.stderr and "no such" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("explain", "<99999>"), 2, "no inode 99999: this file system has inodes 1 to "),
        (("timeline", "--inode", "99999"), 1, "no inode 99999: this file system has inodes 1 to "),
        (("ls", "<1000>"), 2, "inode 1000 was never used"),
        (("cat", "<1000>"), 2, "inode 1000 was never used"),
        (("cat", "448"), 2, "an inode number is written '<448>'"),
        (("ls", "-r", "--lost"), 2, "no traces of an earlier file system"),
        (("deleted", "--lost"), 2, "no traces of an earlier file system"),
        (("export", "--owner", "4242", "--csv", "OUT"), 1, "; owners of the live files: 0 ("),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told_in_plain_words(
    unpacked: Images, ext4kit: Cli, tmp_path: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    more = [str(tmp_path / "out") if word == "OUT" else word for word in words[1:]]
    done = ext4kit(words[0], unpacked("ext3").image, *more)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_stat_of_a_never_used_inode_says_so_first(unpacked: Images, ext4kit: Cli) -> None:
    done = ext4kit("stat", unpacked("ext3").image, "<1000>")
    assert done.stdout.startswith("inode 1000 was never used\nPath:")


def test_a_free_inode_is_answered_with_a_whole_command(unpacked: Images, ext4kit: Cli) -> None:
    image = unpacked("ext3").image
    done = ext4kit("cat", image, "<140>")
    assert f"`ext4kit recover {image} --inode 140 -o OUT` recovers" in done.stderr


def test_a_record_of_versions_is_refused_in_plain_words(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image, out = unpacked("ext3").image, tmp_path / "out"
    path = "/second/password/invoice/number-0018.txt"
    assert ext4kit("versions", image, path, "-o", out).returncode == 0
    done = ext4kit("explain", image, "--manifest", out / "manifest.jsonl", "--record", "1")
    assert done.returncode == 2
    assert "has no evidence to explain; give the manifest of a `recover`" in done.stderr


@pytest.mark.parametrize("name", [b"caf\xe9 ", "right\u202egpj.exe".encode(), b"back\\slash"])
def test_a_printed_name_is_read_back(name: bytes) -> None:
    assert unprinted(os.fsencode(shown(b"/a/" + name))) == b"/a/" + name


def test_contents_without_a_name_are_counted_beside_files() -> None:
    grades = dict.fromkeys(Grade, 0) | {Grade.OVERWRITTEN: 253, Grade.CARVED: 253}
    assert counts_line(grades, contents=253) == (
        "253 deleted files: 253 overwritten; 253 contents without a name (they may be theirs)"
    )


def test_messages_are_wrapped_at_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "note: a long message with `ext4kit recover /a/very/long/path/that/is/not/broken -o OUT`"
    monkeypatch.setenv("COLUMNS", "30")
    tell_line(text)
    assert capsys.readouterr().err == f"{text}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    tell_line(text)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2 and " ".join(map(str.strip, lines)) == text
    assert "  /a/very/long/path/that/is/not/broken" in lines


def test_totals_are_of_all_files_and_the_listed_ones_are_counted(
    unpacked: Images, ext4kit: Cli
) -> None:
    image = unpacked("rm_rf_tree").image
    total = ext4kit("deleted", image).stdout.splitlines()[-1]
    limited = ext4kit("deleted", image, "--sort", "grade", "--limit", "12").stdout.splitlines()[-1]
    assert limited == f"{total}; 12 listed"
