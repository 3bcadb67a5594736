"""File formats: signatures, and the length of a file as its own format gives it."""
