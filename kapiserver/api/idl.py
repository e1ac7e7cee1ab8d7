"""The Protobuf IDL of the declared types: one `.proto` file per group and version, as text or as a
descriptor.

Packages, paths and names are Kubernetes' own, so that clients compiled from either read the same
bytes. Derived from the declarations only; `generate` writes the files. Mirrors go-to-protobuf of
k8s.io/code-generator.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kapiserver.api import quantity, runtime, scalar_types
from kapiserver.api.builtin_kinds import group_module
from kapiserver.api.meta.lists import list_type
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    Field,
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    Shape,
    Type,
    description,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

_PACKAGES = {
    "apiextensions": "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions",
    "apiregistration": "k8s.io.kube_aggregator.pkg.apis.apiregistration",
    "audit": "k8s.io.apiserver.pkg.apis.audit",
    "custom_metrics": "k8s.io.metrics.pkg.apis.custom_metrics",
    "external_metrics": "k8s.io.metrics.pkg.apis.external_metrics",
    "meta": "k8s.io.apimachinery.pkg.apis.meta",
    "metrics": "k8s.io.metrics.pkg.apis.metrics",
}
"""Packages that are not `k8s.io.api.<group package>`."""
_SHARED_MODULES = (scalar_types, quantity, runtime)
"""Modules whose types declare their own IDL package; a type without one is a base class."""
_SCALARS = ("string", "bool", "bytes", "int32", "int64", "double")

Reserved = Mapping[str, Mapping[int, str]]
"""Tags that must not be reused, by message: the number and the field that had it."""


class ProtoFile(Struct, frozen=True, kw_only=True):
    """One file: the messages of a package, by name.

    folder  of the file, and its Go package; "" for those of the package's name
    """

    package: str
    messages: tuple[type[Type], ...]
    folder: str = ""

    @property
    def path(self) -> str:
        """The path by which other files import it."""
        return f"{self.go_package}/generated.proto"

    @property
    def go_package(self) -> str:
        """The folder of the file."""
        return self.folder or directory(self.package)

    @property
    def imports(self) -> tuple[str, ...]:
        """Paths of the other files whose messages it uses."""
        used = {
            package_of(used_type)
            for message in self.messages
            for field in message.fields()
            if field.number is not None
            for used_type in messages_in(field.shape)
        }
        return tuple(
            sorted(
                f"{directory(used_package)}/generated.proto"
                for used_package in used - {self.package}
            )
        )


def directory(package: str) -> str:
    """Return `k8s.io/api/core/v1` for `k8s.io.api.core.v1`."""
    return "k8s.io/" + package.removeprefix("k8s.io.").replace(".", "/").replace("_", "-")


def package_of_module(module: str) -> str:
    """Return `k8s.io.api.core.v1` for `kapiserver.api.core.v1` and all modules in it."""
    group, version = module.split(".")[2:4]
    return f"{_PACKAGES.get(group, f'k8s.io.api.{group}')}.{version}"


def package_of(type_: type[Type]) -> str:
    """Return the IDL package of a type."""
    return type_.package or package_of_module(type_.__module__)


def proto_files(scheme: Scheme) -> tuple[ProtoFile, ...]:
    """Return all files of a scheme's groups and of the types they share, by package."""
    by_package: dict[str, dict[str, type[Type]]] = {}
    for type_ in _declared_types(scheme):
        if type_.wire:
            by_package.setdefault(package_of(type_), {})[type_.__name__] = type_
    return tuple(
        ProtoFile(package=package, messages=tuple(messages[name] for name in sorted(messages)))
        for package, messages in sorted(by_package.items())
    )


def _declared_types(scheme: Scheme) -> Iterable[type[Type]]:
    modules = [
        group_module(group, version)
        for group in scheme.declared_groups
        for version in group.declared_versions
    ]
    for module in (*_SHARED_MODULES, *modules):
        for value in vars(module).values():
            if _is_message(value, module):
                yield value
                yield from _lists(value, module)


def _is_message(value: Any, module: ModuleType) -> bool:
    if not (isinstance(value, type) and issubclass(value, Type)):
        return False
    is_own = f"{value.__module__}.".startswith(f"{module.__name__}.")
    is_base = module in _SHARED_MODULES and not value.package
    return is_own and not is_base


def _lists(type_: Any, module: ModuleType) -> Iterable[type[Type]]:
    if issubclass(type_, Kind) and type_.listed and f"{type_.__name__}List" not in vars(module):
        yield list_type(type_)


def messages_in(shape: Shape) -> Iterable[type[Type]]:
    """Yield the messages that a field has as values, items or itself."""
    match shape:
        case Message():
            yield shape.type
        case ListOf():
            yield from messages_in(shape.item)
        case MapOf():
            yield from messages_in(shape.value)


