"""Packages of a system: the files that they own, held against the files on the disk."""
