"""Fields that several kinds of records share: their Python and JSON types, and their meaning.

A record is a plain dict. Its type is a `TypedDict`, or the dataclass from which the record is
built; it is defined where the record is built. The items after the type in an annotation go to the
JSON Schema: a pair is a keyword, a text is the description (`report/json_schema.py`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired, TypedDict, overload

Record = Mapping[str, object]  # a record of any kind
Value = int | str | bool | list[object] | dict[str, object] | None  # JSON values without fractions

Count = Annotated[int, ("minimum", 0)]
Size = Annotated[int, ("minimum", 0), "Bytes."]
Inode = Annotated[int, ("minimum", 0), "Inode number."]
Generation = Annotated[int, "i_generation."]
Mode = Annotated[int, ("minimum", 0), "i_mode: type and permissions."]
Transaction = Annotated[int, "Id of a transaction."]
LogBlock = Annotated[int, "Block of the log, counted from its start."]
Kind = Annotated[str, "Kind of the object."]
Uuid = Annotated[str, "UUID."]
Path = Annotated[
    str, "Absolute path in the image, as UTF-8, with backslash escapes for other bytes."
]
Exact = Annotated[
    str, ("contentEncoding", "base64"), "The exact bytes in base64, if they are not UTF-8."
]
Base64 = Annotated[str, ("contentEncoding", "base64")]
Output = Annotated[str, "Path below the output folder; null if nothing was written."]
Target = Annotated[str, "Target of the symlink."]
Unknown = Annotated[str, "With --as-of: why the values are not known."]
Device = Annotated[tuple[int, int], "Major and minor number of a device node."]
Known = Annotated[
    str | None, "With --known: the list that has a hash of the content; null where none has."
]
Reasons = Annotated[list[str], "Reasons why the content is incomplete or uncertain, as sentences."]

Moment = Annotated[int, "Nanoseconds since 1970 UTC."]
Created = Annotated[
    int, "Creation, nanoseconds since 1970 UTC; null if the inode has no room for it."
]
Iso = Annotated[str, "ISO 8601 in UTC."]

Md5 = Annotated[str, ("pattern", "^[0-9a-f]{32}$"), "MD5 in hex."]
Sha1 = Annotated[str, ("pattern", "^[0-9a-f]{40}$"), "SHA-1 in hex."]
Sha256 = Annotated[str, ("pattern", "^[0-9a-f]{64}$"), "SHA-256 in hex."]

HashName = Literal["md5", "sha1", "sha256"]
FileType = Literal[
    "file", "directory", "symlink", "chardev", "blockdev", "fifo", "socket", "unknown"
]


class KnownFact(TypedDict, total=False):
    """What a record of a file has where lists of known files are asked."""

    known: Known


class OfRoot(TypedDict, total=False):
    """What a record of a Linux root within the image has beside one of the image itself."""

    root: Annotated[str, "Name of the Linux root within the image; not there for its own."]


def of_root(name: str) -> OfRoot:
    """The fields of a record of the Linux root with a name; "" for the image itself."""
    return {"root": valid_text(name)} if name else {}


def valid_text(text: str) -> str:
    """A text without lone surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class PathText(TypedDict):
    """A path in records."""

    path: Path
    path_bytes: NotRequired[Exact]


class PathOrNone(TypedDict):
    """A path in records, null where it is unknown."""

    path: Path | None
    path_bytes: NotRequired[Exact]


class CommitTime(TypedDict):
    """Commit time of a transaction; null where it is unknown."""

    commit_time_ns: Annotated[int | None, "Time of the commit block, nanoseconds since 1970 UTC."]


class InodeFacts(TypedDict):
    """Facts about an inode, null where unknown."""

    mode: Mode | None
    uid: Count | None
    gid: Count | None
    atime: Moment | None
    mtime: Moment | None
    ctime: Moment | None
    crtime: Created | None


class LiveInode(TypedDict):
    """Facts about a readable inode."""

    inode: Inode
    type: FileType
    mode: Mode
    uid: Count
    gid: Count
    size: Size
    generation: Generation
    atime: Moment
    mtime: Moment
    ctime: Moment
    crtime: Created | None


class Xattr(TypedDict):
    """An extended attribute."""

    name: str
    name_bytes: NotRequired[Exact]
    value_base64: Base64


class FirstByte(TypedDict):
    """Where the first byte of a volume is stored."""

    volume: Annotated[int | None, "Number of the volume that stores it; null for the image."]
    offset: Annotated[int, "Bytes, in that volume or the image."]


