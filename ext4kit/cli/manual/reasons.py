"""The reasons of records as a page of the documentation, from their catalogue."""

from __future__ import annotations

from ext4kit.reasons import CATALOGUE

_HEAD = """# Reasons

Generated from `ext4kit/reasons.py` by `make reference`. The field `reasons` of a deleted or
extracted file gives the reasons why its content is uncertain or incomplete, each with a code and a
sentence. `problems` holds only the sentences, in the same order. `encrypted` is a note and does not
lower the grade. A code is never renamed and never reused; the wording of a sentence may change. A
word in braces stands for a value.

| code | sentence |
|---|---|
"""


def reasons_page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(f"| `{one.code}` | {one.text} |\n" for one in CATALOGUE)
