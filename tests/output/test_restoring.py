"""Links, modes and names of hostile evidence are data: nothing is written outside the folder."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest

from ext4kit.filesystem.content import Chunk
from ext4kit.output import OutputDirectory, UnwritableError
from ext4kit.output.restoring import ALL_PARTS, Attributes, RestoredPart, RestoredParts
from ext4kit.problems import Problems
from sample_images.recipes.score import read_records
from tests.conftest import Cli

EVERYTHING = ALL_PARTS | {RestoredPart.PRIVILEGES}
CONTENT = b"evidence"


def attributes(mode: int = 0o100644, **xattrs: bytes) -> Attributes:
    values = {name.replace("_", ".").encode(): value for name, value in xattrs.items()}
    owner = (os.geteuid(), os.getegid()) if hasattr(os, "geteuid") else (0, 0)
    return Attributes(mode, *owner, 1, 2, lambda: values)


def output_of(folder: Path, parts: RestoredParts = EVERYTHING) -> OutputDirectory:
    return OutputDirectory(folder / "out", parts=parts)


def write(output: OutputDirectory, *parts: bytes, inode: Attributes | None = None) -> Path:
    return output.root / output.write(parts, [Chunk(0, 8, CONTENT)], "mark", inode).path


@pytest.mark.parametrize("first", ["link", "file"])
def test_nothing_is_written_through_a_link(first: str, tmp_path: Path) -> None:
    outside, output = tmp_path / "outside", output_of(tmp_path)
    outside.mkdir()
    for what in ("link", "file") if first == "link" else ("file", "link"):
        if what == "link":
            output.make_link((b"files", b"a"), os.fsencode(outside), "mark", attributes())
        else:
            write(output, b"files", b"a", b"b", inode=attributes())
            write(output, b"files", b"a", inode=attributes())
    output.make_hard_link((b"files", b"a"), output.write((b"x",), [], "mark"), "mark")
    output.make_folder((b"files", b"a", b"folder"))
    output.restore_folder((b"files", b"a", b"folder"), attributes(0o40700))
    assert not list(outside.iterdir())
    found = [path for path in output.root.rglob("*") if path.name == "b" and path.is_file()]
    assert [path.read_bytes() for path in found] == [CONTENT]
    links = [path for path in output.root.rglob("*") if path.is_symlink()]
    assert [path.readlink() for path in links] == [outside]


@pytest.mark.parametrize("name", [b"a/b", b"..", b"/etc/x", b"a\0b", b".", b""])
def test_a_name_is_one_component(name: bytes, tmp_path: Path) -> None:
    output = output_of(tmp_path)
    link = output.make_link((b"files", name), b"target", "mark", attributes()).path
    path = write(output, b"files", name, inode=attributes())
    first = output.write((b"files", b"first"), [], "mark")
    hard = output.make_hard_link((b"files", name), first, "mark").path
    folders = {(output.root / one).parent for one in (link, hard)} | {path.parent}
    assert folders == {output.root / "files"}
    assert len(list((output.root / "files").iterdir())) == 4
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 5000])
def test_a_target_that_no_link_can_have_is_a_reason_and_no_crash(
    target: bytes, tmp_path: Path
) -> None:
    with pytest.raises(UnwritableError):
        output_of(tmp_path).make_link((b"files", b"a"), target, "mark", attributes())


def test_a_target_keeps_every_byte(tmp_path: Path) -> None:
    output, target = output_of(tmp_path), b"../\xff\n//./$(x)/"
    path = output.root / output.make_link((b"files", b"a"), target, "", attributes()).path
    assert os.readlink(os.fsencode(path)) == target  # noqa: PTH115 -- a Path changes it


@pytest.mark.parametrize("bits", [0o4755, 0o2755, 0o6777, 0o7400])
def test_privileges_come_with_their_word_and_the_owner_alone(bits: int, tmp_path: Path) -> None:
    for number, parts in enumerate((ALL_PARTS, EVERYTHING - {RestoredPart.OWNER}, EVERYTHING)):
        (tmp_path / str(number)).mkdir()
        path = write(output_of(tmp_path / str(number), parts), b"x", inode=attributes(bits))
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (bits if parts == EVERYTHING else bits & ~0o6000)


def test_a_file_is_private_until_it_has_its_mode(tmp_path: Path) -> None:
    output, seen = output_of(tmp_path, frozenset({RestoredPart.MODE})), []

    def chunks() -> list[Chunk]:
        seen.append(stat.S_IMODE((tmp_path / "out" / "x.incomplete").stat().st_mode))
        return [Chunk(0, 8, CONTENT)]

    class Late:
        def __iter__(self) -> object:
            return iter(chunks())

    output.write((b"x",), Late(), "", attributes(0o100644))  # type: ignore[arg-type]
    assert seen == [0o600]
    assert stat.S_IMODE((tmp_path / "out" / "x").stat().st_mode) == 0o644


def test_what_is_not_restored_is_counted_by_kind(tmp_path: Path) -> None:
    output = output_of(tmp_path)
    for name in (b"a", b"b"):
        written = output.write((name,), [], "", attributes(odd_name=b"x", user_x=b"y" * 70_000))
        assert [each["what"] for each in written.outcome.record()["not_restored"]] == [
            "odd.name", "user.x",
        ]  # fmt: skip
    problems = Problems()
    output.report(problems)
    texts = sorted(f"{one.where}: {one.what}" for one in problems)
    assert len(texts) == 2
    assert texts[0].startswith("odd.* attributes: not restored for 2 files: ")
    assert texts[1].startswith("user.* attributes: not restored for 2 files: ")


def _hostile_image(folder: Path) -> Path:
    """Entries `a` (a link to a folder outside), `a` (a folder with `b`), and `a/b` in the root."""
    tree, image = folder / "tree", folder / "image"
    (tree / "D").mkdir(parents=True)
    (tree / "D" / "b").write_bytes(CONTENT)
    (tree / "a").symlink_to(folder / "outside")
    (tree / "aSb").write_bytes(CONTENT)
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum,^dir_index"]
    subprocess.run([*make, "-d", tree, image, "8M"], check=True)
    data = image.read_bytes()
    for before, after in ((b"\x03\x01aSb", b"\x03\x01a/b"), (b"\x01\x02D\0", b"\x01\x02a\0")):
        assert data.count(before) == 1
        data = data.replace(before, after)
    image.write_bytes(data)
    return image


@pytest.mark.parametrize("restore", [[], ["--restore", "all,privileges"]])
def test_a_hostile_tree_is_extracted_into_its_folder(
    restore: list[str], ext4kit: Cli, tmp_path: Path
) -> None:
    image, outside, out = _hostile_image(tmp_path), tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    done = ext4kit("extract", image, "/", "-o", out, *restore)
    assert done.returncode in (0, 1), done.stderr
    assert not list(outside.iterdir())
    assert (out / "files" / "a" / "b").read_bytes() == CONTENT
    assert not (out / "files" / "a").is_symlink()
    contents = [path.read_bytes() for path in (out / "files" / "a").iterdir()]
    assert contents == [CONTENT, CONTENT]  # one of them is the file `a/b`, told by its inode
    links = [path for path in out.rglob("*") if path.is_symlink()]
    assert [path.readlink() for path in links] == [outside] * bool(restore)
    records = list(read_records(out))
    (link,) = [one for one in records if one["type"] == "symlink"]
    assert link["link_target"] == str(outside)
    assert link["output"] == (str(links[0].relative_to(out)) if restore else None)


def test_without_root_the_owner_is_one_line_and_in_the_manifest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    output, problems = output_of(tmp_path), Problems()
    for name in (b"a", b"b"):
        outcome = output.write((name,), [], "", attributes(0o104755)).outcome.record()
        assert outcome["restored"] == ["mode", "times"]
        assert [each["what"] for each in outcome["not_restored"]] == ["owner", "privileges"]
    output.report(problems)
    told = [f"{one.where}: {one.what}" for one in problems if one.where == "owner"]
    assert told == [
        "owner: not restored for 2 files: Operation not permitted; this needs root; the manifest"
        " lists them"
    ]


@pytest.mark.parametrize("restores_owner", [False, True])
def test_an_ordinary_user_can_read_what_the_owner_could_not(
    restores_owner: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shadow file has mode 0 on some systems; with its owner it has it again."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    parts = EVERYTHING if restores_owner else EVERYTHING - {RestoredPart.OWNER}
    output = output_of(tmp_path, parts)
    own = Attributes(0o100000, os.getuid(), os.getgid(), 1, 2, dict)
    written = output.write((b"shadow",), [Chunk(0, 8, CONTENT)], "", own)
    output.make_folder((b"folder",))
    folder = Attributes(0o40000, os.getuid(), os.getgid(), 1, 2, dict)
    output.restore_folder((b"folder",), folder)
    modes = [(output.root / name).stat().st_mode & 0o7777 for name in ("shadow", "folder")]
    assert modes == ([0, 0] if restores_owner else [0o400, 0o700])
    missed = [each["what"] for each in written.outcome.record()["not_restored"]]
    assert ("mode" in missed) != restores_owner
