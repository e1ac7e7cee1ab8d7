"""The form in which API types are declared, and what every layer reads from a declaration.

A type describes a tree: the JSON-shaped value (dict, list, str, int, float, bool, None) that is
the only form of an API object in memory. A declaration reads like a table:

    class ContainerPort(Type):
        \"\"\"A network port in a single container.\"\"\"

        name: str = field(1)
        hostPort: int32 = field(2)
        containerPort: int32 = field(3, always=True)
        protocol: str = field(4, default="TCP", enum=("TCP", "UDP", "SCTP"))

The annotation is the type of the value, in the order in which Go's struct has it (that is the key
order of the JSON): `str bool bytes int32 int64 double Any`, a Type, `list[T]`, `dict[str, T]`;
`T | None` where Go has a pointer (absent is told apart from zero). A trailing underscore is
dropped from the name (`from_`). Annotations are read at first use, so declaring costs nothing.

This module knows no wire format, no group and no kind. Mirrors the struct tags of k8s.io/api.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, NewType, TypeAlias

Value: TypeAlias = Any
"""One JSON-shaped value."""
Tree: TypeAlias = dict[str, Any]
"""One JSON-shaped object."""

int32 = NewType("int32", int)
int64 = NewType("int64", int)
double = NewType("double", float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What `field(...)` says beside the annotation. See `field` for the meaning of each."""

    number: int
    json: str | None
    proto: str | None
    doc: str
    always: bool
    inline: bool
    omit_zero: bool
    required: bool
    default: Value
    enum: tuple[str, ...]
    keys: tuple[str, ...]
    set: bool
    atomic: bool | None
    merge: str | None
    patch: str | None
    named: str


def field(
    number: int = 0,
    *,
    json: str | None = None,
    proto: str | None = None,
    doc: str = "",
    always: bool = False,
    inline: bool = False,
    omit_zero: bool = False,
    required: bool = False,
    default: Value = None,
    enum: tuple[str, ...] = (),
    keys: tuple[str, ...] = (),
    set: bool = False,
    atomic: bool | None = None,
    merge: str | None = None,
    patch: str | None = None,
    named: str = "",
) -> Any:
    """One field of a Type.

    number      protobuf tag; 0 means "new": `make generate` assigns the next free one
    json        name in JSON where Python cannot spell it ("x-kubernetes-list-type", "$ref")
    proto       name in the IDL where it is not the JSON name
    doc         what users read in OpenAPI, `kubectl explain` and IDEs: meaning, unit, default,
                allowed values
    always      no `omitempty` in Go: JSON has it even when it is zero (a nil list as null)
    inline      an embedded struct: its fields stand in this object's JSON, but nest on the wire
    omit_zero   `omitzero` in Go: a struct that is left out of JSON when it is zero
    required    `+required`: listed under `required` in OpenAPI
    default     value put in place of a missing or zero one by defaulting
    enum        the values allowed
    keys        a list merged by these keys in server-side apply (list type map)
    set         a list of unique scalars in server-side apply (list type set)
    atomic      a struct or map replaced as a whole in server-side apply, or not so although its
                type says it (False); lists are so unless `keys` or `set` say otherwise
    merge       merge key of a list in a strategic merge patch ("" for a list of scalars)
    patch       other strategies of strategic merge patch, comma separated: "retainKeys", "replace"
    named       the apiVersion of objects in a list that name their kind in answers, though not on
                the wire
    """
    return Declaration(
        number=number,
        json=json,
        proto=proto,
        doc=doc,
        always=always,
        inline=inline,
        omit_zero=omit_zero,
        required=required,
        default=default,
        enum=enum,
        keys=keys,
        set=set,
        atomic=atomic,
        merge=merge,
        patch=patch,
        named=named,
    )


