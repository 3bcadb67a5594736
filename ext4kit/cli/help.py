"""Help of a command with its options in groups; the command's own options come first."""

from __future__ import annotations

import click

_GROUPS = {
    "Options that select files": (
        "numbers", "expressions", "types", "kinds", "mimes", "size", "owners", "modified_since",
        "modified_until", "deleted_since", "deleted_until", "grades", "artifacts",
        "artifact_definitions", "least", "versions",
    ),
    "Options for the image": (
        "images", "all_volumes", "volume", "offset", "replay", "superblock", "journal", "as_of",
        "has_lost", "lost_number", "form", "password_files", "key_files", "kdf_limit", "kdf_memory",
        "unpack_limit",
    ),
    "Options for the case record": ("operator", "case_number", "verify_evidence"),
}  # fmt: skip


class GroupedCommand(click.Command):
    """A command whose help lists the options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group; options without a group come first."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        grouped = {name for names in _GROUPS.values() for name in names}
        own = tuple(each.name or "" for each in options if each.name not in grouped)
        for title, names in {"Options": own, **_GROUPS}.items():
            records = (each.get_help_record(ctx) for each in options if each.name in names)
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows)
