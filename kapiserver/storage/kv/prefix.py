"""The end of the key range of a prefix. All backends order keys by code point: the
byte order of UTF-8."""

from __future__ import annotations

_LAST_KEY = "\U0010ffff"


def prefix_end(prefix: str) -> str:
    """Return the first key after all keys that begin with `prefix` (etcd's range_end)."""
    for index in range(len(prefix) - 1, -1, -1):
        code_point = ord(prefix[index])
        if code_point < 0x10FFFF:
            # Skip the surrogates: U+E000 follows U+D7FF.
            return prefix[:index] + chr(0xE000 if code_point == 0xD7FF else code_point + 1)
    return _LAST_KEY
