"""Typed clients and informers: objects of a cluster as instances of declared classes."""
