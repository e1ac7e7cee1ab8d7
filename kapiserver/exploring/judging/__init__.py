"""What is wrong with a run: pure functions over its history and those of the plain runs."""
