"""Length of a file as its own format gives it."""

from __future__ import annotations

from collections.abc import Callable

from ext4kit.filetypes.lengths import (
    archives,
    bytecode,
    compressed,
    data_files,
    disks,
    documents,
    images,
    media,
    programs,
    streams,
)
from ext4kit.filetypes.lengths.checks import CHECKS
from ext4kit.filetypes.lengths.length_fields import SIZED
from ext4kit.filetypes.lengths.reader import Budget, ContentReader, Stated

LENGTHS: dict[str, Callable[[ContentReader], Stated | None]] = {
    **SIZED,
    "elf": programs.elf,
    "pe": programs.pe,
    "ar": programs.ar,
    "bitcode": programs.bitcode,
    "bitcode-wrapper": programs.bitcode_wrapper,
    "wasm": programs.wasm,
    "pyc": bytecode.pyc,
    "png": images.png,
    "jpeg": images.jpeg,
    "gif": images.gif,
    "bmp": images.bmp,
    "ico": images.ico,
    "tiff": images.tiff,
    "psd": images.photoshop,
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
    "gzip": compressed.gzip,
    "bzip2": compressed.bzip2,
    "xz": compressed.xz,
    "zstd": compressed.zstd,
    "lz4": compressed.lz4,
    "sqlite": data_files.sqlite,
    "mo": data_files.message_catalogue,
    "tzif": data_files.time_zone,
    "terminfo": data_files.terminal,
    "git-index": data_files.git_index,
    "git-pack": data_files.git_pack,
    "berkeley": data_files.berkeley,
    "der": data_files.der,
    "journald": data_files.journald,
    "pcap": data_files.packets,
    "pcapng": data_files.packet_blocks,
    "mp4": media.boxes,
    "riff": media.riff,
    "aiff": media.aiff,
    "ogg": media.ogg,
    "mp3": media.mp3,
    "matroska": media.matroska,
    "flac": streams.flac,
    "mpeg-ts": streams.transport_stream,
    "mpeg-ps": streams.program_stream,
    "flv": streams.flash_video,
    "asf": streams.asf,
    "qcow2": disks.qcow2,
    "vmdk": disks.vmdk,
    "vdi": disks.vdi,
    "iso": disks.iso,
}

__all__ = ["CHECKS", "LENGTHS", "Budget", "Stated", "ContentReader"]
