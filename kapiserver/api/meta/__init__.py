"""meta/v1: what every kind shares."""
