"""`ext4kit hash`."""

from __future__ import annotations

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.progress import progress
from ext4kit.cli.session import image_of, tell
from ext4kit.evidence import Evidence
from ext4kit.evidence.hashing import Hashes, hash_evidence
from ext4kit.evidence.identity import mismatches
from ext4kit.report.hashes import evidence_record, hash_lines, hash_records
from ext4kit.report.records import write_record, write_records

_EXAMPLE = """\b
Examples:
  ext4kit hash disk.img
  ext4kit hash disk.E01 --verify
  ext4kit hash disk.img --image-only --json
"""


@click.command("hash", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(choices=False)
@click.option("--verify", is_flag=True, help="Fail if the container stores no hash.")
@click.option("--image-only", is_flag=True, help="Hash the image only, not its volumes.")
def command(options: CommonOptions, verify: bool, image_only: bool) -> None:
    """Compute MD5, SHA-1 and SHA-256 of IMAGE and of each volume in one pass.

    For a container, the disk inside is hashed and compared with the hashes that the container
    stores (EWF). The exit code is 1 if they differ, if --verify finds no stored hash, or if bytes
    are unreadable. Unreadable ranges are listed and hashed as zeros.
    """
    with image_of(options) as opened:
        evidence = opened.evidence
        with progress(options.quiet, "hashing") as show:
            image, volumes = hash_evidence(evidence, not image_only, show)
        _judge(evidence, image, verify)
        for number, hashes in volumes.items():
            _name_lost(evidence, f"volume {number}", hashes)
        if options.json:
            write_record(evidence_record(evidence))
            write_records(hash_records(evidence, image, volumes))
        else:
            click.echo("\n".join(hash_lines(evidence, image, volumes)))
        if tell((evidence.problems,), options):
            raise click.exceptions.Exit(1)


def _judge(evidence: Evidence, image: Hashes, verify: bool) -> None:
    """Report as problems all facts that contradict an exact acquisition."""
    stored = evidence.hashes
    for name in mismatches(stored, image.digests):
        text = f"{name} is {dict(image.digests)[name]}, but the container stores {stored[name]}"
        evidence.problems.add("image", text)
    if verify and not stored:
        evidence.problems.add("image", f"nothing to verify: {evidence.format} stores no hash")
    _name_lost(evidence, "image", image)


def _name_lost(evidence: Evidence, where: str, hashes: Hashes) -> None:
    if hashes.unreadable:
        total = sum(each.length for each in hashes.unreadable)
        text = f"{total:,} bytes in {len(hashes.unreadable):,} ranges are unreadable"
        evidence.problems.add(where, text)
