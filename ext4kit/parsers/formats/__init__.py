"""Headers of file formats, as far as they tell how long a file is."""
