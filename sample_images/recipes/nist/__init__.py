"""NIST's cases of deleted file recovery (CFTT, 01 to 17), made anew on ext2, ext3 and ext4."""
