"""Write the manual pages and completion scripts, or the reference."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ext4kit import __version__
from ext4kit.cli.completion import script
from ext4kit.cli.main import program
from ext4kit.cli.manual.facts import Facts, all_facts
from ext4kit.cli.manual.pages import render
from ext4kit.cli.schemas import schema_names, schema_text
from ext4kit.reasons import CATALOGUE

RELEASED = "2026-11-22"  # release day of this version in CHANGELOG.md; the date of the pages
_COMPLETIONS = {
    "bash": "bash-completion/completions/ext4kit",
    "zsh": "zsh/site-functions/_ext4kit",
    "fish": "fish/vendor_completions.d/ext4kit.fish",
}


@click.group()
def write() -> None:
    """Write the help of all commands in other forms."""


@write.command()
@click.argument("folder", type=click.Path(path_type=Path))
def share(folder: Path) -> None:
    """Write a manual page for each command and the completion scripts below FOLDER."""
    every = list(all_facts(program, "ext4kit"))
    for facts in every:
        others = _others(facts, every)
        text = render("page.1", facts=facts, others=others, version=__version__, day=RELEASED)
        _write(folder / "man/man1" / f"{facts.page}.1", text)
    for shell, place in _COMPLETIONS.items():
        _write(folder / place, f"{script(program, shell)}\n")
    click.echo(f"{len(every)} manual pages, {len(_COMPLETIONS)} completion scripts in {folder}")


@write.command()
@click.argument("folder", type=click.Path(path_type=Path))
def markdown(folder: Path) -> None:
    """Write the reference of all commands, records and reasons into FOLDER."""
    schemas = {name: json.loads(schema_text(name)) for name in schema_names()}
    pages = {
        "commands.md": render("commands.md", every=all_facts(program, "ext4kit")),
        "records.md": render("records.md", schemas=schemas),
        "reasons.md": render("reasons.md", reasons=CATALOGUE),
    }
    for name, text in pages.items():
        _write(folder / name, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _others(facts: Facts, every: list[Facts]) -> list[str]:
    """The pages of the parent command and of the direct subcommands."""
    above = [each.page for each in every if each.words == facts.words[:-1]]
    below = [each.page for each in every if each.words[:-1] == facts.words]
    return [*above, *below]


if __name__ == "__main__":
    write()
