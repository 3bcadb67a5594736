"""File formats: signatures, and the length of a file according to its own format."""
