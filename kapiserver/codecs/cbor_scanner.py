"""Where a CBOR data item ends: the well-formedness walk of RFC 8949, appendix C, resumable.

Reads heads and lengths only, builds no values and knows no meaning. Sans-io.
"""

from __future__ import annotations

from kapiserver.codecs.errors import Malformed, TooLarge
from kapiserver.codecs.limits import MAX_DEPTH, TOO_MANY_VALUES, UNLIMITED

_INDEFINITE = -1
_ARRAY, _MAP, _TAG, _SIMPLE = 4, 5, 6, 7
_BREAK = 0xFF


class ItemScanner:
    """Finds the end of the first item of a growing buffer, looking at each byte once."""

    __slots__ = ("_max_values", "_pending", "_position", "_remaining")

    def __init__(self, max_values: int = UNLIMITED) -> None:
        self._position = 0
        self._max_values = self._remaining = max_values
        self._pending = [1]
        """Items still to come in each open container, innermost last."""

    def find_end(self, data: bytes | bytearray) -> int | None:
        """The offset after the first item, or None when more bytes are needed.

        `data` begins with what earlier calls were given. Raises Malformed, TooLarge.
        """
        due = self._pending
        while due:
            if due[-1] == 0:
                due.pop()
                continue
            if self._position >= len(data):
                return None
            if data[self._position] == _BREAK:
                if due[-1] != _INDEFINITE:
                    raise Malformed('cbor: unexpected "break" code')
                self._position += 1
                due[-1] = 0
            elif not self._step(data):
                return None
        return self._position

    def _step(self, data: bytes | bytearray) -> bool:
        """Pass one head and, of a string, its content; False when more bytes are needed."""
        major, info = data[self._position] >> 5, data[self._position] & 31
        if info in (28, 29, 30) or (info == 31 and major in (0, 1, _TAG)):
            raise Malformed(f"cbor: invalid additional information {info} for type {major}")
        argument, after = info, self._position + 1
        if 24 <= info <= 27:
            after += 1 << (info - 24)
            argument = int.from_bytes(data[self._position + 1 : after], "big")
        if after > len(data):
            return False
        if major in (2, 3) and info != 31:
            if after + argument > len(data):
                return False
            after += argument
        self._position = after
        self._remaining -= 1
        if self._remaining < 0:
            raise TooLarge(f"cbor: {TOO_MANY_VALUES.format(self._max_values)}")
        if self._pending[-1] > 0:
            self._pending[-1] -= 1
        inside = self._child_count(major, info, argument)
        if inside:
            self._pending.append(inside)
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
