"""Block maps of freed inodes, rebuilt from what is left of them."""
