"""Events worked out from the successive states of inodes and directories."""
