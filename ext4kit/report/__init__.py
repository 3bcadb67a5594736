"""Results as text, tables and JSON lines, with names from the evidence escaped for display."""