class VolumeFacts(TypedDict):
    """Facts that identify a volume of the evidence."""

    index: Count
    offset: Annotated[
        int,
        "Byte offset in the image, or in the logical or unlocked volume that contains this one.",
    ]
    size: Size
    kind: Kind
    version: Annotated[
        str, "Version of the format, as blkid gives it, such as FAT32, or 2 for LUKS. May be empty."
    ]
    label: str
    uuid: Uuid
    scheme: str
    parent: int | None
    name: Annotated[
        str,
        "The logical volume itself, or the one that contains this volume, as "
        "group/volume. May be empty.",
    ]
    first_byte: Annotated[
        FirstByte | None,
        "Place of the first byte; null if a physical volume is missing or the place is unknown.",
    ]
    readable: Annotated[int, "Bytes of the volume that are in the image."]


class CodedReason(TypedDict):
    """A reason with its stable code."""

    code: Annotated[str, ("pattern", "^[a-z-]+$"), "Stable code of the reason."]
    text: Annotated[str, "One sentence."]


CodedReasons = Annotated[list[CodedReason], "The reasons with their codes."]


class Unread(TypedDict):
    """Bytes that could not be read."""

    offset: int
    length: int
    reason: str


class SomeDigests(TypedDict, total=False):
    """The requested hashes of a content."""

    md5: Md5
    sha1: Sha1
    sha256: Sha256


class Digests(TypedDict):
    """The hashes of a content."""

    md5: Md5
    sha1: Sha1
    sha256: Sha256


class Nothing(TypedDict):
    """Empty record, used where a field is left out."""


# Names in records: the text, and the exact bytes where it is not UTF-8.
NameText = TypedDict("NameText", {"name": str, "name_bytes": NotRequired[str]})
TargetText = TypedDict("TargetText", {"target": str, "target_bytes": NotRequired[str]})
LinkText = TypedDict("LinkText", {"link_target": str, "link_target_bytes": NotRequired[str]})
OldPathText = TypedDict("OldPathText", {"old_path": str, "old_path_bytes": NotRequired[str]})
WhichText = TypedDict("WhichText", {"which": str, "which_bytes": NotRequired[str]})
LabelText = TypedDict("LabelText", {"label": str, "label_bytes": NotRequired[str]})
MountText = TypedDict("MountText", {"last_mounted": str, "last_mounted_bytes": NotRequired[str]})
HostText = TypedDict("HostText", {"host": str, "host_bytes": NotRequired[str]})
FolderText = TypedDict("FolderText", {"folder": str, "folder_bytes": NotRequired[str]})
NoFolder = TypedDict("NoFolder", {"folder": None})
DeviceText = TypedDict("DeviceText", {"device": str, "device_bytes": NotRequired[str]})
NoPath = TypedDict("NoPath", {"path": None})
NoName = TypedDict("NoName", {"name": None})
NoLink = TypedDict("NoLink", {"link_target": None})
NoOldPath = TypedDict("NoOldPath", {"old_path": None})


@overload
def json_name(name: bytes, key: Literal["path"] = "path") -> PathText: ...
@overload
def json_name(name: None, key: Literal["path"] = "path") -> NoPath: ...
@overload
def json_name(name: bytes, key: Literal["name"]) -> NameText: ...
@overload
def json_name(name: None, key: Literal["name"]) -> NoName: ...
@overload
def json_name(name: bytes, key: Literal["link_target"]) -> LinkText: ...
@overload
def json_name(name: None, key: Literal["link_target"]) -> NoLink: ...
@overload
def json_name(name: bytes, key: Literal["old_path"]) -> OldPathText: ...
@overload
def json_name(name: None, key: Literal["old_path"]) -> NoOldPath: ...
@overload
def json_name(name: bytes, key: Literal["folder"]) -> FolderText: ...
@overload
def json_name(name: None, key: Literal["folder"]) -> NoFolder: ...
@overload
def json_name(name: bytes, key: Literal["target"]) -> TargetText: ...
@overload
def json_name(name: bytes, key: Literal["which"]) -> WhichText: ...
@overload
def json_name(name: bytes, key: Literal["label"]) -> LabelText: ...
@overload
def json_name(name: bytes, key: Literal["last_mounted"]) -> MountText: ...
@overload
def json_name(name: bytes, key: Literal["host"]) -> HostText: ...
@overload
def json_name(name: bytes, key: Literal["device"]) -> DeviceText: ...
@overload
def json_name(name: bytes, key: str) -> Record: ...
def json_name(name: bytes | None, key: str = "path") -> Record:
    """A name for JSON: `{key: text}`, and `{key}_bytes` in base64 when it is not UTF-8."""
    if name is None:
        return {key: None}
    try:
        return {key: name.decode("utf-8")}
    except UnicodeDecodeError:
        text = name.decode("utf-8", "backslashreplace")
        return {key: text, f"{key}_bytes": base64.b64encode(name).decode("ascii")}
