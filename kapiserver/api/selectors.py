"""Label and field selectors: parsing, formatting and matching.

A Selection is made once per request and evaluated once per object or event, so its requirements are
compiled to closures over two mappings: the object's labels and its selectable fields. Knows no HTTP
and no kind. Mirrors k8s.io/apimachinery/pkg/labels and pkg/fields, messages included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct

from kapiserver.api import names
from kapiserver.api.errors import BadObject
from kapiserver.api.go_format import join_errors, quote
from kapiserver.api.group import Resource

Operator: TypeAlias = Literal["in", "notin", "=", "==", "!=", "exists", "!", "gt", "lt"]
_Match: TypeAlias = Callable[[Mapping[str, str]], bool]

_BINARY: dict[str, Operator] = {
    "in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt",
}  # fmt: skip
_SPECIAL = frozenset("=!(),><")
_SPACE = frozenset(" \t\r\n")
_INT64_MAX = 2**63 - 1
_MAX_LENGTH = 128 * 1024
_ALWAYS_SELECTABLE = ("metadata.name", "metadata.namespace")


class Requirement(Struct, frozen=True):
    """One requirement on a label; `values` are sorted and unique."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{self.values[0]}"


class FieldTerm(Struct, frozen=True):
    """One requirement on a field."""

    name: str
    value: str
    equal: bool

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.name}{'=' if self.equal else '!='}{escaped}"


class EqualityTerm(Struct, frozen=True):
    """What a selection requires: a label or a field has one of these values. An object without
    the field has the value ""."""

    kind: Literal["label", "field"]
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or watch selects: all label and field requirements must hold.

    selects_everything  whether there is no requirement
    name, namespace     the only ones that can match, if a field requires one; else None
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    selects_everything: bool = field(init=False, repr=False, compare=False)
    name: str | None = field(init=False, repr=False, compare=False)
    namespace: str | None = field(init=False, repr=False, compare=False)
    _hints: tuple[_Hint, ...] = field(init=False, repr=False, compare=False)
    _labels: _Match | None = field(init=False, repr=False, compare=False)
    _fields: _Match | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Each event looks at these.
        object.__setattr__(self, "selects_everything", not self.labels and not self.fields)
        object.__setattr__(self, "name", self._only("metadata.name"))
        object.__setattr__(self, "namespace", self._only("metadata.namespace"))
        label_tests = [_label_test(item) for item in self.labels]
        field_tests = [_field_test(item) for item in self.fields]
        object.__setattr__(self, "_labels", _all(label_tests))
        object.__setattr__(self, "_fields", _all(field_tests))
        hints = (*map(_hint_of_label, self.labels), *map(_hint_of_field, self.fields))
        object.__setattr__(self, "_hints", hints)

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        """Report whether an object with these labels and selectable fields is selected."""
        if self._labels is not None and not self._labels(labels):
            return False
        return self._fields is None or self._fields(fields)

    def prefilter(self, value: bytes) -> bool | None:
        """Pre-filter on the object's raw bytes; None means that the object must be decoded."""
        result: bool | None = True
        for hint in self._hints:
            if hint.may_hold_in(value):
                result = None
            elif not hint.negated:
                return False
        return result

    @property
    def equality_term(self) -> EqualityTerm | None:
        """A term that each selected object fulfils; None if the selection requires no value."""
        for label in self.labels:
            if label.operator in ("=", "==", "in"):
                return EqualityTerm("label", label.key, label.values)
        for field_term in self.fields:
            if field_term.equal:
                return EqualityTerm("field", field_term.name, (field_term.value,))
        return None

    def _only(self, name: str) -> str | None:
        for term in self.fields:
            if term.equal and term.name == name:
                return term.value
        return None

    @property
    def label_text(self) -> str:
        """The label selector in its canonical form."""
        return ",".join(map(str, self.labels))

    @property
    def field_text(self) -> str:
        """The field selector in its canonical form."""
        return ",".join(map(str, self.fields))

    def __str__(self) -> str:
        return "&".join(text for text in (self.label_text, self.field_text) if text)


class _Hint(Struct, frozen=True):
    """A necessary condition on raw bytes: if the requirement (without negation) holds, then the
    bytes contain all texts of one of these groups."""

    groups: tuple[tuple[bytes, ...], ...]
    negated: bool

    def may_hold_in(self, value: bytes) -> bool:
        for group in self.groups:
            for text in group:
                if value.find(text) < 0:  # `in` of bytes raises and catches an error first
                    break
            else:
                return True
        return False


