"""`ext4kit search`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ext4kit.cli.collecting import write_collected
from ext4kit.cli.custody import Custody, custody
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, packed
from ext4kit.cli.selecting import (
    KnownOptions,
    SelectionOptions,
    deleted_selection,
    known_files,
    known_lists,
    known_options,
)
from ext4kit.cli.session import opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.cli.values import named
from ext4kit.errors import RequestError
from ext4kit.output.collecting import CollectedItem
from ext4kit.report.safe import printable_text
from ext4kit.report.search import count_lines, file_lines, hit_lines, search_records
from ext4kit.roots.layers import LayerRoots
from ext4kit.search.file_scans import FileSearch
from ext4kit.search.hits import CONTEXT as USUAL_CONTEXT
from ext4kit.search.hits import Area, Hits, MemberNode
from ext4kit.search.patterns import (
    FEATURES,
    Pattern,
    feature_patterns,
    hex_pattern,
    regex_pattern,
    text_patterns,
    word_patterns,
)
from ext4kit.search.search import KnownFilter, search
from ext4kit.search.yara_rules import YaraRules

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem
    from ext4kit.known.lists import KnownList

_EXAMPLE = """\b
Examples:
  ext4kit search disk.img --text password
  ext4kit search disk.img /home --text thesis -i
  ext4kit search server.img --root web --text password
  ext4kit search disk.img --regex 'Accepted (password|publickey) for \\w+' --in deleted,unallocated
  ext4kit search disk.img --features email,card,wallet --count
  ext4kit search disk.img --words names.txt --files-with-matches
  ext4kit search disk.img --text invoice --inside
  ext4kit search disk.img --yara rules/ --inside
  ext4kit search disk.img --hashes stolen.txt -o found
  ext4kit search disk.img --hex '7f 45 4c 46 02' --in slack --json
"""


def _areas(context: click.Context, option: click.Parameter, value: str) -> frozenset[Area]:
    names = named(context, option, value, [*Area, "all"])
    return frozenset(Area) if "all" in names else frozenset(map(Area, names))


def _features(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = named(context, option, value, [*FEATURES, "all"]) if value is not None else ()
    return FEATURES if "all" in names else tuple(names)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Values of the options that say what is searched for, where, and what is shown of it."""

    texts: tuple[str, ...] = ()
    regexes: tuple[str, ...] = ()
    digits: tuple[str, ...] = ()
    words: Path | None = None
    features: tuple[str, ...] = ()
    ignores_case: bool = False
    areas: frozenset[Area] = frozenset(Area)
    counts: bool = False
    files: bool = False
    context: int = USUAL_CONTEXT
    limit: int | None = None
    is_inside: bool = False
    rules: tuple[Path, ...] = ()
    hashes: tuple[KnownList, ...] = ()
    out: Path | None = None

    def scanned(self, fs: FileSystem) -> FileSearch:
        """What is searched file by file.

        Raises:
            RequestError: a rule is not valid.
            UnsupportedError: YARA-X is not installed.
        """
        rules = YaraRules.of_files(self.rules) if self.rules else None
        return FileSearch(self.is_inside, rules, self.context, known_files(self.hashes, fs))

    @property
    def patterns(self) -> list[Pattern]:
        """All patterns.

        Raises:
            RequestError: there is nothing to search for, or a pattern is not valid.
        """
        found: list[Pattern] = list(feature_patterns(self.features))
        for text in self.texts:
            found += text_patterns(text, self.ignores_case)
        found += [regex_pattern(one, self.ignores_case) for one in self.regexes]
        found += [hex_pattern(one) for one in self.digits]
        found += word_patterns(self.words, self.ignores_case) if self.words else []
        if not (found or self.rules or self.hashes):
            options = "--text, --regex, --hex, --words, --features, --hashes or --yara"
            raise RequestError(f"say what to search for, with {options}")
        return found


