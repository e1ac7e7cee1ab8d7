"""What a test does to the pods of a server that simulates."""
