"""Conversion of bytes to structures; one declaration serves for single reads and for tables."""
