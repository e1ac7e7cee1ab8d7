"""Conversion of single fields, for generated and hand-written conversion functions.

Each function checks that a value of an internal type fits into a field of a version, and raises
ConversionError with the field's path if it does not.
"""

from __future__ import annotations

from kapiserver.rpc.registration import ConversionError


def int32(path: str, value: int) -> int:
    """Return the value if it fits into 32 bits."""
    return _integer(path, value, -(2**31), 2**31 - 1, "int32")


def int64(path: str, value: int) -> int:
    """Return the value if it fits into 64 bits."""
    return _integer(path, value, -(2**63), 2**63 - 1, "int64")


def uint32(path: str, value: int) -> int:
    """Return the value if it fits into 32 bits without a sign."""
    return _integer(path, value, 0, 2**32 - 1, "uint32")


def uint64(path: str, value: int) -> int:
    """Return the value if it fits into 64 bits without a sign."""
    return _integer(path, value, 0, 2**64 - 1, "uint64")


def _integer(path: str, value: int, least: int, greatest: int, kind: str) -> int:
    if least <= value <= greatest:
        return value
    raise ConversionError(path, f"{value} does not fit into {kind}")
