"""How long a file is, as its own format says it."""

from __future__ import annotations

from collections.abc import Callable

from ext4kit.recovery.sources.carving.lengths import (
    archives,
    bytecode,
    documents,
    media,
    pictures,
    programs,
    streams,
    tables,
)
from ext4kit.recovery.sources.carving.lengths.sized import SIZED
from ext4kit.recovery.sources.carving.lengths.window import Budget, Stated, Window

LENGTHS: dict[str, Callable[[Window], Stated | None]] = {
    **SIZED,
    "elf": programs.elf,
    "pe": programs.pe,
    "ar": programs.ar,
    "bitcode": programs.bitcode,
    "bitcode-wrapper": programs.bitcode_wrapper,
    "wasm": programs.wasm,
    "pyc": bytecode.pyc,
    "png": pictures.png,
    "jpeg": pictures.jpeg,
    "gif": pictures.gif,
    "bmp": pictures.bmp,
    "ico": pictures.ico,
    "tiff": pictures.tiff,
    "pdf": documents.pdf,
    "ole": documents.ole,
    "font": documents.font,
    "font-collection": documents.font_collection,
    "zip": archives.zip_archive,
    "jmod": archives.jmod,
    "tar": archives.tar,
    "7z": archives.seven_zip,
    "cpio": archives.cpio,
    "rpm": archives.rpm,
    "gzip": streams.gzip,
    "bzip2": streams.bzip2,
    "xz": streams.xz,
    "zstd": streams.zstd,
    "lz4": streams.lz4,
    "sqlite": tables.sqlite,
    "mo": tables.message_catalogue,
    "tzif": tables.time_zone,
    "terminfo": tables.terminal,
    "git-index": tables.git_index,
    "git-pack": tables.git_pack,
    "berkeley": tables.berkeley,
    "der": tables.der,
    "journald": tables.journald,
    "pcap": tables.packets,
    "pcapng": tables.packet_blocks,
    "mp4": media.boxes,
    "riff": media.riff,
    "aiff": media.aiff,
    "ogg": media.ogg,
    "mp3": media.mp3,
    "matroska": media.matroska,
}

__all__ = ["LENGTHS", "Budget", "Stated", "Window"]
