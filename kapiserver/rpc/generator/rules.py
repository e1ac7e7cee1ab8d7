"""The rules for the protobuf file of a version. Each problem has the line that breaks a rule."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
)

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.fields import MESSAGES
from kapiserver.rpc.generator.problems import Problem
from kapiserver.rpc.generator.python_names import snake_case

WELL_KNOWN_FILES = frozenset(
    f"google/protobuf/{name}.proto"
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)
_GO_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_ENUM_VALUE = re.compile(r"[A-Z][A-Z0-9_]*")
_WELL_KNOWN_NAMES = frozenset(name.rpartition(".")[2] for name in MESSAGES)
_RESERVED_CALLS = frozenset({"Version"})
"""Generated clients have an attribute of this name."""

_RESERVED_FIELDS = frozenset({"builtins", "dataclasses"})
"""Modules that `types.py` uses in the classes that would have these fields."""

_SYNTAX = (FileDescriptorProto.SYNTAX_FIELD_NUMBER,)
_PACKAGE = (FileDescriptorProto.PACKAGE_FIELD_NUMBER,)
_IMPORT = FileDescriptorProto.DEPENDENCY_FIELD_NUMBER
_MESSAGE = FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER
_ENUM = FileDescriptorProto.ENUM_TYPE_FIELD_NUMBER
_SERVICE = FileDescriptorProto.SERVICE_FIELD_NUMBER
_CALL = 2  # ServiceDescriptorProto.method
_NESTED = DescriptorProto.NESTED_TYPE_FIELD_NUMBER
_NESTED_ENUM = DescriptorProto.ENUM_TYPE_FIELD_NUMBER
_FIELD_NUMBER = DescriptorProto.FIELD_FIELD_NUMBER
_VALUE = EnumDescriptorProto.VALUE_FIELD_NUMBER


def check_rules(groups: Iterable[GroupDefinition]) -> Iterator[Problem]:
    """Yield the problems of all groups."""
    for group in groups:
        for version in group.versions:
            yield from _check_version(version, group.project)
        yield from _check_shared_calls(group)


def _check_version(version: VersionDefinition, project: str) -> Iterator[Problem]:
    for line, text in (
        *_check_file(version, project),
        *_check_service(version),
        *_check_messages(version, version.source.message_type, (_MESSAGE,)),
        *_check_enums(version, version.source.enum_type, (_ENUM,)),
    ):
        yield Problem(version.path, line, text)


def _check_shared_calls(group: GroupDefinition) -> Iterator[Problem]:
    """Yield a problem for each name in Python that stands for different calls, or for calls with
    different streams, because one method of the server implements a call of all versions."""
    first: dict[str, tuple[str, MethodDescriptorProto]] = {}
    for version in group.versions:
        for service in version.source.service[:1]:
            for index, method in enumerate(service.method):
                name, other_method = first.setdefault(
                    snake_case(method.name), (version.name, method)
                )
                line = version.line(_SERVICE, 0, _CALL, index)
                if method.name != other_method.name:
                    names = f"{method.name} and {other_method.name} of {name}"
                    text = f"{names} have the same name in Python"
                    yield Problem(version.path, line, text)
                elif _streams(method) != _streams(other_method):
                    text = f"{method.name} must have the same streams as in {name}, or another name"
                    yield Problem(version.path, line, text)


def _streams(method: MethodDescriptorProto) -> tuple[bool, bool]:
    return method.client_streaming, method.server_streaming


_Problems = Iterator[tuple[int, str]]


def _check_file(version: VersionDefinition, project: str) -> _Problems:
    source = version.source
    if source.syntax != "proto3":
        yield version.line(*_SYNTAX), 'the file must begin with syntax = "proto3"'
    full = f"{project.replace('-', '_')}.{version.group}.{version.name}"
    packages = [version.name, f"{version.group}.{version.name}", full]
    if source.package not in packages:
        yield (
            version.line(*_PACKAGE),
            f"the package must be {packages[1]}, {packages[0]} or {packages[2]}, "
            f"not {source.package or 'empty'}",
        )
    for index, name in enumerate(source.dependency):
        if name not in WELL_KNOWN_FILES:
            yield (
                version.line(_IMPORT, index),
                f"a version must not import {name}; it may import well-known types of protobuf",
            )


def _check_service(version: VersionDefinition) -> _Problems:
    services = version.source.service
    if len(services) != 1:
        line = version.line(_SERVICE, 1) if services else 1
        yield line, f"the file must define exactly one service, not {len(services)}"
        return
    name = services[0].name
    if not _GO_NAME.fullmatch(name) or name.lower() != version.group:
        yield (
            version.line(_SERVICE, 0),
            f"the service must be named as the group in CamelCase, "
            f"{version.group.capitalize()}, not {name}",
        )
    for index, method in enumerate(services[0].method):
        line = version.line(_SERVICE, 0, _CALL, index)
        for text in _check_method(version, method):
            yield line, text


def _check_method(version: VersionDefinition, method: MethodDescriptorProto) -> Iterator[str]:
    if not _GO_NAME.fullmatch(method.name):
        yield f"the call {method.name} must have a name in CamelCase"
    if method.name in _RESERVED_CALLS:
        yield f"a call cannot be named {method.name}; clients use that name themselves"
    for type_name, suffix in ((method.input_type, "Request"), (method.output_type, "Response")):
        expected = f"{method.name}{suffix}"
        if type_name != f".{version.source.package}.{expected}":
            yield f"the {suffix.lower()} of {method.name} must be {expected}, not {type_name[1:]}"


def _check_messages(
    version: VersionDefinition, messages: Iterable[DescriptorProto], path: tuple[int, ...]
) -> _Problems:
    for index, message in enumerate(messages):
        message_path = (*path, index)
        if message.options.map_entry:
            continue
        if not _GO_NAME.fullmatch(message.name) or keyword.iskeyword(message.name):
            yield (
                version.line(*message_path),
                f"the message {message.name} must have a name in CamelCase",
            )
        if len(path) == 1 and message.name in _WELL_KNOWN_NAMES:
            text = f"a message cannot be named {message.name}; a well-known type has that name"
            yield version.line(*message_path), text
        for number, field in enumerate(message.field):
            if not _FIELD.fullmatch(field.name):
                text = f"the field {field.name} must have a name in lower_snake_case"
                yield version.line(*message_path, _FIELD_NUMBER, number), text
            elif keyword.iskeyword(field.name) or field.name in _RESERVED_FIELDS:
                text = f"a field cannot be named {field.name}; Python or types.py uses that name"
                yield version.line(*message_path, _FIELD_NUMBER, number), text
        yield from _check_messages(version, message.nested_type, (*message_path, _NESTED))
        yield from _check_enums(version, message.enum_type, (*message_path, _NESTED_ENUM))


def _check_enums(
    version: VersionDefinition, enums: Iterable[EnumDescriptorProto], path: tuple[int, ...]
) -> _Problems:
    for index, enum in enumerate(enums):
        enum_path = (*path, index)
        if not _GO_NAME.fullmatch(enum.name) or keyword.iskeyword(enum.name):
            yield version.line(*enum_path), f"the enum {enum.name} must have a name in CamelCase"
        for number, value in enumerate(enum.value):
            if not _ENUM_VALUE.fullmatch(value.name):
                text = f"the value {value.name} must have a name in UPPER_SNAKE_CASE"
                yield version.line(*enum_path, _VALUE, number), text
