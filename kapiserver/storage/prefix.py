"""Where the keys of a prefix end, in the order that all backends share: by code point, which is
the byte order of UTF-8."""

from __future__ import annotations

_LAST_KEY = "\U0010ffff"


def prefix_end(prefix: str) -> str:
    """The first key after all that begin with `prefix`, by code point."""
    for at in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[at])
        if point < 0x10FFFF:
            # Surrogates are no characters: the one after U+D7FF is U+E000.
            return prefix[:at] + chr(0xE000 if point == 0xD7FF else point + 1)
    return _LAST_KEY
