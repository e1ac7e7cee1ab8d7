"""The watch cache: entries, their encodings, and the watches that it feeds."""
