"""Deletion of objects: by owner, by namespace, by age; and protection from it."""
