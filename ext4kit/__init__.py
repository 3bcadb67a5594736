"""Forensic reading and recovery of ext2, ext3 and ext4 file systems.

with ext4kit.open("disk.img") as image:
    fs = image.volumes[0].filesystem()
    for entry in fs.walk("/home"):
        print(entry.path)
"""

# Imports nothing here: interrupts are handled before other modules are loaded (`__main__.py`).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from ext4kit.opening import Image

__version__ = "0.1.0"


def open(path: "str | PathLike[str]", phrases: "Sequence[bytes]" = ()) -> "Image":  # noqa: A001
    """Open an image in any container, the first part of a split image, or a device node, read-only.

    Args:
        path: the image.
        phrases: passphrases and contents of key files, for encrypted volumes.

    Raises:
        AccessError: it cannot be opened or read, or no passphrase fits.
        UnsupportedError: it has a feature that is unknown to this version or needs an extra.
    """
    from ext4kit.opening import open_image

    return open_image(path, phrases)
