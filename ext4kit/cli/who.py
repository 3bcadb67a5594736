"""`ext4kit who`."""

from __future__ import annotations

import re
from itertools import chain

import click
import numpy as np

from ext4kit.cli.finding import sources_option
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.session import Session, opened, show
from ext4kit.errors import RequestError
from ext4kit.owners.answers import who
from ext4kit.recovery.search_sources import SearchSource
from ext4kit.report.who import BlockTexts, block_record

_MOST = 1 << 20  # blocks of one call
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_EXAMPLE = """\b
Examples:
  ext4kit who disk.img 1057
  ext4kit who disk.img 1000-1010 2048
  ext4kit who disk.img --byte 1082368
  ext4kit who disk.img 1057 --json
"""


def _blocks(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> list[range]:
    """Callback of the blocks: numbers and ranges of them."""
    found = []
    for text in value:
        match = _RANGE.fullmatch(text)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise click.BadParameter(f"{text!r} is no block and no range such as 1000-1010",
                                     context, option)  # fmt: skip
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


@click.command("who", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(scan=True)
@click.argument("blocks", nargs=-1, callback=_blocks, metavar="[BLOCK...]")
@click.option("--byte", "offsets", type=click.IntRange(0), multiple=True, metavar="OFFSET",
              help="Ask for the block with this byte of the image; repeatable.")  # fmt: skip
@click.option("--in-volume", is_flag=True, help="OFFSETs count from the start of the volume.")
@sources_option
def command(
    options: CommonOptions,
    blocks: list[range],
    offsets: tuple[int, ...],
    in_volume: bool,
    sources: frozenset[SearchSource],
) -> None:
    """Tell what each BLOCK is, which file it belongs to, and whose it was before.

    BLOCK is a number or a range such as 1000-1010. For one block: its owner and the slack in it,
    earlier owners that the journal or deleted inodes show, deleted and carved contents, and its
    copies in the journal. Several blocks are a table; --json has all of each.
    """
    if not (blocks or offsets) or (in_volume and not offsets):
        raise RequestError("give a BLOCK or --byte; --in-volume goes with --byte")
    if sum(map(len, blocks)) > _MOST:
        raise RequestError(f"at most {_MOST:,} blocks can be asked for at once")
    with opened(options) as session:
        _answer(session, blocks, _places(session, offsets, in_volume), sources)


def _places(session: Session, offsets: tuple[int, ...], in_volume: bool) -> list[tuple[int, int]]:
    """(block, byte in it) of bytes.

    Raises:
        RequestError: one lies outside the file system.
    """
    superblock = session.fs.superblock
    start = 0 if in_volume else session.volume.facts.offset
    for offset in offsets:
        if not 0 <= offset - start < superblock.blocks_count * superblock.block_size:
            raise RequestError(f"byte {offset:,} lies outside the file system")
    return [divmod(offset - start, superblock.block_size) for offset in offsets]


def _answer(
    session: Session,
    blocks: list[range],
    places: list[tuple[int, int]],
    sources: frozenset[SearchSource],
) -> None:
    options, facts = session.options, session.volume.facts
    numbers = [*chain.from_iterable(blocks), *(block for block, _ in places)]
    count = session.fs.superblock.blocks_count
    if outside := [number for number in numbers if number >= count]:
        raise RequestError(f"block {outside[0]}: this file system has blocks 0 to {count - 1:,}")
    bytes_of = [*(None for _ in range(len(numbers) - len(places))), *(byte for _, byte in places)]
    with session.step("searching") as tell:
        answers = who(session.workspace, np.array(numbers, np.int64), sources, tell)
    texts = BlockTexts(session.workspace, str(options.image), facts.offset, facts.frame)
    records = (block_record(texts, *each) for each in zip(answers, bytes_of, strict=True))
    single = len(answers) == 1
    show(options, records, texts.lines(answers[0], bytes_of[0]) if single else texts.table(answers))
