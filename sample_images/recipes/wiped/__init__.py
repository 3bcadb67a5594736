"""Disks whose start was overwritten, and what comes back beside e2fsck."""
