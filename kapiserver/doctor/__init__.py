"""`kapiserver doctor`: says what is wrong with a server, how bad it is, and what to do."""
