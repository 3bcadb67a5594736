"""`ext4kit volumes`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import image_of, tell
from ext4kit.cli.telling import tell_line
from ext4kit.cli.zones import tell_zone
from ext4kit.errors import RequestError
from ext4kit.evidence import Evidence
from ext4kit.evidence.signatures import UNKNOWN
from ext4kit.opening import Image
from ext4kit.report.records import write_record
from ext4kit.report.volumes import other_volume_record, volume_lines, volume_record
from ext4kit.zones import times_in

_EXAMPLE = """\b
Examples:
  ext4kit volumes disk.img
  ext4kit volumes disk.img --scan
"""


@click.command("volumes", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(choices=False)
@click.option(
    "--scan",
    is_flag=True,
    help="Find file systems by their superblocks, which may be at any sector.",
)
def command(options: CommonOptions, scan: bool) -> None:
    """List the partitions of IMAGE and the file system on each.

    Offset and size are in bytes. A logical or unlocked volume has no offset in the image: its
    description says where its first byte is. In other commands, --volume selects a volume by its
    index. --scan searches the whole image for primary and backup superblocks, without a partition
    table. In other commands, --offset takes the offset and --superblock the block of a backup.
    """
    if options.zone is None:
        raise RequestError("--tz image needs one file system; name the zone: --tz Europe/Berlin")
    with image_of(options) as image, times_in(options.zone):
        volumes = [volume.facts for volume in image.volumes]
        if options.json:
            for volume in volumes:
                write_record(volume_record(volume))
        else:
            click.echo("\n".join(volume_lines(volumes)))
        if image.evidence.other is not None:
            _show_other(image.evidence.other, options)
        if scan:
            _scan(image, options)
        elif not options.quiet and not any(each.kind != UNKNOWN for each in volumes):
            tell_line("note: --scan finds file systems by their superblocks")
        if tell((image.problems,), options):
            raise click.exceptions.Exit(1)


def _show_other(other: Evidence, options: CommonOptions) -> None:
    """Show the volumes in the other reading of an image that can be read in two ways."""
    if options.json:
        for volume in other.volumes:
            write_record(other_volume_record(volume, other.format))
    else:
        click.echo(f"\nnot taken: the volumes with --format {other.format}")
        click.echo("\n".join(volume_lines(other.volumes)))


def _scan(image: Image, options: CommonOptions) -> None:
    """Search the whole image for superblocks, and show them."""
    from ext4kit.filesystem.found import find_file_systems
    from ext4kit.report.volumes import found_lines, found_record

    with progress(options.quiet, "searching for superblocks") as show:
        found = find_file_systems(image.evidence.source, image.problems, show)
    if options.json:
        for one in found:
            write_record(found_record(one))
    else:
        click.echo("")
        tell_zone()
        click.echo("\n".join(found_lines(found)))