# --- text


GENERATED = "Written by `make generate` from the declarations of kapiserver. Do not edit."


def proto_text(
    file: ProtoFile, reserved: Reserved | None = None, *, comment: str = GENERATED
) -> str:
    """Return the source of a file, whose first line is a comment."""
    lines = [
        f"// {comment}",
        "",
        'syntax = "proto2";',
        "",
        f"package {file.package};",
        "",
        *(f'import "{path}";' for path in file.imports),
        *([""] if file.imports else []),
        f'option go_package = "{file.go_package}";',
    ]
    for message in file.messages:
        lines += ["", *_message_lines(file, message, (reserved or {}).get(message.__name__, {}))]
    return "\n".join(lines) + "\n"


def _message_lines(file: ProtoFile, message: type[Type], reserved: Mapping[int, str]) -> list[str]:
    lines = [*_comment(description(message)), f"message {message.__name__} {{"]
    for number, name in sorted(reserved.items()):
        lines.append(f"  reserved {number}; // {name}")
    for field in wire_fields(message):
        lines += _comment(field.options.doc, indent="  ")
        lines.append(f"  {_type_text(file, field.shape)} {field.proto} = {field.number};")
    return [*lines, "}"]


def _comment(doc: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        doc,
        100,
        initial_indent=f"{indent}// ",
        subsequent_indent=f"{indent}// ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def wire_fields(message: type[Type]) -> list[Field]:
    """Return the fields of a message, by number."""
    fields = [field for field in message.fields() if field.number is not None]
    return sorted(fields, key=lambda field: field.number or 0)


def _type_text(file: ProtoFile, shape: Shape) -> str:
    match shape:
        case ListOf():
            return f"repeated {_name(file, shape.item)}"
        case MapOf(ListOf()):
            raise TypeError("a map of lists has no Protobuf form; declare the list as a Leaf")
        case MapOf():
            return f"map<string, {_name(file, shape.value)}>"
    return f"optional {_name(file, shape)}"


def _name(file: ProtoFile, shape: Any) -> str:
    if isinstance(shape, Scalar):
        if shape.name not in _SCALARS:
            raise TypeError(f"a field of type {shape.name} has no Protobuf form")
        return shape.name
    package = package_of(shape.type)
    name: str = shape.type.__name__
    return name if package == file.package else f".{package}.{name}"


# --- descriptors


def file_descriptor(file: ProtoFile) -> FileDescriptorProto:
    """Return the file's descriptor as protoc builds it, without comments."""
    # Imported late: only tools and tests need the Protobuf runtime.
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    descriptor = FileDescriptorProto(name=file.path, package=file.package, dependency=file.imports)
    descriptor.options.go_package = directory(file.package)
    for message in file.messages:
        _add_fields(descriptor.message_type.add(name=message.__name__), file, message)
    return descriptor


def _add_fields(descriptor: DescriptorProto, file: ProtoFile, message: type[Type]) -> None:
    for field in wire_fields(message):
        shape = field.shape
        field_descriptor = descriptor.field.add(name=field.proto, number=field.number)
        field_descriptor.json_name = _json_name(field.proto)
        if isinstance(shape, MapOf):
            entry = descriptor.nested_type.add(name=f"{_json_name(field.proto, upper=True)}Entry")
            entry.options.map_entry = True
            field_descriptor.label = field_descriptor.LABEL_REPEATED
            field_descriptor.type = field_descriptor.TYPE_MESSAGE
            field_descriptor.type_name = f".{file.package}.{message.__name__}.{entry.name}"
            _set_type(entry.field.add(name="key", number=1, json_name="key"), Scalar("string"))
            _set_type(entry.field.add(name="value", number=2, json_name="value"), shape.value)
        elif isinstance(shape, ListOf):
            _set_type(field_descriptor, shape.item)
            field_descriptor.label = field_descriptor.LABEL_REPEATED
        else:
            _set_type(field_descriptor, shape)


def _set_type(descriptor: Any, shape: Any) -> None:
    descriptor.label = descriptor.LABEL_OPTIONAL
    if isinstance(shape, Scalar):
        descriptor.type = getattr(descriptor, f"TYPE_{shape.name.upper()}")
    else:
        descriptor.type = descriptor.TYPE_MESSAGE
        descriptor.type_name = f".{package_of(shape.type)}.{shape.type.__name__}"


def _json_name(name: str, *, upper: bool = False) -> str:
    # As protoc does: underscores are removed, and the letter after each becomes upper case.
    head, *parts = name.split("_")
    joined = head + "".join(part[:1].upper() + part[1:] for part in parts)
    return joined[:1].upper() + joined[1:] if upper else joined
