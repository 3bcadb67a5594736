"""The ways in which programs save a file again, and what of the old content comes back."""
