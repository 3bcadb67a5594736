"""The layouts and mounts that random histories are told on."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind of file system and how it is mounted.

    Attributes:
        options: for mke2fs.
        mount_options: for mount.
        size: of the image, bytes; small, so that blocks are used again.
        block_size: bytes.
        inline: small files live in their inodes; holes, takings and mappings are left out.
        new_log: its log can be taken away and made anew.
    """

    name: str
    options: tuple[str, ...] = ("-t", "ext4")
    mount_options: str = ""
    size: int = 12 * MIB
    block_size: int = 4096
    inline: bool = False
    new_log: bool = False


def _layout(
    name: str,
    options: str = "",
    mount_options: str = "",
    *,
    kind: str = "ext4",
    block_size: int = 4096,
    size: int = 12 * MIB,
    inline: bool = False,
    log: str = "-J size=4",
) -> Layout:
    words = f"-t {kind} -b {block_size} -N 512 {log} {options}".split()
    new_log = kind != "ext2" and not {"fast_commit", "orphan_file"} & set(words)
    return Layout(name, tuple(words), mount_options, size, block_size, inline, new_log)


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        _layout("default"),
        _layout("block_1k", block_size=1024),
        _layout("block_2k", block_size=2048),
        _layout("ext3", kind="ext3"),
        _layout("ext3_1k", kind="ext3", block_size=1024),
        _layout("ext3_writeback", mount_options="data=writeback", kind="ext3"),
        _layout("ext2", kind="ext2", log=""),
        _layout("writeback", mount_options="data=writeback"),
        _layout("data_journal", mount_options="data=journal", size=24 * MIB, log="-J size=8"),
        _layout("data_journal_1k", mount_options="data=journal", block_size=1024),
        _layout("ext3_data_journal", mount_options="data=journal", kind="ext3"),
        _layout("nodelalloc", mount_options="nodelalloc"),
        _layout("dioread_lock", mount_options="dioread_lock"),
        _layout("dioread_nolock", mount_options="dioread_nolock,nodelalloc"),
        _layout("bigalloc", "-O bigalloc -C 16384", size=24 * MIB),
        _layout("inline_data", "-O inline_data", inline=True),
        _layout("inode_128", "-I 128"),
        _layout("no_metadata_csum", "-O ^metadata_csum"),
        _layout("uninit_bg", "-O ^metadata_csum,uninit_bg"),
        _layout("orphan_file", "-O orphan_file"),
        _layout("fast_commit", "-O fast_commit"),
        _layout("small_log", block_size=1024, log="-J size=1"),
        _layout("async_commit", mount_options="journal_async_commit,data=writeback"),
        _layout("meta_bg", "-O meta_bg,^resize_inode", block_size=1024),
        _layout("no_flex_bg", "-O ^flex_bg", block_size=1024, size=20 * MIB),
        _layout("not_64bit", "-O ^64bit"),
        _layout("quick_commits", mount_options="commit=1"),
        _layout("writeback_nodelalloc", mount_options="data=writeback,nodelalloc,dioread_lock"),
    )
}
