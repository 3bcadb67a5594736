"""`ext4kit scan`."""

from __future__ import annotations

from pathlib import Path

import click

from ext4kit import __version__
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import opened, show
from ext4kit.cli.values import part_of_parts
from ext4kit.errors import OutputError
from ext4kit.output.new_file import new_file
from ext4kit.output.pouring import write_all
from ext4kit.report.safe import printable_text

_EXAMPLE = """\b
Examples:
  ext4kit scan disk.img -o disk.scan
  ext4kit recover disk.img --scan disk.scan -o recovered
  ext4kit scan disk.img --part 3/8 -o parts/3.scan
  ext4kit report disk.img --scan parts
"""


@click.command("scan", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(zone=False)
@click.option("-o", "--output", "out", required=True, metavar="OUT",
              type=click.Path(path_type=Path),
              help="Write into this new file; name it *.scan.")  # fmt: skip
@click.option("--part", callback=part_of_parts, metavar="K/N",
              help="Scan only part K of N equal parts.")  # fmt: skip
def command(options: CommonOptions, out: Path, part: tuple[int, int]) -> None:
    """Scan the unallocated space of IMAGE, and keep what was found in a file.

    report, deleted, recover, export, explain, who and versions take it with --scan, and give the
    same results as without it: what they find by a scan of their own is in the file. Parts can be
    scanned by several processes or computers at once; put the files of all parts into one folder,
    and give that to --scan. A scan belongs to one state of one file system, and to one version of
    this program.
    """
    from ext4kit.recovery.kept_scan import scan_part, scan_pieces
    from ext4kit.recovery.unallocated_scan import whole_space

    with opened(options, files=[out]) as session:
        space = whole_space(session.workspace.history())
        with session.step("searching unallocated space") as tell:
            record, columns = scan_part(space, *part, session.problems, __version__, tell)
        try:
            with new_file(out, session.evidence_files) as handle:
                for piece in scan_pieces(record, columns):
                    write_all(handle, piece)
        except OSError as error:
            raise OutputError(f"{out}: {error.strerror}; it is incomplete") from error
        what = f"{record['bytes']:,} bytes scanned"
        if part[1] > 1:
            what = f"part {part[0]:,} of {part[1]:,}, {what}"
        show(options, [record], [f"written: {printable_text(str(out))}, {what}"])
