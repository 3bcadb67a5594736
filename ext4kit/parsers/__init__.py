"""Bytes to structures: one declaration per structure, read singly or as tables."""
