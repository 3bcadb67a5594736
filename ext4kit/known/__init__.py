"""Known files: lists of hashes, and which contents have one of them."""
