"""The write operations, one module per verb.

HTTP handlers and the internal client call the same operations. Each takes the server, the target,
the caller, the options (a tree of CreateOptions, PatchOptions, ...) and the body, and raises
errors of `apiserver/errors.py`, `api/errors.py` and `storage/errors.py`. An operation knows
no request, no response and no media type.
"""
