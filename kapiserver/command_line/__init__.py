"""What is derived from the parser of the command line: completion of shells, and the man page."""
