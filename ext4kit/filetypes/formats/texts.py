"""Text formats, which state no length but show where a new file starts."""

from __future__ import annotations

from ext4kit.filetypes.formats.declaration import FileFormat

FORMATS = (
    FileFormat("script", starts=(b"#!/",)),
    FileFormat("xml", starts=(b"<?xml ",), kind=(".xml", "application/xml"), is_text=True),
    FileFormat(
        "html", starts=(b"<!DOCTYP", b"<!doctyp"), kind=(".html", "text/html"), is_text=True
    ),
    FileFormat(
        "postscript",
        starts=(b"%!PS",),
        kind=(".ps", "application/postscript"),
        is_text=True,
        names="ps eps",
    ),
    FileFormat(
        "rtf", starts=(b"{\\rtf",), kind=(".rtf", "application/rtf"), is_text=True, names="rtf"
    ),
    FileFormat(
        "pem",
        starts=(b"-----BEG",),
        kind=(".pem", "application/x-pem-file"),
        is_text=True,
        names="pem crt",
    ),
    FileFormat("utf-16", starts=(b"\xff\xfe",), character_bytes=2),
    FileFormat("utf-32", starts=(b"\xff\xfe\x00\x00",), character_bytes=4),
)
