"""Results as text, tables and JSON lines; names from evidence made safe to show."""
