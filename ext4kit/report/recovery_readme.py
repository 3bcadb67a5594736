"""The `README.txt` that `recover` writes: the folders, the quality of the files, the next steps."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.filetypes.categories import Category
from ext4kit.recovery import Grade
from ext4kit.recovery.placing import FRAGMENTS, OTHER, PartialFiles
from ext4kit.report.phrases import count_text, resumed_text
from ext4kit.report.recovery_summary import NOT_WRITTEN, RecoverySummary, folder_kind
from ext4kit.report.tables import human_size
from ext4kit.report.times import time_text
from ext4kit.zones import UTC, current_zone

WIDTH = 78  # columns
_REASONS = 3  # number of reasons listed, the most common ones
_FOLDERS = {  # in the order of the text
    "files": "Files with the path that they had when they were deleted.",
    "earlier": "Files that another file of the same path had replaced before it was deleted.",
    "unnamed": "Files whose path is not known. The number in a name is that of the inode.",
    "partial": "Damaged files: a part of each is missing, old or not certain.",
    "inferred": "Content that was given the name of a deleted file because of its place on the "
    "disk or because a list of files has its digest. The name can be wrong: check the files that "
    "matter.",
}
_KINDS = {each.value: each.value for each in Category} | {
    Category.CODE.value: "programs and settings as text",
    Category.EXECUTABLES.value: "programs",
    OTHER: "of any other kind",
    FRAGMENTS: "probably only parts of files",
}
_FOLDERS |= {f"carved/{kind}": f"Content without a name: {what}." for kind, what in _KINDS.items()}
_WHOLE = {
    Grade.INTACT: "The last saved content; the evidence excludes a later change.",
    Grade.CONSISTENT: "All records agree; a later change without a record is not excluded.",
}
_WHERE_DAMAGED = {
    PartialFiles.APART: "Damaged files are in the folder {partial}.",
    PartialFiles.MARKED: "Damaged files are among the others and have .partial in their names.",
    PartialFiles.AMONG: "Damaged files are among the others; {page} and manifest.jsonl have "
    "the grade of each.",
}


@dataclass(frozen=True, slots=True)
class ReadmeSection:
    """A part of the text.

    Attributes:
        rows: (term, meaning) of each row of the table.
        commands: (purpose, command) of each listed command.
    """

    title: str
    paragraphs: tuple[str, ...]
    rows: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def sections(summary: RecoverySummary) -> Iterator[ReadmeSection]:
    """All parts of the text, in order; the page shows the same parts."""
    yield ReadmeSection(
        "What this folder is",
        (
            f"ext4kit {summary.version} found deleted files in the image {summary.image} and wrote"
            f" them here on {time_text(summary.made)}. The image was only read.",
            *(
                resumed_text(summary.written, count, summary.is_complete)
                for count in [summary.kept]
                if count
            ),
            f"The command was: {summary.command}",
            *_zone_texts(summary),
        ),
    )
    yield _folders(summary)
    yield _whole(summary)
    yield _damaged(summary)
    yield _nameless(summary)
    yield _lost(summary)
    yield _next(summary)


def _zone_texts(summary: RecoverySummary) -> Iterator[str]:
    zone = current_zone()
    if zone is not UTC:
        yield (
            f"Times in this text and in {summary.page} are in {zone}; those in manifest.jsonl and"
            " case.json are in UTC."
        )


def _folders(summary: RecoverySummary) -> ReadmeSection:
    found = [
        (
            f"{name}/ - {count_text(each.files, 'file')}, {human_size(each.bytes)}",
            _FOLDERS[folder_kind(name)],
        )
        for name, each in sorted(summary.folders.items(), key=folder_place)
        if name != NOT_WRITTEN
    ]
    rest = (
        (summary.page, "This text with tables of all files, for a web browser."),
        ("manifest.jsonl", "A record of each file for programs and examiners, one on each line."),
        ("case.json", "Which command ran when, on which evidence, with which result."),
    )
    made = [(summary.links, "link"), (summary.directories, "folder")]
    words = [count_text(count, what) for count, what in made if count]
    restored = (f"Also restored: {_joined(words)}.",) if words else ()
    nothing = () if found else ("No file was written.",)
    return ReadmeSection("The files and folders", nothing + restored, (*found, *rest))


def folder_place(folder: tuple[str, object]) -> int:
    """Position of a folder in the text, by its name; files that were not written come last."""
    kind = folder_kind(folder[0])
    return list(_FOLDERS).index(kind) if kind in _FOLDERS else len(_FOLDERS)


def _whole(summary: RecoverySummary) -> ReadmeSection:
    found = [each for each in Grade if each.is_whole and summary.grades[each]]
    text = "No recovered file is known to be undamaged."
    if found:
        grades = _joined([f"{summary.grades[each]:,} {each}" for each in found])
        text = f"{_are(summary.whole, 'file')} whole: {grades}."
    if summary.versions:
        text += f" {_are(summary.versions, 'record')} of an earlier version of a file."
    return ReadmeSection("Whole files", (text,), tuple((each, _WHOLE[each]) for each in found))


def _damaged(summary: RecoverySummary) -> ReadmeSection:
    many = summary.grades[Grade.PARTIAL]
    if not many:
        return ReadmeSection("Damaged files", ("No file is graded partial.",))
    where = _WHERE_DAMAGED[summary.partial].format(
        partial=summary.name_of("partial"), page=summary.page
    )
    text = f"{_are(many, 'file')} damaged (graded partial). {where} Look at each before you use it."
    return ReadmeSection("Damaged files", (text,), _most_common(summary.damaged, summary.page))


def _nameless(summary: RecoverySummary) -> ReadmeSection:
    carved = summary.count(lambda name: name.startswith("carved/"))
    pieces = summary.count(lambda name: name == f"carved/{FRAGMENTS}")
    unnamed = summary.count(lambda name: name == "unnamed")
    inferred = summary.count(lambda name: name == "inferred")
    texts = []
    if carved:
        texts.append(
            f"{_have(carved, 'carved file')} no name and no path: only the bytes were found. The"
            f" names of the files in the folder {summary.name_of('carved')} contain the number of"
            " the block where the content begins. Its start and its end are estimates."
            + (f" {_are(pieces, 'carved file')} probably only part of a file." if pieces else "")
        )
    if unnamed:
        texts.append(f"{_have(unnamed, 'file')} no known path, but size, owner and times.")
    if inferred:
        texts.append(f"{_have(inferred, 'file')} a name that is likely and not certain.")
    return ReadmeSection("Files without a name", tuple(texts) or ("There are none.",))


def _lost(summary: RecoverySummary) -> ReadmeSection:
    many, failed = summary.lost.total(), summary.failed.total()
    texts = []
    if many:
        text = f"Of {count_text(many, 'deleted file')} no content was found that can be told to be"
        texts.append(text + f" {'its own' if many == 1 else 'theirs'} (graded overwritten).")
    if many and summary.count(lambda name: name.startswith("carved/")):
        texts.append(
            "Some of the carved files without a name, in the folder"
            f" {summary.name_of('carved')}, may be these files."
        )
    if failed:
        texts.append(f"{count_text(failed, 'file')} could not be written; a new run may do it.")
    if summary.others:
        texts.append(
            f"Directories, links and devices that have a record in manifest.jsonl alone:"
            f" {summary.others:,}. With --restore folders,links directories and links are made."
        )
    if not texts:
        what = "selected" if summary.is_selection else "found"
        texts.append(f"Everything that was {what} was written.")
    if summary.unreached:
        texts.append(f"{summary.unreached}.")
    return ReadmeSection(
        "What could not be recovered",
        tuple(texts),
        _most_common(summary.failed + summary.lost, summary.page),
    )


def _next(summary: RecoverySummary) -> ReadmeSection:
    again = "ext4kit recover IMAGE -o NEW"
    explain = "ext4kit explain IMAGE --manifest OUT/manifest.jsonl --record N"
    commands = [
        ("Also recover earlier versions of files", f"{again} --versions"),
        ("Recover only files of one kind, recognised by their content", f"{again} --kind pictures"),
    ]
    if summary.unreached:
        commands.insert(0, ("Files whose path is not known, and contents without a name", again))
    if summary.has_explanations:
        what = f"Show the evidence for a file, with byte offsets; N is its number in {summary.page}"
        commands.insert(0, (what, explain))
    return ReadmeSection(
        "What to do next",
        (
            "Copy the files that you need to another disk, and do not change this folder. Do not "
            "write to the disk that lost the files as long as you are still searching for some of "
            "them.",
            f"In these commands IMAGE is {summary.address}, OUT is this folder, and NEW a folder"
            " that does not exist yet.",
        ),
        commands=tuple(commands),
    )


def _most_common(why: Counter[str], page: str) -> tuple[tuple[str, str], ...]:
    """The most common reasons with their counts, and one row for all other reasons."""
    rows = [(count_text(count, "file"), text) for text, count in why.most_common(_REASONS)]
    if rest := why.total() - sum(count for _, count in why.most_common(_REASONS)):
        rows.append((count_text(rest, "file"), f"Other reasons; {page} has them."))
    return tuple(rows)


def _are(count: int, what: str) -> str:
    """`1 file is`, `2 files are`."""
    return f"{count_text(count, what)} {'is' if count == 1 else 'are'}"


def _have(count: int, what: str) -> str:
    """`1 file has`, `2 files have`."""
    return f"{count_text(count, what)} {'has' if count == 1 else 'have'}"


def _joined(parts: list[str]) -> str:
    return " and ".join(parts)


def readme_text(summary: RecoverySummary) -> str:
    """The text of README.txt, wrapped to `WIDTH` columns."""
    title = f"Deleted files of {summary.image}"
    lines = [*_wrapped(title), "=" * min(len(title), WIDTH)]
    for section in sections(summary):
        lines += ["", section.title, "-" * len(section.title)]
        for text in section.paragraphs:
            lines += ["", *_wrapped(text)]
        lines += [""] * bool(section.rows)
        for term, meaning in section.rows:
            lines += [*_wrapped(term, "  "), *_wrapped(meaning, "      ")]
        for what, command in section.commands:
            lines += ["", *_wrapped(f"{what}:", "  "), f"    {command}"]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
