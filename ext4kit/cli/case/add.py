"""`ext4kit case add`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from ext4kit.cases.adding import FoundImage, examine, images_below
from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.ledger import Ledger, LedgerImage, LedgerVolume
from ext4kit.cases.lines import added_lines, added_record
from ext4kit.cli.case.common import case_option, key_options
from ext4kit.cli.exits import INCOMPLETE
from ext4kit.cli.options import CONTEXT, json_option, quiet_option
from ext4kit.cli.outputs import check_apart
from ext4kit.cli.progress import progress
from ext4kit.cli.session import passphrases
from ext4kit.cli.telling import tell_line
from ext4kit.report.phrases import count_text
from ext4kit.report.records import write_record

_EXAMPLE = """\b
Examples:
  ext4kit case add disk.img server.E01
  ext4kit case add /evidence
"""
_MOST_KINDS = 10


@click.command("add", context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@case_option
@key_options
@json_option
@quiet_option
def command(
    images: tuple[Path, ...],
    case: CaseFolder,
    password_files: tuple[Path, ...],
    key_files: tuple[Path, ...],
    json: bool,
    quiet: bool,
) -> None:
    """Add images to the case, with all their volumes.

    An IMAGE that is a folder stands for all images with ext volumes below it, whatever their names
    are; a note counts the other files by what they are. Containers, partitions, logical volumes
    and, with keys, encrypted volumes are opened. An image that cannot be opened is added too, so
    that status and report name it. A volume with the same UUID and the same superblocks of file
    system and journal as an earlier one is the same evidence once more: it is noted, and not
    examined twice.

    The exit code is 1 if an image could not be opened or has no ext volume.
    """
    keys = passphrases(password_files, key_files)
    is_bad = False
    with Ledger(case.ledger) as ledger:
        volumes = {one.id: one for one in ledger.volumes()}
        for found in _found(images, keys, quiet):
            check_apart([case.path], found.files)
            added = ledger.add(found)
            if added is None:
                if not quiet:
                    tell_line(f"note: {found.path} is in the case already")
                continue
            volumes |= {one.id: one for one in added[1]}
            is_bad |= not found.has_ext
            _show(*added, volumes, json)
    if is_bad:
        raise click.exceptions.Exit(INCOMPLETE)


def _found(images: tuple[Path, ...], keys: tuple[bytes, ...], quiet: bool) -> Iterator[FoundImage]:
    for path in images:
        if path.is_dir():
            with progress(quiet, "searching for images") as show:
                found = images_below(path, keys, progress=show)
            kept, others = list[FoundImage](), Counter[str]()
            for one in found:
                if one.has_ext or one.problem:
                    kept.append(one)
                else:
                    others[one.kinds] += 1
            if not kept:
                tell_line(f"note: no image with an ext volume is below {path}")
            if others and not quiet:
                _tell_others(path, others)
            yield from kept
        else:
            yield examine(path, keys)


def _tell_others(folder: Path, kinds: Counter[str]) -> None:
    told = [f"{count:,} {kind}" for kind, count in kinds.most_common(_MOST_KINDS)]
    told += ["others"] * (len(kinds) > _MOST_KINDS)
    without = f"{count_text(kinds.total(), 'file')} below {folder} without an ext volume"
    tell_line(f"note: left out: {without}: {', '.join(told)}; `ext4kit case add FILE` adds one")


def _show(
    image: LedgerImage, volumes: list[LedgerVolume], every: dict[int, LedgerVolume], json: bool
) -> None:
    if json:
        write_record(added_record(image, volumes, every))
    else:
        click.echo("\n".join(added_lines(image, volumes, every)))
