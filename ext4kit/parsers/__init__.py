"""Bytes to structures: one declaration a structure, read singly or as tables."""
