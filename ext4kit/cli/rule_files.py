"""The option --rules: files and folders with rules of signs."""

from __future__ import annotations

from pathlib import Path

import click

from ext4kit.triage.rules.reading import read_rules
from ext4kit.triage.rules.rule import Rule


def _read(
    _context: click.Context, _option: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Rule, ...]:
    return read_rules(paths)


rules_option = click.option(
    "--rules",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    callback=_read,
    help="Add the rules of signs in this YAML file, or in the *.yaml of this folder; may be given"
    " several times.",
)
