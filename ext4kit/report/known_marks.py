"""The mark of files that are in lists of known files."""

from ext4kit.report.safe import printable_text


def known_text(source: str) -> str:
    """The mark of a file that is in a list of known files."""
    return f"known: {printable_text(source)}"
