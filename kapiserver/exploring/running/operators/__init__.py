"""The operator of a run: its programs, what each of them does at present, and their credentials."""
