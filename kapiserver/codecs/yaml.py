"""YAML as sigs.k8s.io/yaml encodes and decodes it.

Decoding builds JSON-shaped values from the parser's events, as sigs.k8s.io/yaml converts YAML to
JSON: keys become strings, whole floats become integers, dates stay strings. The depth is limited,
and the values of an alias are counted before they are copied. Encoding sorts the keys and quotes
strings that would otherwise be read as another type. Knows no other format. PyYAML is imported at
first use.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct, field

from kapiserver.api.go_format import format_float, replace_surrogates
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Value
from kapiserver.codecs.errors import Malformed, NotEncodable, TooLarge
from kapiserver.codecs.limits import MAX_DEPTH, MAX_STRICT_ERRORS, MAX_VALUES, TOO_MANY_VALUES
from kapiserver.codecs.object_decoder import decode_object, unknown_field_errors
from kapiserver.codecs.serializer import Decoded
from kapiserver.codecs.struct_decoder import in_key_order
from kapiserver.codecs.yaml_scalars import MERGE_KEY, needs_quotes, resolve, resolve_tagged

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_TOO_DEEP = f"yaml: exceeded max depth of {MAX_DEPTH}"
_LIBRARY_DEPTH = "exceeded maximum nesting depth"
"""The problem that libyaml reports for a nesting of 1,000, before the first event."""
_FREE_ALIASES = 100
_FREE_NODES = 1000
# As in Go's yaml, up to 99% of 400,000 nodes may come from aliases, and 10% of 4 million.
_FEW_NODES, _MANY_NODES = 400_000, 4_000_000
_LARGE_RATIO, _SMALL_RATIO = 0.99, 0.10
_WIDTH = (1 << 31) - 1
_MAX_DOCUMENTS = 10_000


class YAMLSerializer:
    """Encodes and decodes one object as a YAML document."""

    identifier = "yaml"

    def __init__(self, scheme: Scheme, *, max_values: int = MAX_VALUES) -> None:
        self._scheme = scheme
        self._max_values = max_values

    def decode(self, data: bytes, *, defaults: GroupVersionKind | None = None) -> Decoded:
        """Decode the first document and ignore the others. Raises CodecError."""
        document = next(_read_documents(data, self._max_values), _EMPTY)

        def strict_errors(unknown: list[str]) -> tuple[str, ...]:
            duplicates = document.duplicates
            texts = ("yaml: unmarshal errors:\n" + "\n".join(duplicates),) if duplicates else ()
            return texts + unknown_field_errors(in_key_order(unknown))

        return decode_object(
            self._scheme,
            document.value,
            defaults=defaults,
            source=data,
            make_strict_errors=strict_errors,
        )

    def encode(self, obj: Tree) -> bytes:
        """Encode one object, its keys sorted. Raises NotEncodable."""
        return encode_value(obj)

    def recognizes(self, data: bytes) -> bool:
        """Whether the data may be text: nearly any text is YAML."""
        return b"\0" not in data[:1024]


class YAMLDocument(Struct):
    """One document. `duplicates` are lines for error messages, such as `  line 3: key "a" ...`."""

    value: Value = None
    duplicates: list[str] = field(default_factory=list)


_EMPTY = YAMLDocument()


def decode_value(data: bytes) -> Value:
    """Decode the first document as a JSON-shaped value; None if there is none. Raises Malformed."""
    return decode_first_document(data).value


def decode_first_document(data: bytes) -> YAMLDocument:
    """Decode the first document and its duplicate keys. Raises Malformed."""
    return next(_read_documents(data), _EMPTY)


def decode_values(data: bytes) -> list[Value]:
    """Decode all documents that are not empty. Raises Malformed."""
    values = []
    for document in _read_documents(data):
        if document.value is not None:
            values.append(document.value)
        if len(values) > _MAX_DOCUMENTS:
            raise Malformed("yaml: too many documents")
    return values


def encode_value(value: Value) -> bytes:
    """Encode one JSON-shaped value. Raises NotEncodable."""
    yaml = _library()
    events = [
        yaml.StreamStartEvent(encoding="utf-8"),
        yaml.DocumentStartEvent(explicit=False),
        *_value_events(value, yaml, 0),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    ]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        text = yaml.emit(events, Dumper=dumper, width=_WIDTH, allow_unicode=True)
    except (yaml.YAMLError, UnicodeError) as error:
        raise NotEncodable(f"yaml: {error}") from None
    data = text if isinstance(text, bytes) else str(text).encode()
    # PyYAML writes a document end marker after text that ends in empty lines; Go does not.
    if isinstance(value, dict) and data.endswith(b"\n...\n"):
        return data[:-4]
    return data


@functools.cache
def _library() -> Any:
    import yaml  # imported at first use, to keep start-up short

    return yaml


# Reading ------------------------------------------------------------------------------------------


class _Node(Struct):
    """A value with an anchor, with its number of nodes and of nesting levels."""

    value: Value
    nodes: int = 1
    height: int = 0


class _OpenCollection(Struct):
    """A mapping or sequence whose end has not been read yet."""

    anchor: str | None
    items: list[Value] | None
    """The items of a sequence; None for a mapping."""
    entries: dict[str, Value] = field(default_factory=dict)
    merges: list[Value] = field(default_factory=list)
    key: str | None = None
    merging: bool = False
    nodes: int = 1
    height: int = 0


def _read_documents(data: bytes, max_values: int = MAX_VALUES) -> Iterator[YAMLDocument]:
    builder: _DocumentBuilder | None = None
    try:
        for event in parse_events(data):
            name = type(event).__name__
            if name == "DocumentStartEvent":
                builder = _DocumentBuilder(max_values)
            elif name == "DocumentEndEvent" and builder is not None:
                yield builder.document
                builder = None
            elif builder is not None:
                builder.handle_event(name, event)
    except UnicodeError:
        raise Malformed("yaml: invalid UTF-8 text") from None


def parse_events(data: bytes) -> Iterator[Any]:
    """Yield PyYAML's events of a text. Raises Malformed, UnicodeError."""
    yaml = _library()
    loader = None
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(data)
        while (event := loader.get_event()) is not None:
            yield event
    except yaml.YAMLError as error:
        raise Malformed(_go_error_message(error)) from None
    finally:
        if loader is not None:
            loader.dispose()


