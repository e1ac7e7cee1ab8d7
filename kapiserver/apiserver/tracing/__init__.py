"""Traces of requests: their configuration, W3C's trace context, and the export of spans."""
