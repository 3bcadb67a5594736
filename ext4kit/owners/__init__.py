"""What blocks are, whose they are and whose they were, for any number of blocks at once."""

from ext4kit.owners.earlier import EarlierOwners, EarlierUses, Knowledge
from ext4kit.owners.present import BlockOwners, PresentUses

__all__ = ["BlockOwners", "EarlierOwners", "EarlierUses", "Knowledge", "PresentUses"]
