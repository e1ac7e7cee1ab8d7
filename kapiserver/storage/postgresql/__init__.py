"""The backend postgresql: a revisioned key-value store in a schema of a PostgreSQL database."""