_WANTED = (
    click.option("--text", "texts", multiple=True, metavar="TEXT",
                 help="Find this text, in UTF-8, UTF-16LE and Latin-1."),
    click.option("--regex", "regexes", multiple=True, metavar="REGEX",
                 help="Find matches of this regular expression over bytes, the longest ones."),
    click.option("--hex", "digits", multiple=True, metavar="DIGITS",
                 help="Find these bytes, as '7f 45 4c 46'; ?? is any byte."),
    click.option("--words", metavar="FILE", type=click.Path(path_type=Path),
                 help="Find the words of this file, one a line; up to 1,000,000."),
    click.option("--features", callback=_features, metavar="LIST",
                 help="Find " + ", ".join(FEATURES) + " or all; check digits are checked."),
    click.option("--yara", "rules", multiple=True, metavar="RULES",
                 type=click.Path(path_type=Path),
                 help="Apply the YARA rules of this file, or of a folder of .yar and .yara files."),
    click.option("--hashes", metavar="FILE", type=click.Path(path_type=Path), multiple=True,
                 callback=known_lists,
                 help="Find files whose content is in this list of hashes: text, CSV, NSRL."),
    click.option("--inside", "is_inside", is_flag=True,
                 help="Also search what zip, tar, gzip, xz, bzip2, zstd and SQLite files hold."),
    click.option("-i", "--ignore-case", "ignores_case", is_flag=True,
                 help="Take upper and lower case for the same."),
    click.option("--in", "areas", callback=_areas, default="all", show_default=True,
                 metavar="LIST", help="Only show hits in " + ", ".join(Area)
                 + "; separated by commas."),
    click.option("--count", "counts", is_flag=True, help="Show the number of hits alone."),
    click.option("-l", "--files-with-matches", "files", is_flag=True,
                 help="Show the files that have hits."),
    click.option("--context", type=click.IntRange(0, 4096), default=USUAL_CONTEXT,
                 show_default=True, metavar="BYTES", help="Bytes shown before and after a hit."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Show the first N only."),
    click.option("-o", "--output", "out", metavar="OUT", type=click.Path(path_type=Path),
                 help="Write the files with hits into this new or empty folder."),
)  # fmt: skip


@click.command("search", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(times=True, root=True)
@deleted_selection
@known_options
@packed(Wanted, "wanted", _WANTED)
@custody
def command(
    options: CommonOptions,
    chosen: SelectionOptions,
    known: KnownOptions,
    wanted: Wanted,
    custody: Custody,
) -> None:
    """Search all bytes of IMAGE for texts, patterns and features.

    The volume is read once, in disk order; each hit gets the file that has it. A match that goes on
    in another fragment of a file is found; one that goes on in the block of a stranger is marked.
    With PATHs, or options that select files, only those files are searched; with --root, only files
    in the layers of this Linux root, and PATHs are paths in it.

    \b
    live         files and directories as they are
    deleted      deleted files, with their grade
    earlier      earlier versions of files
    slack        after the end of a file, in its last block; blocks reserved for a file
    unallocated  free blocks that no known file had
    journal      the journal
    metadata     inode tables and other blocks of the file system itself

    Regular expressions and features, and many words, need Hyperscan: pip install 'ext4kit[search]'.
    A match has at most 4,096 bytes.
    YARA rules need YARA-X: pip install 'ext4kit[yara]'.
    """  # noqa: D301 -- click reads the backspace
    patterns = wanted.patterns
    with opened(options, folder=wanted.out) as session:
        scanned = wanted.scanned(session.fs)
        is_selected = chosen != SelectionOptions() or session.root is not None
        selection = session.in_root(chosen.selection(session)) if is_selected else None
        files = known.files(session.fs)
        marks = None if files is None else KnownFilter(files, known.wanted)
        with session.step("searching") as tell:
            result = search(
                session.workspace, patterns, wanted.areas, selection, tell, scanned, marks
            )
        result = replace(result, roots=LayerRoots(lambda: session.roots))
        session.is_incomplete |= bool(result.unreadable or result.cut)
        limit = 0 if wanted.counts else wanted.limit
        if wanted.counts:
            lines: Iterator[str] = count_lines(result)
        elif wanted.files:
            lines = file_lines(result, limit)
        else:
            lines = hit_lines(result, limit, wanted.context)
        show(options, search_records(result, limit, wanted.context, wanted.files), lines)
        if not len(result.hits):
            _tell_none(options, wanted, selection is not None)
        elif wanted.out is not None:
            write_collected(session, _with_hits(result.hits), wanted.out, custody)


def _tell_none(options: CommonOptions, wanted: Wanted, is_selected: bool) -> None:
    """Say that nothing matches, where it was searched, and what to try."""
    if options.quiet:
        return
    where = ", ".join(sorted(wanted.areas)) if wanted.areas != frozenset(Area) else ""
    has_texts = wanted.texts or wanted.regexes or wanted.words
    hint = "; -i also finds it in other case" if has_texts and not wanted.ignores_case else ""
    nothing = f"; nothing was written to {wanted.out}" if wanted.out else ""
    what = "the selected files" if is_selected else "the whole volume"
    place = f"{what} ({where})" if is_selected and where else where or what
    text = f"nothing matches in {place}{hint}{nothing}"
    click.echo(f"note: {printable_text(text)}", err=True)


def _with_hits(hits: Hits) -> Iterator[CollectedItem]:
    """The files with hits in their content."""
    for area, node, count in hits.by_file():
        if area is not Area.SLACK:
            yield CollectedItem(node.outer if isinstance(node, MemberNode) else node, count)
