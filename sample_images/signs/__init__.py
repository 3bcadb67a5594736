"""How often the rules of signs are wrong, and how often they miss: clean and hacked systems.

`python -m sample_images.signs` installs Debian systems, uses them as people do, breaks into copies
of them, and writes what `report` says of each to `docs/signs.md`.
"""
