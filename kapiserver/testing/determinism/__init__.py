"""What a test makes the same in each run: time, uids, names and addresses."""
