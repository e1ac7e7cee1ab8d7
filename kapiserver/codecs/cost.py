"""The cost of processing an object, estimated from its bytes without decoding them.

Processing an object (decoding, defaulting, patching, validating, tracking its fields, encoding)
takes up to 40 microseconds for each of its values. The estimate counts values, because bytes alone
say little: a map of 100,000 keys has as many bytes as one long text. Knows no kind.
"""

from __future__ import annotations

from kapiserver.api.types import Value

LARGE = 1_000
"""Work of this cost does not run on the event loop: it may take 40 ms."""
SMALL_BYTES = 4 << 10
"""To save time, only the objects of shorter JSON are counted."""
BYTES_PER_VALUE = 8
"""Average size of a value in binary formats, where counting values needs decoding."""
TEXT_BYTES_PER_VALUE = 256
"""Bytes of text that cost as much as one value."""


def cost_of(data: bytes) -> int:
    """Return the estimated number of values in an encoded object or patch.

    JSON has as many as commas and opening brackets, because one of these stands before each value.
    YAML has at least LARGE, because an alias stands for many values. Protobuf and CBOR have an
    eighth of the number of bytes, to which Protobuf's empty values are added.
    """
    if data[:1] in (b"{", b"["):
        if len(data) < SMALL_BYTES:
            # In so short a text only empty objects cost as much as LARGE: LARGE // 4 of them.
            return 4 * data.count(b"{") if len(data) >= LARGE else 0
        marks = data.count(b",") + data.count(b"{") + data.count(b"[")
        return marks + len(data) // TEXT_BYTES_PER_VALUE
    if data[:4] == b"k8s\0" or data[:1] >= b"\x80":
        if len(data) < SMALL_BYTES:
            return 0
        return len(data) // BYTES_PER_VALUE + data.count(b"\0")
    return LARGE + len(data) // BYTES_PER_VALUE if data else 0


def cost_of_tree(value: Value) -> int:
    """Return the number of values in a tree. Stops counting at LARGE."""
    count, unseen = 0, [value]
    for item in unseen:  # the loop appends to it
        kind = type(item)
        if kind is dict:
            count += len(item)
            unseen.extend(item.values())
        elif kind is list:
            count += len(item)
            unseen.extend(item)
        elif kind is str:
            count += len(item) // TEXT_BYTES_PER_VALUE
        elif isinstance(item, dict):  # an object that an expression constructs
            count += len(item)
            unseen.extend(item.values())
        if count >= LARGE:
            break
    return count
