"""Forensic reading and recovery of ext2, ext3 and ext4 file systems.

with ext4kit.open("disk.img") as image:
    fs = image.filesystem()
    for entry in fs.walk("/home"):
        print(entry.path)
"""

# Imports nothing here: interrupts are handled before other modules are loaded (`__main__.py`).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from ext4kit.evidence.containers.keys import KeyProvider
    from ext4kit.evidence.locator import Locator
    from ext4kit.evidence.source import Source
    from ext4kit.opening import Image

__all__ = ["__version__", "open"]
__version__ = "0.1.0"


def open(  # noqa: A001
    where: "str | PathLike[str] | Locator | Source", keys: "KeyProvider" = ()
) -> "Image":
    """Open an image in any container, the first part of a split image, or a device node, read-only.

    Args:
        where: the image; its path, a locator, or the bytes of a disk.
        keys: passphrases and contents of key files, for encrypted volumes; or a function that
            gives those of the volume with a UUID.

    Raises:
        AccessError: it cannot be opened or read, or no passphrase fits.
        RequestError: it ends before the offset of the locator.
        UnsupportedError: it has a feature that is unknown to this version or needs an extra.
    """
    from ext4kit.opening import open_image

    return open_image(where, keys)
