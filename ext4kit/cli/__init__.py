"""The command line; each command converts options to one library call and one renderer."""
