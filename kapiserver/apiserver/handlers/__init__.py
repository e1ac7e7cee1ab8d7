"""One handler per verb, none per kind."""
