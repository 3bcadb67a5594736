"""What formats look like: signatures, and how long a file is by its own format."""
