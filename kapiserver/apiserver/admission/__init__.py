"""Admission: the chain of plugins that change or refuse a write before it is stored."""
