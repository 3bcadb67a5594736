"""File trees in addition to the live one: deleted files, versions, earlier times and so on.

Every view is a `filesystem.view.View`; `opening.open_view` opens one by its name.
"""

VIEW_NAMES = (
    "live", "deleted", "all", "versions", "as-of", "unattached", "unallocated", "slack", "roots",
)  # fmt: skip
