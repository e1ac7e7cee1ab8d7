"""Checks of stores: the SQLite file, the members of etcd, the database of PostgreSQL."""