def _hint_of_label(label: Requirement) -> _Hint:
    by_value = label.operator not in ("exists", "!", "gt", "lt")
    groups = (
        [_texts(label.key, value) for value in label.values] if by_value else [_texts(label.key)]
    )
    return _Hint(tuple(groups), label.operator in ("!=", "notin", "!"))


def _hint_of_field(term: FieldTerm) -> _Hint:
    # Numbers and booleans are not stored as the text that selects them; lists store their items
    # apart.
    as_text = term.value not in ("true", "false") and not term.value.lstrip("-").isdigit()
    group = _texts(*term.value.split(",")) if as_text else ()
    return _Hint((group,), not term.equal)


def _texts(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode(errors="surrogateescape") for text in texts if text)


def parse(label_text: str, field_text: str, resource: Resource | None = None) -> Selection:
    """Parse both selectors of a request; `resource` defines the allowed fields.

    Raises BadObject.
    """
    labels = parse_labels(label_text) if label_text else ()
    terms = parse_fields(field_text) if field_text else ()
    if resource is not None:
        terms = tuple(_resolve_field(term, resource) for term in terms)
    return Selection(labels, terms) if labels or terms else EVERYTHING


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector into requirements, sorted by key. Raises BadObject."""
    if len(text) > _MAX_LENGTH:
        raise BadObject(f"selector is longer than {_MAX_LENGTH} characters")
    requirements = _LabelParser(_tokens(text)).requirements()
    return tuple(sorted(requirements, key=lambda requirement: requirement.key))


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector into terms, sorted by their text. Raises BadObject."""
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        for index in range(len(part)):
            sign = next((s for s in ("!=", "==", "=") if part.startswith(s, index)), "")
            if sign:
                value = _unescape(part[index + len(sign) :])
                terms.append(FieldTerm(part[:index], value, sign != "!="))
                break
        else:
            raise BadObject(f"invalid selector: '{text}'; can't understand '{part}'")
    return tuple(terms)


def requirement(key: str, operator: Operator, values: tuple[str, ...] = ()) -> Requirement:
    """Return a validated requirement. Raises BadObject worded as labels.NewRequirement words it."""
    errors = [
        f"key: Invalid value: {quote(key)}: {text}"
        for text in _join_messages(names.qualified_name(key))
    ]
    if operator in ("gt", "lt"):
        errors.extend(
            f"values[{index}]: Invalid value: {quote(value)}: "
            "for 'Gt', 'Lt' operators, the value must be an integer"
            for index, value in enumerate(values)
            if _int64(value) is None
        )
    errors.extend(
        f"values[{index}][{key}]: Invalid value: {quote(value)}: {message}"
        for index, value in enumerate(values)
        for message in _join_messages(names.label_value(value))
    )
    if errors:
        raise BadObject(join_errors(errors))
    return Requirement(key, operator, values)


def _join_messages(messages: list[str]) -> list[str]:
    return ["; ".join(messages)] if messages else []


def _int64(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 64):
        return None
    value = int(text)
    return value if -_INT64_MAX - 1 <= value <= _INT64_MAX else None


# Tokens of a label selector: words, keywords and operators; "" ends it.


class _Token(Struct, frozen=True):
    kind: Literal["word", "sign", "end"]
    text: str

    @property
    def is_word(self) -> bool:
        return self.kind == "word"

    @property
    def begins(self) -> bool:
        return self.kind == "word" or self.text == "!"


def _tokens(text: str) -> list[_Token]:
    text, tokens, position = text.split("\0", 1)[0], [], 0
    while position < len(text):
        start, character = position, text[position]
        if character in _SPACE:
            position += 1
        elif character in _SPECIAL:
            position += 2 if text[position : position + 2] in ("==", "!=") else 1
            tokens.append(_Token("sign", text[start:position]))
        else:
            while (
                position < len(text)
                and text[position] not in _SPECIAL
                and text[position] not in _SPACE
            ):
                position += 1
            tokens.append(_Token("word", text[start:position]))
    return [*tokens, _Token("end", "")]


