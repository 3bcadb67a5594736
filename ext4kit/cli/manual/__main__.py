"""Write the manual pages or the reference."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ext4kit import __version__
from ext4kit.cli.main import program
from ext4kit.cli.manual.facts import Facts, all_facts
from ext4kit.cli.manual.markdown import reference
from ext4kit.cli.manual.records import records_page
from ext4kit.cli.manual.roff import page


@click.group()
def write() -> None:
    """The commands' help in other forms."""


@write.command()
@click.argument("folder", type=click.Path(path_type=Path))
def man(folder: Path) -> None:
    """A manual page for each command into FOLDER."""
    every = list(all_facts(program, "ext4kit"))
    folder.mkdir(parents=True, exist_ok=True)
    day = datetime.now(UTC).date().isoformat()
    for facts in every:
        text = page(facts, _others(facts, every), __version__, day)
        (folder / f"{facts.page}.1").write_text(text, encoding="utf-8")
    click.echo(f"{len(every)} manual pages in {folder}")


@write.command()
@click.argument("folder", type=click.Path(path_type=Path))
def markdown(folder: Path) -> None:
    """The reference of all commands and of all records into FOLDER."""
    commands = reference(all_facts(program, "ext4kit"))
    (folder / "commands.md").write_text(commands, encoding="utf-8")
    (folder / "records.md").write_text(records_page(), encoding="utf-8")


def _others(facts: Facts, every: list[Facts]) -> list[str]:
    """The page above, and those right below."""
    above = [each.page for each in every if each.words == facts.words[:-1]]
    below = [each.page for each in every if each.words[:-1] == facts.words]
    return [*above, *below]


if __name__ == "__main__":
    write()
