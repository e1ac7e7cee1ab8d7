"""The objects of a resource: reading, listing, writing, and informers."""