def _go_error_message(error: Any) -> str:
    """Return the message of Go's yaml for a PyYAML error. Both derive from libyaml."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    if problem == _LIBRARY_DEPTH:
        return _TOO_DEEP
    mark, context = (getattr(error, name, None) for name in ("problem_mark", "context_mark"))
    line = 0
    if mark is not None and mark.line:
        line = mark.line + (type(error).__name__ == "ScannerError")
    elif context is not None:
        line = context.line
    position = f"line {line}: " if line else ""
    return f"yaml: {position}{problem or 'unknown problem parsing YAML content'}"


class _DocumentBuilder:
    """Builds one document from parser events."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self.document = YAMLDocument()
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, _Node] = {}
        self._nodes = 0
        self._aliased = 0

    def handle_event(self, name: str, event: Any) -> None:
        """Process the next event. Raises Malformed, TooLarge."""
        self._nodes += 1
        if self._nodes - self._aliased > self._max_values:
            raise TooLarge(f"yaml: {TOO_MANY_VALUES.format(self._max_values)}")
        if name == "ScalarEvent":
            self._scalar(event)
        elif name == "AliasEvent":
            node = self._alias(event.anchor)
            self._add(node.value, event, node.nodes, node.height)
        elif name in ("MappingStartEvent", "SequenceStartEvent"):
            if len(self._open) >= MAX_DEPTH:
                raise Malformed(_TOO_DEEP)
            items: list[Value] | None = [] if name == "SequenceStartEvent" else None
            self._open.append(_OpenCollection(event.anchor, items))
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            collection = self._open.pop()
            value, height = _finish_collection(collection), collection.height + 1
            if collection.anchor is not None:
                self._anchors[collection.anchor] = _Node(value, collection.nodes, height)
            self._add(value, event, collection.nodes, height)

    def _scalar(self, event: Any) -> None:
        value, is_plain = event.value, event.implicit[0]
        if is_plain and value == MERGE_KEY and self._expects_key():
            self._open[-1].merging = True
            self._open[-1].key = MERGE_KEY
            return
        if event.tag is not None and event.tag != "!":
            value = resolve_tagged(event.tag, value)
        elif is_plain and not event.style:
            value = resolve(value)
        if not isinstance(value, str):
            value = _to_json_scalar(value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Node(value)
        self._add(value, event)

    def _expects_key(self) -> bool:
        return bool(self._open) and self._open[-1].items is None and self._open[-1].key is None

    def _alias(self, anchor: str) -> _Node:
        if any(collection.anchor == anchor for collection in self._open):
            raise Malformed(f"yaml: anchor '{anchor}' value contains itself")
        node = self._anchors.get(anchor)
        if node is None:
            raise Malformed(f"yaml: unknown anchor '{anchor}' referenced")
        self._nodes += node.nodes
        self._aliased += node.nodes
        if (
            self._aliased > _FREE_ALIASES
            and self._nodes > _FREE_NODES
            and self._aliased / self._nodes > _allowed_ratio(self._nodes)
        ):
            raise Malformed("yaml: document contains excessive aliasing")
        if len(self._open) + node.height > MAX_DEPTH:
            raise Malformed(_TOO_DEEP)
        return _Node(_copy(node.value), node.nodes, node.height)

    def _add(self, value: Value, event: Any, nodes: int = 1, height: int = 0) -> None:
        """Add a complete value, with its number of nodes and of nesting levels, to the collection
        that is open."""
        if not self._open:
            self.document.value = value
            return
        parent = self._open[-1]
        parent.nodes += nodes
        if height > parent.height:
            parent.height = height
        if parent.items is not None:
            parent.items.append(value)
        elif parent.key is None:
            parent.key = _key_string(value)
        elif parent.merging:
            parent.merges.extend(_merge_sources(value))
            parent.key, parent.merging = None, False
        else:
            if parent.key in parent.entries:
                self._note_duplicate(parent.key, event)
            parent.entries[parent.key] = value
            parent.key = None

    def _note_duplicate(self, key: str, event: Any) -> None:
        duplicates = self.document.duplicates
        if len(duplicates) < MAX_STRICT_ERRORS:
            line = event.start_mark.line + 1
            duplicates.append(f'  line {line}: key "{key}" already set in map')


def _finish_collection(collection: _OpenCollection) -> Value:
    if collection.items is not None:
        return collection.items
    if not collection.merges:
        return _sorted_map(collection.entries)
    # The mapping's own entries win over merged ones, and earlier merges over later ones.
    merged: Tree = {}
    for source in reversed(collection.merges):
        merged.update(source)
    return _sorted_map({**merged, **collection.entries})


def _sorted_map(entries: Tree) -> Tree:
    # Go sorts the keys when it converts the map to JSON.
    return dict(sorted(entries.items()))


def _merge_sources(value: Value) -> list[Value]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise Malformed("yaml: map merge requires map or sequence of maps as the value")
    return sources


def _allowed_ratio(nodes: int) -> float:
    if nodes <= _FEW_NODES:
        return _LARGE_RATIO
    if nodes >= _MANY_NODES:
        return _SMALL_RATIO
    share = (nodes - _FEW_NODES) / (_MANY_NODES - _FEW_NODES)
    return _LARGE_RATIO - (_LARGE_RATIO - _SMALL_RATIO) * share


def _copy(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _to_json_scalar(value: Value) -> Value:
    """Convert a scalar as Go's YAML to JSON conversion does: whole floats become integers."""
    if isinstance(value, float):
        if not math.isfinite(value):
            text = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
            raise Malformed(f"json: unsupported value: {text}")
        if value.is_integer() and _MIN_INT64 <= value <= _MAX_INT64:
            return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > _MAX_INT64:
        return float(value)
    return value


def _key_string(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return format_float(value)
    kind = "[]interface {}" if isinstance(value, list) else "map[interface {}]interface {}"
    if value is None:
        kind = "nil"
    raise Malformed(f"unsupported map key of type: {kind}")


# Writing ------------------------------------------------------------------------------------------


def _value_events(value: Value, yaml: Any, depth: int) -> Iterator[Any]:
    if depth > MAX_DEPTH:
        raise NotEncodable("yaml: exceeded max depth")
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=False)
        for key in _sorted_keys(value):
            yield _string_event(key, yaml)
            yield from _value_events(value[key], yaml, depth + 1)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for item in value:
            yield from _value_events(item, yaml, depth + 1)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        yield _string_event(value, yaml)
    else:
        yield yaml.ScalarEvent(None, None, (True, False), _format_scalar(value))


def _string_event(text: str, yaml: Any) -> Any:
    text = text if text.isascii() else replace_surrogates(text)
    style = "|" if "\n" in text else '"' if needs_quotes(text) else None
    return yaml.ScalarEvent(None, None, (True, True), text, style=style)


def _format_scalar(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_float(value)
    return str(value)


def _format_float(value: float) -> str:
    """Format a float as Go's JSON to YAML conversion does: as an integer, or with %g."""
    if not math.isfinite(value):
        raise NotEncodable(f"json: unsupported value: {value}")
    if value.is_integer() and _MIN_INT64 <= value <= _MAX_INT64:
        return str(int(value))
    digits, _, exponent = repr(value).partition("e")
    if exponent:
        return f"{digits.removesuffix('.0')}e{exponent[0]}{exponent[1:].rjust(2, '0')}"
    return digits


def _sorted_keys(keys: Collection[str]) -> list[str]:
    if len(keys) <= _FEW_KEYS:
        return sorted(keys, key=functools.cmp_to_key(_compare_keys))
    return sorted(keys, key=_position)


_FEW_KEYS = 1_000
"""The most keys that are compared as Go compares them, each pair in 5 us. Go's order has cycles, as
`2 < 15 < 1x < 2`, so that no function of a single key gives it."""


def _position(key: str) -> list[tuple[int, int, int]]:
    """Return a value that sorts keys as `_compare_keys` does, unless a letter in one stands where
    another has a further digit of a number."""
    return [
        (1, int(part[:_LONGEST_NUMBER]), len(part))
        if part[0] in _DIGITS
        else (2 if part.isalpha() else 0, ord(part), 0)
        for part in _PARTS.findall(key)
    ]


_PARTS = re.compile("[0-9]+|[^0-9]", re.DOTALL)


def _compare_keys(left: str, right: str) -> int:
    """Compare keys as Go's yaml: letters after other characters, runs of digits by their number."""
    for position, (left_char, right_char) in enumerate(zip(left, right, strict=False)):
        if left_char == right_char:
            continue
        if left_char.isalpha() and right_char.isalpha():
            return -1 if left_char < right_char else 1
        if left_char.isalpha() or right_char.isalpha():
            return -1 if right_char.isalpha() else 1
        return _compare_digits(left, right, position)
    return len(left) - len(right)


def _compare_digits(left: str, right: str, position: int) -> int:
    leading = ""
    if "0" in (left[position], right[position]):
        start = position
        while start > 0 and left[start - 1] in _DIGITS:
            start -= 1
        leading = "1" if left[start:position].strip("0") else ""
    digits = [_digit_run(text, position) for text in (left, right)]
    numbers = [int(leading + run or "0") for run in digits]
    for first, second in (numbers, [len(run) for run in digits]):
        if first != second:
            return -1 if first < second else 1
    return -1 if left[position] < right[position] else 1


_DIGITS = "0123456789"
_LONGEST_NUMBER = 400


def _digit_run(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end] in _DIGITS and end - start < _LONGEST_NUMBER:
        end += 1
    return text[start:end]
