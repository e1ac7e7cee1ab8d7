"""Conversion of values, for generated and hand-written conversion functions.

Each function that takes a path raises ConversionError with it for a value of an internal type that
does not fit into a field of a version. Functions that convert a field with messages add its name,
and its index or key, to the paths of errors within it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from kapiserver.rpc.registration import ConversionError

_FLOAT32_LIMIT = float.fromhex("0x1.ffffffp+127")
"""The smallest number that is rounded to infinity in 32 bits."""

Source = TypeVar("Source")
Target = TypeVar("Target")
Key = TypeVar("Key")
AnyMessage = TypeVar("AnyMessage", bound=Message)


def unchecked(path: str, value: Source) -> Source:  # noqa: ARG001 - the form of the checks below
    """Return the value; every value fits the target field."""
    return value


def int32(path: str, value: int) -> int:
    """Return the value if it fits into 32 bits."""
    if -(2**31) <= value < 2**31:
        return value
    raise ConversionError(path, "does not fit into int32", value=value)


def int64(path: str, value: int) -> int:
    """Return the value if it fits into 64 bits."""
    if -(2**63) <= value < 2**63:
        return value
    raise ConversionError(path, "does not fit into int64", value=value)


def uint32(path: str, value: int) -> int:
    """Return the value if it fits into 32 bits without a sign."""
    if 0 <= value < 2**32:
        return value
    raise ConversionError(path, "does not fit into uint32", value=value)


def uint64(path: str, value: int) -> int:
    """Return the value if it fits into 64 bits without a sign."""
    if 0 <= value < 2**64:
        return value
    raise ConversionError(path, "does not fit into uint64", value=value)


def float32(path: str, value: float) -> float:
    """Return the value if it is infinite or NaN, or its 32-bit rounding is finite."""
    if -_FLOAT32_LIMIT < value < _FLOAT32_LIMIT or not math.isfinite(value):
        return value
    raise ConversionError(path, "does not fit into float", value=value)


def enum(path: str, value: int) -> Any:
    """Return the number of an enum's value if it fits into 32 bits; it need not be known. The type
    is Any because a version and the internal types have different enums."""
    return int32(path, value)


def values(
    path: str, check: Callable[[str, Source], Target], sources: Sequence[Source]
) -> list[Target]:
    """Return the checked values of a list."""
    try:
        return [check(path, value) for value in sources]
    except ConversionError:  # again, with the index in the path
        return [check(f"{path}[{index}]", value) for index, value in enumerate(sources)]


def value_map(
    path: str,
    check_key: Callable[[str, Key], Key],
    check: Callable[[str, Source], Target],
    sources: Mapping[Key, Source],
) -> dict[Key, Target]:
    """Return the checked keys and values of a map."""
    targets: dict[Key, Target] = {}
    for key, source in sources.items():
        entry_path = f"{path}[{key}]"
        targets[check_key(entry_path, key)] = check(entry_path, source)
    return targets


def at_most_one(path: str, **members: object) -> None:
    """Check that at most one member of a oneof is set; the path is the name of the oneof."""
    names = [name for name, value in members.items() if value is not None]
    if len(names) > 1:
        raise ConversionError(path, f"only one of {' and '.join(names)} may be set")


def message(path: str, read: Callable[[Any], Target], parent: Message) -> Target | None:
    """Return the message in a field of its parent as its internal type; None if it is not set."""
    if not parent.HasField(path):
        return None
    try:
        return read(getattr(parent, path))
    except ConversionError as error:
        raise error.below(path) from None


def messages(
    path: str, read: Callable[[Source], Target], sources: Iterable[Source]
) -> list[Target]:
    """Return a list of messages as their internal type."""
    targets: list[Target] = []  # its length is the index of a message that raises
    try:
        for source in sources:
            targets.append(read(source))
    except ConversionError as error:
        raise error.below(f"{path}[{len(targets)}]") from None
    return targets


def message_map(
    path: str, read: Callable[[Source], Target], sources: Mapping[Key, Source]
) -> dict[Key, Target]:
    """Return a map of messages as their internal type."""
    targets: dict[Key, Target] = {}
    for key, source in sources.items():
        try:
            targets[key] = read(source)
        except ConversionError as error:
            raise error.below(f"{path}[{key}]") from None
    return targets


def fill(
    path: str, write: Callable[[Source, AnyMessage], object], source: Source, target: AnyMessage
) -> None:
    """Set a message from its internal type."""
    target.SetInParent()
    try:
        write(source, target)
    except ConversionError as error:
        raise error.below(path) from None


def fill_list(
    path: str,
    write: Callable[[Source, AnyMessage], object],
    sources: Iterable[Source],
    add: Callable[[], AnyMessage],
) -> None:
    """Add messages from their internal type to a list."""
    for index, source in enumerate(sources):
        try:
            write(source, add())
        except ConversionError as error:
            raise error.below(f"{path}[{index}]") from None


def fill_map(
    path: str,
    check_key: Callable[[str, Key], Key],
    write: Callable[[Source, AnyMessage], object],
    sources: Mapping[Key, Source],
    targets: Mapping[Key, AnyMessage],
) -> None:
    """Add messages from their internal type to a map, which creates a message at a new key."""
    for key, source in sources.items():
        entry_path = f"{path}[{key}]"
        fill(entry_path, write, source, targets[check_key(entry_path, key)])


def copy(source: AnyMessage, target: AnyMessage) -> None:
    """Set a message that internal types hold as it is, such as a Timestamp."""
    target.CopyFrom(source)


def unwrap(source: Any) -> Any:
    """Return the value of a wrapper."""
    return source.value


def wrap(source: Any, target: Any) -> None:
    """Set a wrapper whose value always fits."""
    target.value = source


def wrap_int32(source: int, target: Any) -> None:
    """Set an Int32Value."""
    target.value = int32("value", source)


def wrap_int64(source: int, target: Any) -> None:
    """Set an Int64Value."""
    target.value = int64("value", source)


def wrap_uint32(source: int, target: Any) -> None:
    """Set a UInt32Value."""
    target.value = uint32("value", source)


def wrap_uint64(source: int, target: Any) -> None:
    """Set a UInt64Value."""
    target.value = uint64("value", source)


def wrap_float32(source: float, target: Any) -> None:
    """Set a FloatValue."""
    target.value = float32("value", source)
