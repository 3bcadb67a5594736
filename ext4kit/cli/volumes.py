"""`ext4kit volumes`."""

from __future__ import annotations

import click

from ext4kit.cli.session import CONTEXT, Options, phrases, shared, tell
from ext4kit.opening import open_image
from ext4kit.report.records import write_record
from ext4kit.report.volumes import volume_lines, volume_record

_EXAMPLE = """\b
Example:
  ext4kit volumes disk.img
"""


@click.command("volumes", context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(choices=False)
def command(options: Options) -> None:
    """What IMAGE holds: partitions and the file system on each.

    Offset and size are in bytes. Other commands take the index as --volume.
    """
    with open_image(options.image, phrases(options)) as image:
        volumes = [volume.facts for volume in image.volumes]
        if options.json:
            for volume in volumes:
                write_record(volume_record(volume))
        else:
            click.echo("\n".join(volume_lines(volumes)))
        if tell((image.problems,), options):
            raise click.exceptions.Exit(1)
