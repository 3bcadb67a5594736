"""The views of an image as a read-only mount: operations over nodes, and libfuse 3 below them.

`tree.py` puts the views into one tree, `operations.py` answers the calls of a file system, and
`fuse.py` alone knows libfuse.
"""
