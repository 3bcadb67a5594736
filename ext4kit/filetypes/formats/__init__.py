"""Formats of files that can be carved, each declared in a module of this package.

Every module of this package that has a tuple `FORMATS` is found automatically.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ext4kit.filetypes.formats.declaration import FileFormat
from ext4kit.filetypes.formats.reader import Budget, ContentReader, Stated

FORMATS: tuple[FileFormat, ...] = tuple(
    one
    for name in sorted(module.name for module in iter_modules(__path__))
    for one in getattr(import_module(f"{__name__}.{name}"), "FORMATS", ())
)
BY_NAME = {one.name: one for one in FORMATS}
LENGTHS = {one.name: one.length for one in FORMATS if one.length is not None}
CHECKS = {one.name: one.check for one in FORMATS if one.check is not None}

__all__ = [
    "BY_NAME",
    "CHECKS",
    "FORMATS",
    "LENGTHS",
    "Budget",
    "ContentReader",
    "FileFormat",
    "Stated",
]
