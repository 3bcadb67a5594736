"""The rules of signs: data in `families/`, read by `reading.py`."""
