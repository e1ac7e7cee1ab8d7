"""Extension API servers: which APIServices name one, where it is, and connections to it."""
