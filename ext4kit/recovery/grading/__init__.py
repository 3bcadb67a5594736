"""Checks against a grade: each module covers one kind of evidence."""
