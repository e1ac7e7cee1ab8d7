"""Finds the end of a CBOR data item: the well-formedness check of RFC 8949, appendix C, resumable.

Reads heads and lengths only and builds no values. I/O-free.
"""

from __future__ import annotations

from kapiserver.codecs.errors import Malformed, TooLarge
from kapiserver.codecs.limits import MAX_DEPTH, TOO_MANY_VALUES, UNLIMITED

_INDEFINITE = -1
_ARRAY, _MAP, _TAG, _SIMPLE = 4, 5, 6, 7
_BREAK = 0xFF


class ItemScanner:
    """Finds the end of the first item of a growing buffer, reading each byte once."""

    __slots__ = ("_max_values", "_pending", "_position", "_remaining")

    def __init__(self, max_values: int = UNLIMITED) -> None:
        self._position = 0
        self._max_values = self._remaining = max_values
        self._pending = [1]
        """Items still expected in each open container, innermost last."""

    def find_end(self, data: bytes | bytearray) -> int | None:
        """Return the offset after the first item, or None if more bytes are needed.

        `data` must begin with the data of the previous call. Raises Malformed, TooLarge.
        """
        pending = self._pending
        while pending:
            if pending[-1] == 0:
                pending.pop()
                continue
            if self._position >= len(data):
                return None
            if data[self._position] == _BREAK:
                if pending[-1] != _INDEFINITE:
                    raise Malformed('cbor: unexpected "break" code')
                self._position += 1
                pending[-1] = 0
            elif not self._step(data):
                return None
        return self._position

    def _step(self, data: bytes | bytearray) -> bool:
        """Skip one head and the content of a string. Return False if more bytes are needed."""
        major, info = data[self._position] >> 5, data[self._position] & 31
        if info in (28, 29, 30) or (info == 31 and major in (0, 1, _TAG)):
            raise Malformed(f"cbor: invalid additional information {info} for type {major}")
        argument, end = info, self._position + 1
        if 24 <= info <= 27:
            end += 1 << (info - 24)
            argument = int.from_bytes(data[self._position + 1 : end], "big")
        if end > len(data):
            return False
        if major in (2, 3) and info != 31:
            if end + argument > len(data):
                return False
            end += argument
        self._position = end
        self._remaining -= 1
        if self._remaining < 0:
            raise TooLarge(f"cbor: {TOO_MANY_VALUES.format(self._max_values)}")
        if self._pending[-1] > 0:
            self._pending[-1] -= 1
        child_count = self._child_count(major, info, argument)
        if child_count:
            self._pending.append(child_count)
            if len(self._pending) > MAX_DEPTH + 1:
                raise Malformed("cbor: exceeded max nested level")
        return True

    @staticmethod
    def _child_count(major: int, info: int, argument: int) -> int:
        if info == 31:
            return _INDEFINITE if major != _SIMPLE else 0
        if major == _MAP:
            return 2 * argument
        if major == _ARRAY:
            return argument
        return 1 if major == _TAG else 0
