"""Readers of containers and of encrypted and logical volumes; each is imported when needed."""