class Type:
    """A message on the wire, an object in the tree. Subclasses declare fields; nobody makes one."""

    atomic: ClassVar[bool] = False
    """Replaced as a whole in server-side apply (structType atomic)."""
    wire: ClassVar[bool] = True
    """Whether it has a Protobuf form; Table has none, and its fields no number."""
    package: ClassVar[str] = ""
    """The IDL's package where it is not that of the module."""

    @classmethod
    def merge_node(cls) -> Any:
        """What server-side apply must know of it (a Node of `merge_schema.py`), where that does
        not follow from its fields."""
        return None

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The fields as declared, embedded structs unopened."""
        found: Any = cls
        return _fields(found)

    @classmethod
    def flat_fields(cls) -> tuple[FlatField, ...]:
        """The fields as JSON shows them, in its key order: embedded structs opened."""
        found: Any = cls
        return _flat_fields(found)


def description(type_: type[Type]) -> str:
    """Return the docstring of a type as one paragraph, the way OpenAPI and the IDL show it."""
    return " ".join((inspect.getdoc(type_) or "").split())


class Leaf(Type):
    """A message on the wire, a single value in the tree: Time, Quantity, IntOrString, ...

    The fields declared are those of the message.
    """

    openapi: ClassVar[Tree] = {}
    """The value's schema in OpenAPI v3."""

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return the canonical form of a value read from JSON, YAML or CBOR.

        Raises ValueError, worded as Go's decoder words it, for a value that does not fit.
        """
        raise NotImplementedError(cls.__name__)

    @classmethod
    def to_message(cls, value: Value) -> Tree:
        """Return the wire message, as a tree of the declared fields, of a canonical value."""
        raise NotImplementedError(cls.__name__)

    @classmethod
    def from_message(cls, message: Tree) -> Value:
        """Return the canonical value of a wire message; unset fields are absent from it."""
        raise NotImplementedError(cls.__name__)


class Variant(Leaf):
    """A single value of one of several shapes, each a field of the message: a schema or a bool.

    `to_message` and `from_message` choose the field; what lies in it is read by its own shape.
    """

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """The value as far as it can be told without reading what lies in it."""
        return None if value is None else cls.from_message(cls.to_message(value))


class Kind(Type):
    """A type with `kind` and `apiVersion`, which stand first in JSON and not at all in protobuf."""

    listed: ClassVar[bool] = True
    """Whether there is a list kind of it; False for options, reviews and other single answers."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, bool, int32, int64, double, bytes (base64 in the tree) or any (free JSON)."""

    name: str


@dataclass(frozen=True, slots=True)
class Message:
    """A nested Type; Leaf and Kind included."""

    type: type[Type]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A repeated field."""

    item: Scalar | Message


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with string keys."""

    value: Scalar | Message | ListOf


Shape: TypeAlias = Scalar | Message | ListOf | MapOf

STRING = Scalar("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A declared field with its annotation read.

    `number` is None for what is not on the wire: kind, apiVersion, fields of types without one.
    """

    attribute: str
    name: str
    number: int | None
    proto: str
    shape: Shape
    pointer: bool
    declaration: Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatField:
    """A field as JSON shows it: `through` are the embedded structs it lies in, outermost first."""

    through: tuple[Field, ...]
    field: Field


_SCALARS: dict[Any, Scalar] = {
    str: STRING,
    bool: Scalar("bool"),
    bytes: Scalar("bytes"),
    int32: Scalar("int32"),
    int64: Scalar("int64"),
    double: Scalar("double"),
    Any: Scalar("any"),
}

_TYPE_META = tuple(
    Field(
        attribute=name,
        name=name,
        number=None,
        proto=name,
        shape=STRING,
        pointer=False,
        declaration=field(),
    )
    for name in ("kind", "apiVersion")
)


def _shape(annotation: Any) -> Shape:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Type):
        return Message(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return ListOf(typing.cast("Scalar | Message", _shape(args[0])))
    if origin is dict and args[0] is str:
        return MapOf(typing.cast("Scalar | Message | ListOf", _shape(args[1])))
    raise TypeError(f"{annotation!r} is no type of a field")


def _read_annotation(owner: type[Type], attribute: str, annotation: Any) -> tuple[Shape, bool]:
    if isinstance(annotation, str):
        annotation = eval(annotation, vars(sys.modules[owner.__module__]))
    optional = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    if optional:
        (annotation,) = [a for a in typing.get_args(annotation) if a is not type(None)]
    try:
        return _shape(annotation), optional
    except TypeError as error:
        raise TypeError(f"{owner.__name__}.{attribute}: {error}") from None


@functools.cache
def _fields(cls: Any) -> tuple[Field, ...]:
    own = [_field(base, name) for base in reversed(cls.__mro__) for name in _declared(base)]
    return (*(_TYPE_META if issubclass(cls, Kind) else ()), *own)


def _declared(cls: type) -> list[str]:
    names = inspect.get_annotations(cls)
    return [name for name in names if isinstance(cls.__dict__.get(name), Declaration)]


def _field(owner: type[Type], attribute: str) -> Field:
    declaration = owner.__dict__[attribute]
    shape, pointer = _read_annotation(owner, attribute, inspect.get_annotations(owner)[attribute])
    name = declaration.json or attribute.rstrip("_")
    return Field(
        attribute=attribute,
        name=name,
        number=declaration.number if owner.wire else None,
        proto=declaration.proto or name,
        shape=shape,
        pointer=pointer,
        declaration=declaration,
    )


@functools.cache
def _flat_fields(cls: Any) -> tuple[FlatField, ...]:
    flat: list[FlatField] = []
    for own in _fields(cls):
        if not own.declaration.inline:
            flat.append(FlatField(through=(), field=own))
            continue
        assert isinstance(own.shape, Message)
        flat.extend(
            FlatField(through=(own, *inner.through), field=inner.field)
            for inner in own.shape.type.flat_fields()
        )
    return tuple(flat)
