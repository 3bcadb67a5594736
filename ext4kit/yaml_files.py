"""Reads YAML files of several documents, with the line where each document begins."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Any

from ext4kit.errors import RequestError


def read_documents(path: Traversable, shown: str) -> list[tuple[int, object]]:
    """(first line, content) of each document of a file.

    Args:
        path: the file.
        shown: its name in errors.

    Raises:
        RequestError: it cannot be read, or is no YAML.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RequestError(f"{shown}: could not be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown}: it is no UTF-8") from error
    try:
        # The parser in C is fast, and refuses some files that the one in Python reads.
        return list(_documents(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        try:
            return list(_documents(text, yaml.SafeLoader))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f", line {mark.line + 1}"
            why = getattr(error, "problem", None) or "no YAML"
            raise RequestError(f"{shown}{where}: {why}") from error


def _documents(text: str, kind: Any) -> Iterator[tuple[int, object]]:  # noqa: ANN401 -- no stubs
    loader = kind(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if (document := loader.construct_document(node)) is not None:
                yield node.start_mark.line + 1, document
    finally:
        loader.dispose()
