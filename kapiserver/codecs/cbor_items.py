"""Where a CBOR data item ends: the well-formedness walk of RFC 8949, appendix C, resumable.

Reads heads and lengths only, builds no values and knows no meaning. Sans-io.
"""

from __future__ import annotations

from kapiserver.codecs.bounds import MAX_DEPTH, TOO_MANY_VALUES, UNBOUNDED
from kapiserver.codecs.errors import Malformed, TooLarge

_INDEFINITE = -1
_ARRAY, _MAP, _TAG, _SIMPLE = 4, 5, 6, 7
_BREAK = 0xFF


class ItemEnd:
    """Finds the end of the first item of a growing buffer, looking at each byte once."""

    __slots__ = ("_at", "_due", "_left", "_max_values")

    def __init__(self, max_values: int = UNBOUNDED) -> None:
        self._at = 0
        self._max_values = self._left = max_values
        self._due = [1]
        """Items still to come in each open container, innermost last."""

    def find(self, data: bytes | bytearray) -> int | None:
        """The offset after the first item, or None when more bytes are needed.

        `data` begins with what earlier calls were given. Raises Malformed, TooLarge.
        """
        due = self._due
        while due:
            if due[-1] == 0:
                due.pop()
                continue
            if self._at >= len(data):
                return None
            if data[self._at] == _BREAK:
                if due[-1] != _INDEFINITE:
                    raise Malformed('cbor: unexpected "break" code')
                self._at += 1
                due[-1] = 0
            elif not self._step(data):
                return None
        return self._at

    def _step(self, data: bytes | bytearray) -> bool:
        """Pass one head and, of a string, its content; False when more bytes are needed."""
        major, info = data[self._at] >> 5, data[self._at] & 31
        if info in (28, 29, 30) or (info == 31 and major in (0, 1, _TAG)):
            raise Malformed(f"cbor: invalid additional information {info} for type {major}")
        argument, after = info, self._at + 1
        if 24 <= info <= 27:
            after += 1 << (info - 24)
            argument = int.from_bytes(data[self._at + 1 : after], "big")
        if after > len(data):
            return False
        if major in (2, 3) and info != 31:
            if after + argument > len(data):
                return False
            after += argument
        self._at = after
        self._left -= 1
        if self._left < 0:
            raise TooLarge(f"cbor: {TOO_MANY_VALUES.format(self._max_values)}")
        if self._due[-1] > 0:
            self._due[-1] -= 1
        inside = self._inside(major, info, argument)
        if inside:
            self._due.append(inside)
            if len(self._due) > MAX_DEPTH + 1:
                raise Malformed("cbor: exceeded max nested level")
        return True

    @staticmethod
    def _inside(major: int, info: int, argument: int) -> int:
        if info == 31:
            return _INDEFINITE if major != _SIMPLE else 0
        if major == _MAP:
            return 2 * argument
        if major == _ARRAY:
            return argument
        return 1 if major == _TAG else 0
