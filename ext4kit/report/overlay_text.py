"""What the extended attributes of overlayfs say, as text."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress

from ext4kit.errors import CorruptError
from ext4kit.filesystem import FileSystem
from ext4kit.parsers.overlay import LayerHandle, overlay_key, parse_handle, parse_metacopy
from ext4kit.report.safe import shown

_FIXED = {
    ("opaque", b"y"): "opaque: hides this directory in lower layers",
    ("opaque", b"x"): "has names that are whiteouts by an attribute",
    ("impure", b"y"): "holds files that were copied or moved here from elsewhere",
}


def overlay_text(name: bytes, value: bytes, fs: FileSystem | None = None) -> str:
    """What an attribute says; "" for one that is not of overlayfs, or is damaged.

    Args:
        name: name of the attribute.
        value: its value.
        fs: the file system, on which the file that a handle names is looked up.
    """
    key = overlay_key(name)
    if not key:
        return ""
    if (key, value) in _FIXED:
        return _FIXED[key, value]
    with suppress(CorruptError):
        if key in ("origin", "upper"):
            return _handle_text(key, value, fs)
        return _TEXTS[key](value) if key in _TEXTS else ""
    return ""


def overlay_texts(attributes: Mapping[bytes, bytes]) -> list[str]:
    """What the attributes of a file say that are of overlayfs."""
    return list(filter(None, (overlay_text(*pair) for pair in attributes.items())))


def _handle_text(key: str, value: bytes, fs: FileSystem | None) -> str:
    if not value:
        return "copy of a lower file that has no handle"
    handle = parse_handle(value)
    what = "copy of" if key == "origin" else "upper file:"
    if handle.inode is None:
        return f"{what} a file on file system {handle.uuid}, handle {handle.identifier.hex()}"
    text = f"{what} inode {handle.inode}, generation {handle.generation}"
    return f"{text}, on file system {handle.uuid}" if fs is None else text + _state(fs, handle)


def _state(fs: FileSystem, handle: LayerHandle) -> str:
    from ext4kit.roots.origins import OriginState, state_of

    state = state_of(fs, handle)
    if state is OriginState.ELSEWHERE:
        return f", on file system {handle.uuid}"
    return f" ({state})"


def _redirect_text(value: bytes) -> str:
    return f"in lower layers it is {shown(value)}"


def _links_text(value: bytes) -> str:
    if value[:2] not in (b"U+", b"U-", b"L+", b"L-"):
        return ""
    return (
        f"links: those of the {'upper' if value[:1] == b'U' else 'lower'} file {shown(value[1:])}"
    )


def _uuid_text(value: bytes) -> str:
    return f"UUID of the overlay: {uuid.UUID(bytes=value)}" if len(value) == 16 else ""


def _metacopy_text(value: bytes) -> str:
    found = parse_metacopy(value)
    digest = f" with the {found.algorithm} digest {found.digest.hex()}" if found.digest else ""
    return f"the content is in a lower layer{digest}"


_TEXTS: dict[str, Callable[[bytes], str]] = {
    "redirect": _redirect_text,
    "whiteout": lambda _: "whiteout: hides this name in lower layers",
    "nlink": _links_text,
    "uuid": _uuid_text,
    "metacopy": _metacopy_text,
}
