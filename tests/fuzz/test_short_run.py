"""A short run of what `make fuzz` does for long, and the cases that long runs have found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ext4kit.cli.main import program
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem import FileSystem
from ext4kit.opening import open_image
from tests.fuzz import images
from tests.fuzz.commands import failures
from tests.fuzz.forms import every_form
from tests.fuzz.mutation import mutated

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
SHARED = {
    *("--volume", "--offset", "--no-replay", "--superblock", "--journal", "--lost"),
    *("--image", "--all-volumes", "--scan"),
    *("--lost-number", "--quiet", "--operator", "--case-number", "--verify-evidence"),
    *("--inode", "--name", "--type", "--kind", "--mime", "--size", "--owner", "--modified-since"),
    *("--modified-until", "--deleted-since", "--deleted-until", "--grade"),
    *("--from-now", "--tz", "--artifact", "--artifact-definitions"),
}
BLOCKING = {"mount", "serve", "browse", "case"}  # do not end by themselves or run others
ELSEWHERE = {  # of containers; added to a share of all
    *("--password-file", "--key-file", "--kdf-limit", "--kdf-memory", "--format", "--json"),
    "--unpack-limit",
}
SEEDS = 36


def damaged(base: str, seed: int, folder: Path) -> Path:
    """A base with the damage that the seed means."""
    image, body = folder / f"{base}-{seed}", images.body_of(base)
    image.write_bytes(body.data)
    patch_file(image, [(p.offset, p.data) for p in mutated(body, random.Random(seed))])
    return image


def patch_file(image: Path, patches: list[tuple[int, bytes]]) -> None:
    with image.open("r+b") as stream:
        for offset, data in patches:
            stream.seek(offset)
            stream.write(data)


def _of_images(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[set[str], list[click.Option]]]:
    """Every command that takes an image: its words and its options."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _of_images(command, (*words, name))
        elif command and any(each.name == "image" for each in command.params):
            yield (
                {*words, name},
                [each for each in command.params if isinstance(each, click.Option)],
            )


def test_every_command_and_each_of_its_options_is_run() -> None:
    """What is new belongs into `FORMS`; of the shared options one command each is enough."""
    forms = [set(words) for words in every_form(random.Random(0))]
    missing = []
    for words, options in _of_images(program):
        mine = [form for form in forms if words <= form]
        missing += [] if mine else [words]
        for option in options:
            among = forms if SHARED & set(option.opts) else mine
            if not any(form & set(option.opts) for form in among):
                missing.append(words | set(option.opts))
    missing = [words for words in missing if not words & BLOCKING]
    assert [words for words in missing if not words & ELSEWHERE] == []


@pytest.mark.heavy
@pytest.mark.parametrize("base", images.BASES)
def test_bases_are_sound_and_always_the_same(base: str, tmp_path: Path) -> None:
    again = images.make(base, tmp_path)
    assert again.read_bytes() == images.made(base).read_bytes()
    if base not in ("quota", "ea_inode"):  # debugfs keeps no accounts of what these count
        said = images.run("e2fsck", "-fn", again, accepted=(0, 4))
        wrong = [line for line in said.splitlines() if "Fix?" in line or "Clear?" in line]
        assert not wrong


@pytest.mark.heavy
def test_the_library_raises_nothing_but_its_own_errors(tmp_path: Path) -> None:
    names, read = images.makeable(), 0
    for seed in range(1000, 1000 + SEEDS):
        image = damaged(names[seed % len(names)], seed, tmp_path)
        try:
            with open_image(image) as opened:
                _read(opened.volume().filesystem())
                read += 1
        except Ext4kitError:
            pass
        image.unlink()
    assert read > SEEDS // 2


def _read(fs: FileSystem) -> None:
    for entry in fs.walk("/"):
        if entry.inode is not None and entry.inode.kind == "file":
            fs.content(entry.inode).read(0, 1 << 16)
            fs.xattrs(entry.inode)
    assert fs.orphans is not None


@pytest.mark.heavy
@pytest.mark.parametrize("case", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(case: Path, tmp_path: Path) -> None:
    finding = json.loads(case.read_text())
    image = tmp_path / "image"
    image.write_bytes(images.sound(finding["base"]).read_bytes())
    patch_file(image, [(offset, bytes.fromhex(data)) for offset, data in finding["patches"]])
    assert not list(failures(image, [finding["arguments"]], tmp_path))
