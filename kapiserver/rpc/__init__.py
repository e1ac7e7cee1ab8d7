"""Versioned groups of RPCs over local sockets. Mirrors csi-proxy's API.

`generator` writes the code of a group from its protobuf files; the other modules run that code.
"""
