"""The declaration of API types, and the interface by which other layers read it.

A type describes a tree: the JSON-shaped value (dict, list, str, int, float, bool, None) that is the
only form of an API object in memory. A declaration reads like a table:

    class ContainerPort(Type):
        \"\"\"A network port in a single container.\"\"\"

        name: str = field(1)
        hostPort: int32 = field(2)
        containerPort: int32 = field(3, always=True)
        protocol: str = field(4, default="TCP", enum=("TCP", "UDP", "SCTP"))

The fields are in the order of Go's struct, which is the key order of the JSON. The annotation is
the type of the value: `str bool bytes int32 int64 double Any`, a Type, `list[T]`, `dict[str, T]`,
or `T | None` for a pointer in Go (absent and zero differ). A trailing underscore is dropped from
the name (`from_`). Annotations are read on first use, so that declarations cost nothing.

A table that two versions of a group share is declared once. The module of the other version calls
`inherit_types(__name__, v1)` and declares only the types that differ, as subclasses:

    class ContainerPort(v1.ContainerPort):
        containerPort = override_field(required=False)
        protocol: str | None = field(4)
        hostPort = remove_field()

A field keeps its place in the key order; a new field comes last, or before the field that its
`before` option names. Annotations of inherited fields are read in the module of the subclass
first, so that nested types are those of its own version. A table that names an inherited type
imports it under TYPE_CHECKING, from where it is declared.

This module knows no wire format, no group and no kind. Mirrors the struct tags of k8s.io/api.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable
from typing import Any, ClassVar, NewType, ParamSpec, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Value: TypeAlias = Any
"""One JSON-shaped value."""
Tree: TypeAlias = dict[str, Any]
"""One JSON-shaped object."""

int32 = NewType("int32", int)
int64 = NewType("int64", int)
double = NewType("double", float)


class _Tag(Struct, frozen=True):
    number: int = 0


class FieldOptions(_Tag, frozen=True, kw_only=True):
    """The options of one field of a Type, which `field(...)` declares.

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
    item_api_version
                apiVersion of the objects in a list whose kind and apiVersion are in responses
                but not on the wire
    before      the inherited field before which a subclass's new field stands; last by default
    """

    json: str | None = None
    proto: str | None = None
    doc: str = ""
    always: bool = False
    inline: bool = False
    omit_zero: bool = False
    required: bool = False
    default: Value = None
    enum: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    set: bool = False
    atomic: bool | None = None
    merge: str | None = None
    patch: str | None = None
    item_api_version: str = ""
    before: str | None = None


_Params = ParamSpec("_Params")


def _as_any(make: Callable[_Params, object]) -> Callable[_Params, Any]:
    """Return the function as one that returns Any, as the value of a field of any type."""
    return make


field = _as_any(FieldOptions)
"""Declares one field of a Type; the options are those of FieldOptions, the first one the number."""


class FieldOverride(Struct, frozen=True):
    """A change to a field that a base class declares; None removes the field."""

    options: dict[str, Any] | None


_Result = TypeVar("_Result")


def override_field(**options: Any) -> Any:
    """Change some options of a field of the base class; FieldOptions has them."""
    return FieldOverride(options)


def remove_field() -> Any:
    """Remove a field of the base class."""
    return FieldOverride(None)


class Type:
    """A message on the wire, an object in the tree. Subclasses declare fields; there are no
    instances."""

    atomic: ClassVar[bool] = False
    """Whether it is replaced as a whole in server-side apply (structType atomic)."""
    wire: ClassVar[bool] = True
    """Whether it has a Protobuf form; Table has none, and its fields have no number."""
    declares_fields: ClassVar[bool] = True
    """False for a custom kind, whose fields the schema of its definition describes."""
    package: ClassVar[str] = ""
    """The IDL package, if it is not that of the module."""

    _results: ClassVar[dict[Any, Any]] = {}
    """What functions with `cached_in_type` returned for this type."""

    def __init_subclass__(cls) -> None:
        cls._results = {}
        base = cls.__mro__[1]
        if cls.__doc__ is None and base.__module__ != __name__:
            cls.__doc__ = base.__doc__

    @classmethod
    def merge_node(cls) -> Any:
        """Return its schema for server-side apply (a Node of `merge_schema.py`) if the fields do
        not define it; else None."""
        return None

    @classmethod
    def message_type(cls) -> type[Type]:
        """Return the type whose fields are those of its Protobuf message."""
        return cls

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """Return the declared fields, embedded structs as one field."""
        return _fields(cls)

    @classmethod
    def flat_fields(cls) -> tuple[FlatField, ...]:
        """Return the fields in the key order of the JSON, those of embedded structs included."""
        return _flat_fields(cls)


def cached_in_type(create: Callable[[type[Type]], _Result]) -> Callable[[type[Type]], _Result]:
    """Cache the result of a function for each type in the type, so that a custom kind that is
    deleted is freed with it."""

    def cached(type_: type[Type]) -> Any:
        if create not in type_._results:
            type_._results[create] = create(type_)
        return type_._results[create]

    return cached


def description(type_: type[Type]) -> str:
    """Return the docstring of a type as one paragraph, the way OpenAPI and the IDL show it."""
    return " ".join((inspect.getdoc(type_) or "").split())


class ScalarType(Type):
    """A message on the wire, a single value in the tree: Time, Quantity, IntOrString, ...

    The fields declared are those of the message.
    """

    openapi: ClassVar[Tree] = {}
    """The schema of the value in OpenAPI v3."""

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


class Variant(ScalarType):
    """A single value of one of several shapes, each a field of the message: a schema or a bool.

    `to_message` and `from_message` choose the field; its value is read by the shape of the field.
    """

    @classmethod
    def canonical(cls, value: Value) -> Value:
        """Return the value, canonical as far as it can be without reading nested values."""
        return None if value is None else cls.from_message(cls.to_message(value))


class EncodedType(Type):
    """A message of which the fields declare the tree only: the class itself encodes and decodes
    its Protobuf form."""

    @classmethod
    def encode(cls, tree: Tree) -> bytes:
        """Return the message of a canonical tree. Raises ValueError."""
        raise NotImplementedError(cls.__name__)

    @classmethod
    def decode(cls, data: bytes, take: Callable[[int], None]) -> Tree:
        """Return the canonical tree of a message. Calls `take` with the number of items of each
        list and map, which raises if there are too many. Raises ValueError."""
        raise NotImplementedError(cls.__name__)


class Kind(Type):
    """A type with `kind` and `apiVersion`, which come first in JSON and are absent from
    Protobuf."""

    listed: ClassVar[bool] = True
    """Whether it has a list kind; False for options, reviews and other kinds that are not
    stored."""


class Scalar(Struct, frozen=True):
    """A string, bool, int32, int64, double, bytes (base64 in the tree) or any (free JSON)."""

    name: str


class Message(Struct, frozen=True):
    """A nested Type, including ScalarType and Kind."""

    type: type[Type]


class ListOf(Struct, frozen=True):
    """A repeated field."""

    item: Scalar | Message


class MapOf(Struct, frozen=True):
    """A map with string keys."""

    value: Scalar | Message | ListOf


Shape: TypeAlias = Scalar | Message | ListOf | MapOf

STRING = Scalar("string")


class Field(Struct, frozen=True, kw_only=True):
    """A declared field with its annotation parsed.

    `number` is None for fields that are not on the wire: kind, apiVersion, fields of types without
    a Protobuf form.
    """

    attribute: str
    name: str
    number: int | None
    proto: str
    shape: Shape
    pointer: bool
    options: FieldOptions


class FlatField(Struct, frozen=True, kw_only=True):
    """A field as JSON shows it, with the embedded structs that contain it, outermost first."""

    embedded_in: tuple[Field, ...]
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
        options=field(),
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
    raise TypeError(f"{annotation!r} is not a type of a field")


def annotation(field: Field) -> object:
    """Return the annotation that declares a field of the same shape."""
    python_type: object = _annotation(field.shape)
    return typing.Optional[python_type] if field.pointer else python_type  # noqa: UP045 - `|` needs a type


def _annotation(shape: Shape) -> Any:
    if isinstance(shape, Message):
        return shape.type
    if isinstance(shape, ListOf):
        return types.GenericAlias(list, (_annotation(shape.item),))
    if isinstance(shape, MapOf):
        return types.GenericAlias(dict, (str, _annotation(shape.value)))
    return next(python for python, scalar in _SCALARS.items() if scalar == shape)


@cached_in_type
def _fields(cls: type[Type]) -> tuple[Field, ...]:
    declared: _Declared = {}
    for base in reversed(cls.__mro__):
        for attribute, value in vars(base).items():
            if isinstance(value, FieldOptions):
                declared = _declare(declared, base, attribute, value)
            elif isinstance(value, FieldOverride):
                _override(declared, base, attribute, value)
    fields = [_field(cls, attribute, *declaration) for attribute, declaration in declared.items()]
    return (*(_TYPE_META if issubclass(cls, Kind) else ()), *fields)


_Declared: TypeAlias = dict[str, tuple[type[Type], FieldOptions]]
"""The class that declares a field, and the options, by attribute and in key order."""


def _declare(
    declared: _Declared, owner: type[Type], attribute: str, options: FieldOptions
) -> _Declared:
    if options.before is None or attribute in declared:
        return {**declared, attribute: (owner, options)}
    if options.before not in declared:
        raise TypeError(f"{owner.__name__}.{attribute}: no base class declares {options.before}")
    place = list(declared).index(options.before)
    fields = list(declared.items())
    return dict([*fields[:place], (attribute, (owner, options)), *fields[place:]])


def _override(
    declared: _Declared, owner: type[Type], attribute: str, override: FieldOverride
) -> None:
    if attribute not in declared:
        raise TypeError(f"{owner.__name__}.{attribute}: no base class declares this field")
    if override.options is None:
        del declared[attribute]
    else:
        base, options = declared[attribute]
        declared[attribute] = (base, replace(options, **override.options))


def _field(cls: type[Type], attribute: str, owner: type[Type], options: FieldOptions) -> Field:
    shape, pointer = _read_annotation(cls, owner, attribute)
    name = options.json or attribute.rstrip("_")
    return Field(
        attribute=attribute,
        name=name,
        number=options.number if cls.wire else None,
        proto=options.proto or name,
        shape=shape,
        pointer=pointer,
        options=options,
    )


def _read_annotation(cls: type[Type], owner: type[Type], attribute: str) -> tuple[Shape, bool]:
    """Return the shape that `owner` declares and whether it is a pointer, for a field of `cls`."""
    annotation: Any = inspect.get_annotations(owner)[attribute]
    if isinstance(annotation, str):
        # The nearest module comes first: a type of this version hides its namesake of another.
        modules = [vars(sys.modules[base.__module__]) for base in cls.__mro__]
        annotation = eval(annotation, modules[cls.__mro__.index(owner)], ChainMap(*modules))
    optional = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    if optional:
        (annotation,) = [a for a in typing.get_args(annotation) if a is not type(None)]
    try:
        return _shape(annotation), optional
    except TypeError as error:
        raise TypeError(f"{owner.__name__}.{attribute}: {error}") from None


@cached_in_type
def _flat_fields(cls: type[Type]) -> tuple[FlatField, ...]:
    flat: list[FlatField] = []
    for declared in _fields(cls):
        if not declared.options.inline:
            flat.append(FlatField(embedded_in=(), field=declared))
            continue
        assert isinstance(declared.shape, Message)
        flat.extend(
            FlatField(embedded_in=(declared, *inner.embedded_in), field=inner.field)
            for inner in declared.shape.type.flat_fields()
        )
    return tuple(flat)


def inherit_types(
    module: str,
    source: types.ModuleType,
    *,
    only: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> None:
    """Declare the types of another version in the module of that name, each as a subclass.

    `only` names the types to inherit, `without` those to exclude; by default all are inherited. A
    type that differs is declared again below the call. Raises TypeError for a name that is not a
    type of `source`.
    """
    types_by_name = {
        name: base
        for name, base in vars(source).items()
        if isinstance(base, type) and issubclass(base, Type) and base.__module__ == source.__name__
    }
    unknown = sorted({*only, *without} - types_by_name.keys())
    if unknown:
        raise TypeError(f"{module}: {source.__name__} has no types {', '.join(unknown)}")
    target = vars(sys.modules[module])
    for name, base in types_by_name.items():
        if name in only or not (only or name in without):
            target[name] = type(name, (base,), {"__module__": module, "__doc__": base.__doc__})
