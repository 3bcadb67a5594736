"""`ext4kit schema`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT
from ext4kit.cli.schemas import schema_names, schema_text
from ext4kit.errors import RequestError

_EXAMPLE = """\b
Examples:
  ext4kit schema
  ext4kit schema entry > entry.schema.json
  ext4kit schema "lost file system"
"""


@click.command("schema", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("record", required=False)
def command(record: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the kind RECORD; without RECORD, list all kinds.

    The field "record" of a record is its kind. "manifest" is the kind of the records of
    manifest.jsonl, "case" that of case.json.
    """
    if record is None:
        click.echo("\n".join(schema_names()))
        return
    name = record.replace("-", " ")
    if name not in schema_names():
        raise RequestError(f"{record}: unknown kind of record; `ext4kit schema` lists the kinds")
    click.echo(schema_text(name), nl=False)
