"""The Protobuf IDL of the declared types: one `.proto` a group-version, text and descriptor.

Packages, paths and names are Kubernetes' own, so that clients compiled from either read the same
bytes. Derived from the declarations alone: knows no tag that they do not say, and writes no file
(`generate` does). Mirrors go-to-protobuf of k8s.io/code-generator.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kapiserver.api import quantity, runtime, scalar_types
from kapiserver.api.meta.lists import list_type
from kapiserver.api.scheme import Scheme, group_module
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
    "meta": "k8s.io.apimachinery.pkg.apis.meta",
}
"""Where the package is not `k8s.io.api.<group package>`."""
_SHARED_MODULES = (scalar_types, quantity, runtime)
"""Modules whose types declare their own IDL package; a type without one is a base class."""
_SCALARS = ("string", "bool", "bytes", "int32", "int64", "double")

Reserved = Mapping[str, Mapping[int, str]]
"""Tags that must not come back, by message: the number and the field that had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoFile:
    """One file: the messages of a package, by name."""

    package: str
    messages: tuple[type[Type], ...]

    @property
    def path(self) -> str:
        """The name by which other files import it."""
        return f"{directory(self.package)}/generated.proto"

    @property
    def imports(self) -> tuple[str, ...]:
        """Paths of the other files whose messages it uses."""
        used = {
            package_of(found)
            for message in self.messages
            for field in message.fields()
            if field.number is not None
            for found in _messages_in(field.shape)
        }
        return tuple(sorted(f"{directory(one)}/generated.proto" for one in used - {self.package}))


def directory(package: str) -> str:
    """`k8s.io/api/core/v1` of `k8s.io.api.core.v1`."""
    return "k8s.io/" + package.removeprefix("k8s.io.").replace(".", "/").replace("_", "-")


def package_of_module(module: str) -> str:
    """`k8s.io.api.core.v1`, for `kapiserver.api.core.v1` and all modules in it."""
    group, version = module.split(".")[2:4]
    return f"{_PACKAGES.get(group, f'k8s.io.api.{group}')}.{version}"


def package_of(type_: type[Type]) -> str:
    """The IDL package of a type."""
    return type_.package or package_of_module(type_.__module__)


def proto_files(scheme: Scheme) -> tuple[ProtoFile, ...]:
    """All files of a scheme's groups and of the types they share, by package."""
    found: dict[str, dict[str, type[Type]]] = {}
    for type_ in _declared(scheme):
        if type_.wire:
            found.setdefault(package_of(type_), {})[type_.__name__] = type_
    return tuple(
        ProtoFile(package=package, messages=tuple(messages[name] for name in sorted(messages)))
        for package, messages in sorted(found.items())
    )


def _declared(scheme: Scheme) -> Iterable[type[Type]]:
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


def _messages_in(shape: Shape) -> Iterable[type[Type]]:
    match shape:
        case Message():
            yield shape.type
        case ListOf():
            yield from _messages_in(shape.item)
        case MapOf():
            yield from _messages_in(shape.value)


# --- text


def proto_text(file: ProtoFile, reserved: Reserved | None = None) -> str:
    """The file's source."""
    lines = [
        "// Written by `make generate` from the declarations of kapiserver. Do not edit.",
        "",
        'syntax = "proto2";',
        "",
        f"package {file.package};",
        "",
        *(f'import "{path}";' for path in file.imports),
        *([""] if file.imports else []),
        f'option go_package = "{directory(file.package)}";',
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
    """The fields of a message, by number."""
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
    """The file as protoc would describe it, without comments."""
    # Late: only tools and tests need the Protobuf runtime.
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = FileDescriptorProto(name=file.path, package=file.package, dependency=file.imports)
    found.options.go_package = directory(file.package)
    for message in file.messages:
        _describe(found.message_type.add(name=message.__name__), file, message)
    return found


def _describe(into: DescriptorProto, file: ProtoFile, message: type[Type]) -> None:
    for field in wire_fields(message):
        shape = field.shape
        added = into.field.add(name=field.proto, number=field.number)
        added.json_name = _json_name(field.proto)
        if isinstance(shape, MapOf):
            entry = into.nested_type.add(name=f"{_json_name(field.proto, upper=True)}Entry")
            entry.options.map_entry = True
            added.label = added.LABEL_REPEATED
            added.type = added.TYPE_MESSAGE
            added.type_name = f".{file.package}.{message.__name__}.{entry.name}"
            _type_of(entry.field.add(name="key", number=1, json_name="key"), Scalar("string"))
            _type_of(entry.field.add(name="value", number=2, json_name="value"), shape.value)
        elif isinstance(shape, ListOf):
            _type_of(added, shape.item)
            added.label = added.LABEL_REPEATED
        else:
            _type_of(added, shape)


def _type_of(into: Any, shape: Any) -> None:
    into.label = into.LABEL_OPTIONAL
    if isinstance(shape, Scalar):
        into.type = getattr(into, f"TYPE_{shape.name.upper()}")
    else:
        into.type = into.TYPE_MESSAGE
        into.type_name = f".{package_of(shape.type)}.{shape.type.__name__}"


def _json_name(name: str, *, upper: bool = False) -> str:
    # As protoc forms it: underscores go, the letter after each is upper case.
    head, *rest = name.split("_")
    joined = head + "".join(part[:1].upper() + part[1:] for part in rest)
    return joined[:1].upper() + joined[1:] if upper else joined
