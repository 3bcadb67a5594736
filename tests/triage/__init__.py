"""Tests of the summary of an image and of its signs."""
