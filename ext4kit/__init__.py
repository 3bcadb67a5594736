"""Forensic reading and recovery of ext2, ext3 and ext4 file systems.

with ext4kit.open("disk.img") as image:
    fs = image.filesystem()
    for entry in fs.walk("/home"):
        print(entry.path)
"""

# Nothing is imported here, as interrupts must be handled before other modules are loaded
# (`__main__.py`).
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
        where: path of the image, a locator, or a source with the bytes of a disk.
        keys: passphrases and contents of key files for encrypted volumes; or a function that
            returns those for the volume with a given UUID.

    Raises:
        AccessError: the image cannot be opened or read, or no passphrase fits.
        RequestError: the image ends before the offset of the locator.
        UnsupportedError: the image has a feature that is not supported or needs an extra.
    """
    from ext4kit.opening import open_image

    return open_image(where, keys)
