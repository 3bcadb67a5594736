"""The command line: options -> one library call -> one renderer."""
