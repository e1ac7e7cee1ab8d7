"""What happened in a server: requests, revisions, recordings; waits and assertions on them."""
