"""Feature sets by chance: file systems that mke2fs makes of random options, read and judged.

Each set follows from its seed. mke2fs makes it, the kernel fills it where it mounts it (else
`mke2fs -d`), some are resized or converted by resize2fs and tune2fs, and files are removed through
the kernel. Where e2fsck calls the result clean, `verify` has to, the tree has to read as debugfs
and the kernel read it, and nothing that comes back wrong may be called intact. File systems made
for the Hurd are left out: their inodes have other fields.
"""
