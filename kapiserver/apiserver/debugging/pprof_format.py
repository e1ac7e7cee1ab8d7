"""The format of profiles that `go tool pprof` reads: one Protobuf message, compressed by gzip.

Mirrors proto/profile.proto of google/pprof. Texts are numbers of a table whose first entry is "".
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from kapiserver.codecs.protobuf.wire import VARINT, encode_delimited, encode_tag, encode_varint


class Frame(NamedTuple):
    """A line of a function that was being called."""

    function: str
    file: str
    first_line: int
    line: int


Stack: TypeAlias = tuple[Frame, ...]
"""The frames of one thread or task, the innermost first."""


class Sample(Struct, frozen=True, kw_only=True):
    """What was measured in one stack.

    values  one for each type of value of the profile
    labels  names and texts that say more, such as the thread
    """

    stack: Stack
    values: Sequence[int]
    labels: tuple[tuple[str, str], ...] = ()


class Profile(Struct, frozen=True, kw_only=True):
    """One profile.

    value_types     the types and units of the values of each sample
    period_type     what is between two samples, with `period`; None if nothing was sampled
    start           in nanoseconds since the epoch
    duration        in nanoseconds; 0 for a profile of one moment
    """

    value_types: Sequence[tuple[str, str]]
    samples: Iterable[Sample]
    period_type: tuple[str, str] | None = None
    period: int = 0
    start: int = 0
    duration: int = 0


def encode_profile(profile: Profile) -> bytes:
    """Return the compressed bytes of a profile."""
    return gzip.compress(_Encoder().encode(profile), mtime=0)


class _Encoder:
    def __init__(self) -> None:
        self._texts: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Frame, int] = {}
        self._tables: list[bytes] = []
        """The encoded functions and locations."""

    def encode(self, profile: Profile) -> bytes:
        parts = [
            encode_delimited(1, self._value_type(value_type)) for value_type in profile.value_types
        ]
        parts += [encode_delimited(2, self._sample(sample)) for sample in profile.samples]
        if profile.period_type is not None:
            parts.append(encode_delimited(11, self._value_type(profile.period_type)))
        numbers = ((9, profile.start), (10, profile.duration), (12, profile.period))
        parts += [_number(field, value) for field, value in numbers if value]
        texts = [encode_delimited(6, text.encode(errors="replace")) for text in self._texts]
        return b"".join((*parts, *self._tables, *texts))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _value_type(self, value_type: tuple[str, str]) -> bytes:
        name, unit = value_type
        return _number(1, self._text(name)) + _number(2, self._text(unit))

    def _sample(self, sample: Sample) -> bytes:
        locations = b"".join(encode_varint(self._location(frame)) for frame in sample.stack)
        values = b"".join(map(encode_varint, sample.values))
        labels = (
            encode_delimited(3, _number(1, self._text(name)) + _number(2, self._text(text)))
            for name, text in sample.labels
        )
        return b"".join((encode_delimited(1, locations), encode_delimited(2, values), *labels))

    def _location(self, frame: Frame) -> int:
        number = self._locations.get(frame)
        if number is None:
            number = self._locations[frame] = len(self._locations) + 1
            line = _number(1, self._function(frame)) + _number(2, frame.line)
            self._tables.append(encode_delimited(4, _number(1, number) + encode_delimited(4, line)))
        return number

    def _function(self, frame: Frame) -> int:
        key = frame[:3]
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            name = self._text(frame.function)
            fields = ((1, number), (2, name), (3, name), (4, self._text(frame.file)))
            message = b"".join(_number(field, value) for field, value in fields)
            self._tables.append(encode_delimited(5, message + _number(5, frame.first_line)))
        return number


def _number(field: int, value: int) -> bytes:
    return encode_tag(field, VARINT) + encode_varint(value)
