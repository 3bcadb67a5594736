"""Headers of file formats, from which the length of a file can be computed."""
