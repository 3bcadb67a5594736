"""A terminal browser of an image: trees, previews, times and searches, in Textual.

Rows, moments, commands and the threads that read know nothing of Textual.
"""
