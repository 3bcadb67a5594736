"""What speaks against a grade: each module is one kind of evidence."""
