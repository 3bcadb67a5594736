"""Readers of containers and of encrypted and logical volumes, imported when one is opened."""