class _LabelParser:
    """A recursive-descent parser with the messages of labels.Parser."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def _next(self) -> _Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next()
        self._at += 1
        return token

    def requirements(self) -> list[Requirement]:
        parsed: list[Requirement] = []
        while self._next().kind != "end":
            if not self._next().begins:
                raise BadObject(
                    f"found '{self._next().text}', expected: !, identifier, or 'end of string'"
                )
            try:
                parsed.append(self._requirement())
            except BadObject as error:
                raise BadObject(f"unable to parse requirement: {error}") from None
            token = self._take()
            if token.kind == "end":
                break
            if token.text != ",":
                raise BadObject(f"found '{token.text}', expected: ',' or 'end of string'")
            if not self._next().begins:
                raise BadObject(f"found '{self._next().text}', expected: identifier after ','")
        return parsed

    def _requirement(self) -> Requirement:
        token = self._take()
        absent = token.text == "!"
        if absent:
            token = self._take()
        if not token.is_word:
            raise BadObject(f"found '{token.text}', expected: identifier")
        key = token.text
        for messages in _join_messages(names.qualified_name(key)):
            raise BadObject(f"<nil>: Invalid value: {quote(key)}: {messages}")
        if absent:
            return requirement(key, "!")
        if self._next().kind == "end" or self._next().text == ",":
            return requirement(key, "exists")
        sign = self._take().text
        operator = _BINARY.get(sign)
        if operator is None:
            raise BadObject(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else {self._exact_value()}
        return requirement(key, operator, tuple(sorted(values)))

    def _exact_value(self) -> str:
        if self._next().kind == "end" or self._next().text == ",":
            return ""
        token = self._take()
        if not token.is_word:
            raise BadObject(f"found '{token.text}', expected: identifier")
        return token.text

    def _values(self) -> set[str]:
        token = self._take()
        if token.text != "(":
            raise BadObject(f"found '{token.text}' expected: '('")
        token = self._next()
        if token.text == ")":
            self._take()
            return {""}
        if not token.is_word and token.text != ",":
            raise BadObject(f"found '{token.text}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._take()  # the closing parenthesis: _identifiers stops before it
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self._take()
            if token.is_word:
                values.add(token.text)
                if self._next().text == ")":
                    return values
                if self._next().text != ",":
                    raise BadObject(f"found '{self._next().text}', expected: ',' or ')'")
            elif token.text == ",":
                if not values:
                    values.add("")
                if self._next().text == ")":
                    return values | {""}
                if self._next().text == ",":
                    self._take()
                    values.add("")
            else:
                raise BadObject(f"found '{token.text}', expected: ',', or identifier")


def _split_terms(text: str) -> list[str]:
    if len(text) > _MAX_LENGTH:
        raise BadObject(f"selector is longer than {_MAX_LENGTH} characters")
    terms, start, escaped = [], 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:index])
            start = index + 1
    return [*terms, text[start:]]


def _unescape(text: str) -> str:
    characters, escaped = [], False
    for character in text:
        if escaped:
            if character not in "\\,=":
                raise BadObject(f"invalid field selector: invalid escape sequence: \\{character}")
            characters.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise BadObject(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            characters.append(character)
    if escaped:
        raise BadObject("invalid field selector: invalid escape sequence: \\")
    return "".join(characters)


def _resolve_field(term: FieldTerm, resource: Resource) -> FieldTerm:
    # A kind with selectable fields has an error message of its own; all others share the default,
    # which accepts metadata.namespace even for cluster-scoped kinds.
    aliases = dict(resource.field_aliases)
    name = aliases.get(term.name, term.name)
    has_own_message = resource.has_own_field_labels
    if term.name in (*resource.selectable_fields, *aliases, "metadata.name"):
        return FieldTerm(name, term.value, term.equal)
    if name == "metadata.namespace" and (resource.namespaced or not has_own_message):
        return FieldTerm(name, term.value, term.equal)
    if has_own_message:
        raise BadObject(resource.unsupported_field_message.format(term.name))
    allowed = ", ".join(f'"{field_name}"' for field_name in _ALWAYS_SELECTABLE)
    raise BadObject(f"{quote(term.name)} is not a known field selector: only {allowed}")


# Compilation.


def _all(tests: list[_Match]) -> _Match | None:
    if len(tests) <= 1:
        return tests[0] if tests else None
    return lambda mapping: all(test(mapping) for test in tests)


def _field_test(term: FieldTerm) -> _Match:
    name, value = term.name, term.value
    if term.equal:
        return lambda fields: fields.get(name, "") == value
    return lambda fields: fields.get(name, "") != value


def _label_test(label: Requirement) -> _Match:
    key, values = label.key, frozenset(label.values)
    if label.operator in ("=", "=="):
        value = label.values[0]
        return lambda labels: labels.get(key) == value
    if label.operator == "in":
        return lambda labels: labels.get(key) in values
    if label.operator in ("notin", "!="):
        return lambda labels: labels.get(key) not in values
    if label.operator == "exists":
        return lambda labels: key in labels
    if label.operator == "!":
        return lambda labels: key not in labels
    bound = _int64(label.values[0]) or 0
    if label.operator == "gt":
        return lambda labels: (value := _int64(labels.get(key, ""))) is not None and value > bound
    return lambda labels: (value := _int64(labels.get(key, ""))) is not None and value < bound


EVERYTHING = Selection()
"""The selection of all objects."""
