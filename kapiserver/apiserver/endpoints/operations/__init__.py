"""What a write does between decoding and the response, one module a verb.

HTTP handlers and the internal client call the same operations. Each takes the server, the target,
the caller, the options (a tree of CreateOptions, PatchOptions, ...) and what the client sent, and
raises errors of `apiserver/errors.py`, `api/errors.py` and `storage/errors.py`. An operation knows
no request, no response and no media type.
"""
