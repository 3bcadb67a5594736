"""The tree of a mount over WebDAV, for systems without FUSE.

`nodes.py` has the nodes as a client sees them, `resources.py` and `access.py` fit them to
WsgiDAV, `guard.py` stands before it, `page.py` is the listing for browsers, and `server.py` runs
all of it with cheroot.
"""
