"""YARA rules on files, held against the command `yara` of VirusTotal, and on free blocks."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ext4kit as library
from ext4kit.errors import AccessError, RequestError
from ext4kit.search import yara_rules
from ext4kit.search.file_scans import FileSearch
from ext4kit.search.hits import Area, Hit
from ext4kit.search.search import SearchResult, search
from ext4kit.search.yara_rules import YaraPattern, YaraRules
from ext4kit.workspace import Workspace
from sample_images.recipes.machine import copy_sparse, mounted, run
from sample_images.recipes.score import read_records
from tests.conftest import Cli, Images

RULES = """
rule words : common text {
    meta:
        author = "nobody"
        level = 3
        is_sure = true
    strings:
        $the = "the"
        $word = /[a-z]{5}[0-9]/
        $wide = "harbour" wide ascii nocase
        $bytes = { 00 00 ?? 0? 7f }
    condition:
        any of them
}
rule many { strings: $e = "ledger" condition: #e > 3 and $e in (0..filesize) }
rule small { condition: filesize > 0 and filesize < 300 and uint8(0) != 0 }
rule at_start { strings: $a = { 7f 45 4c 46 } $b = "#!" condition: $a at 0 or $b at 0 }
"""
Match = tuple[str, str, str, int]  # file, rule, string, byte


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(yara_rules, "MOST_LISTED", 1 << 30)
    path = tmp_path / "rules.yar"
    path.write_text(RULES)
    return path


def scanned(
    image: Path, rules: Path, areas: frozenset[Area] = frozenset(Area), is_inside: bool = False
) -> tuple[SearchResult, list[Hit]]:
    found = YaraRules.of_files([rules])
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        result = search(workspace, [], areas, scanned=FileSearch(is_inside, found))
        hits = [result.hits[at] for at in range(len(result.hits))]
        data = image.read_bytes()
        for hit in hits:
            if hit.start is not None and hit.length:
                assert data[hit.start : hit.start + hit.length] == hit.around().own
        return result, hits


def by_yara(rules: Path, root: Path, folder: Path) -> Iterator[tuple[Path, str, str, int]]:
    """(file, rule, string, byte) of each match that the command prints.

    Args:
        rules: file of rules.
        root: the files.
        folder: where they are copied, as names can have line ends.
    """
    if shutil.which("yara") is None:
        pytest.skip("needs yara")
    copies, names = folder / "copies", dict[str, Path]()
    copies.mkdir()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            copy = copies / f"{len(names)}"
            shutil.copyfile(path, copy)
            names[str(copy)] = path
    said = run("yara", "-w", "-r", "-s", rules, copies).decode("utf-8", "replace")
    rule, name, has_string = "", "", True
    for line in said.split("\n"):
        if found := re.match(r"0x([0-9a-f]+):(\$\w*): ", line):
            yield names[name], rule, found[2], int(found[1], 16)
            has_string = True
            continue
        if not has_string:
            yield names[name], rule, "", 0
        rule, _, name = line.partition(" ")
        has_string = not line
    shutil.rmtree(copies)


def matches(hits: list[Hit]) -> Iterator[tuple[Hit, str, str, int]]:
    for hit in hits:
        assert isinstance(hit.pattern, YaraPattern)
        yield hit, hit.pattern.rule, hit.pattern.string, hit.offset or 0


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize(
    "recipe", ["ext3", "block_1k", "inline_data", "editor_save", "power_cut", "truncate_rewrite"]
)
def test_live_files_have_the_matches_of_the_command(
    needs_kernel: None, built: Images, rules: Path, tmp_path: Path, recipe: str
) -> None:
    image, copy = built(recipe).image, tmp_path / "copy"
    copy_sparse(image, copy)
    with mounted(copy, "ro") as root:
        theirs = {
            (b"/" + os.fsencode(path.relative_to(root)), *rest)
            for path, *rest in by_yara(rules, root, tmp_path)
        }
    result, hits = scanned(image, rules, frozenset({Area.LIVE}))
    ours = {
        (hit.node.path, rule, string, at) for hit, rule, string, at in matches(hits) if hit.node
    }
    assert len(theirs) > 20
    assert ours == theirs
    assert result.scans.rules is not None
    assert (result.scans.rules.timeouts, result.scans.rules.windowed) == (0, 0)


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("recipe", ["removed_now", "rm_rf_tree", "data_journal", "reuse"])
def test_deleted_files_have_the_matches_of_what_recover_writes(
    needs_kernel: None, built: Images, ext4kit: Cli, rules: Path, tmp_path: Path, recipe: str
) -> None:
    image, out = built(recipe).image, tmp_path / "out"
    ext4kit("recover", image, "-o", out, "--sources", "blocks", "--no-readme", "--partial", "among")
    numbers = {
        (out / record["output"]).resolve(): (record["inode"], record["generation"])
        for record in read_records(out)
        if record["output"] and record["type"] == "file"
    }
    theirs = {
        (*numbers[path.resolve()], *rest)
        for path, *rest in by_yara(rules, out, tmp_path)
        if path.resolve() in numbers
    }
    _, hits = scanned(image, rules, frozenset({Area.DELETED}))
    ours = {
        (hit.node.number, hit.node.inode.generation, rule, string, at)
        for hit, rule, string, at in matches(hits)
        if hit.node and hit.node.inode
    }
    assert len(theirs) > 5
    assert ours == theirs


def test_free_blocks_the_journal_and_metadata_are_scanned_too(
    unpacked: Images, tmp_path: Path
) -> None:
    """All that grep finds in the image is found, in one area each."""
    image, rules = unpacked("rm_rf_tree").image, tmp_path / "rules.yar"
    rules.write_text('rule r { strings: $a = "ledger" condition: $a }')
    _, hits = scanned(image, rules)
    data = image.read_bytes()
    ours = [hit.start for hit in hits if hit.start is not None]
    theirs = {match.start() for match in re.finditer(b"ledger", data)}
    slack = theirs - set(ours)
    assert set(ours) <= theirs
    assert len(slack) * 10 < len(theirs)  # the ends of files, which no rule is applied to
    assert len({hit.area for hit in hits}) >= 3


def test_members_of_packed_files_are_scanned(tmp_path: Path, rules: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (tmp_path / "text").write_bytes(b"over the harbour1 " * 50)
    run("tar", "-C", tmp_path, "-czf", folder / "a.tgz", "text")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", folder, image)
    _, hits = scanned(image, rules, is_inside=True)
    plain = {
        (rule, string, at) for path, rule, string, at in by_yara(rules, tmp_path, folder)
        if path.name == "text"
    }  # fmt: skip
    inside = {found[1:] for found in matches(hits) if found[0].inside == "a.tar > text"}
    assert inside == plain
    assert len(plain) > 40


def test_a_large_file_is_scanned_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ext4kit.search.file_scans.FILE_WINDOW", 1 << 20)
    rng, folder, rules = random.Random(1), tmp_path / "files", tmp_path / "rules.yar"
    folder.mkdir()
    rules.write_text('rule r { strings: $a = "needle" condition: $a }')
    data = bytearray(rng.randbytes(5 << 20))
    for at in (0, (1 << 20) - 3, (2 << 20) - (64 << 10), 3_000_000, len(data) - 6):
        data[at : at + 6] = b"needle"
    with (folder / "large").open("wb") as file:
        file.write(data)
        file.seek(1 << 34)  # after a hole
        file.write(b"a needle")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", folder, image)
    result, hits = scanned(image, rules, frozenset({Area.LIVE}))
    theirs = [match.start() for match in re.finditer(b"needle", data)] + [(1 << 34) + 2]
    assert [hit.offset for hit in hits] == theirs
    assert result.scans.rules is not None
    assert result.scans.rules.windowed == 1


def test_records_have_the_rule_and_combine_with_other_patterns(
    ext4kit: Cli, unpacked: Images, rules: Path
) -> None:
    image = unpacked("rm_rf_tree").image
    words = ("search", image, "--yara", rules, "--text", "ledger", "--limit", "3000", "--json")
    *hits, summary = map(json.loads, ext4kit(*words).stdout.splitlines())
    own: list[dict[str, Any]] = [hit for hit in hits if hit["yara"]]
    one = next(hit for hit in own if hit["yara"]["string"] == "$word")
    assert one["yara"] == {
        "rule": "words", "namespace": "default", "string": "$word", "tags": ["common", "text"],
        "meta": {"author": "nobody", "level": 3, "is_sure": True},
    }  # fmt: skip
    assert len(one["text"]) == 6
    assert {hit["pattern"] for hit in own} <= {"words", "many", "small", "at_start"}
    assert summary["patterns"]["words"] > 0 < summary["patterns"]["ledger"]
    assert summary["yara"]["bytes"] > 0
    below = ext4kit("search", image, "/keep", "--yara", rules, "--count", "--json").stdout
    assert 0 < json.loads(below)["hits"] < summary["hits"]
    assert "words $word" in ext4kit("search", image, "--yara", rules, "--limit", "9000").stdout


def test_a_folder_of_rules_gives_each_file_its_namespace(
    ext4kit: Cli, unpacked: Images, tmp_path: Path
) -> None:
    folder = tmp_path / "rules"
    (folder / "sub").mkdir(parents=True)
    for name in ("one.yar", "sub/two.YARA", "three.txt"):
        (folder / name).write_text('rule r { strings: $a = "ledger" condition: $a }')
    image = unpacked("rm_rf_tree").image
    done = ext4kit("search", image, "--yara", folder, "--count", "--json")
    assert json.loads(done.stdout)["patterns"].keys() == {"one:r", "sub/two:r"}


@pytest.mark.parametrize(
    ("text", "said"),
    [("rule a { strings: $a = \"x\" condition: $b }", "rules.yar:1:39: unknown pattern `$b`"),
     ("\nrule {", "rules.yar:2:6: syntax error"),
     ("import \"nope\"\nrule a { condition: true }", "rules.yar:1:1: unknown module `nope`"),
     ("rule a { strings: $a = /(/ condition: $a }", "rules.yar:1:"),
     ("\xff", "is not text in UTF-8")],
)  # fmt: skip
def test_rules_that_are_none_are_refused_in_one_line(
    ext4kit: Cli, unpacked: Images, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "rules.yar"
    path.write_text(text, encoding="latin-1")
    done = ext4kit("search", unpacked("rm_rf_tree").image, "--yara", path)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_rules_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"no file ends in \.yar"):
        YaraRules.of_files([tmp_path])
    with pytest.raises(AccessError, match="No such file"):
        YaraRules.of_files([tmp_path / "nothing"])


def test_matches_of_a_string_are_listed_up_to_a_number(tmp_path: Path) -> None:
    path = tmp_path / "rules.yar"
    path.write_text('rule r { strings: $a = "a" condition: #a == 5000 }')
    rules = YaraRules.of_files([path])
    assert [one.start for one in rules.matches(b"a" * 5000)] == list(range(1000))
    assert rules.cut == 1


def test_a_scan_that_takes_too_long_is_ended_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yara_rules, "MOST_SECONDS", 1)
    path = tmp_path / "rules.yar"
    path.write_text("rule r { condition: for all i in (0..2000000000): (i * i >= 0) }")
    rules = YaraRules.of_files([path])
    assert rules.matches(b"x" * 100) == []
    assert rules.timeouts == 1
