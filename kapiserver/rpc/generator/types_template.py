"""Renders modules of a group: a new `types.py`, `types_generated.py` and a new `server.py`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.fields import accepted_annotations, map_types, value_type
from kapiserver.rpc.generator.python_names import class_path, snake_case
from kapiserver.rpc.generator.python_source import bracketed, docstring, module

_BUILTINS = ("bool", "bytes", "dict", "float", "int", "list", "str")


def types_module(group: GroupDefinition) -> str:
    """Return a new `types.py`, which has the messages and enums of all versions of a group, with
    the fields and values of all. Where versions differ, the newest prevails."""
    enums, messages = _declarations(
        _Scope(
            version,
            version.file.enum_types_by_name,
            version.file.message_types_by_name,
            (FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER,),
        )
        for version in group.versions
    )
    text = "\n\n".join(
        [*(_enum(enum, 0) for enum in enums), *(_message(message, 0) for message in messages)]
    )
    imports = ["import builtins"] * ("builtins." in text) + ["import dataclasses"]
    imports += ["from enum import IntEnum"] * ("(IntEnum)" in text)
    well_known_imports = _well_known_imports(group, text)
    head = (
        f'"""Internal types of the group {group.name}; they can represent all of its versions.\n'
        "\n`kapiserver rpc generate` created this file. Edit it: it is not generated again.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
    )
    return (
        head
        + "\n".join(imports + [""] * bool(well_known_imports) + well_known_imports)
        + "\n\n\n"
        + text
    )


def _well_known_imports(group: GroupDefinition, text: str) -> list[str]:
    """Return the imports of the well-known types in a text, sorted as ruff sorts them."""
    names: dict[str, set[str]] = {}
    messages = (message for version in group.versions for message in version.messages())
    for field in (field for message in messages for field in message.fields):
        value = (map_types(field) or [value_type(field)])[-1]
        if value.module and re.search(rf"\b{value.annotation}\b", text):
            names.setdefault(value.module, set()).add(value.annotation)
    return [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]


@dataclass(frozen=True, slots=True)
class _Declaration:
    """A message in the file of one version. `path` is its path in SourceCodeInfo."""

    version: VersionDefinition
    message: Descriptor
    path: tuple[int, ...]

    def comment(self, *path: int) -> str:
        """Return the comment of the message, or of an element in it."""
        return self.version.comment(*self.path, *path)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The enums and messages of one version's file, or of one of its messages. `path` is the path
    of the list of messages in SourceCodeInfo."""

    version: VersionDefinition
    enums: Mapping[str, EnumDescriptor]
    messages: Mapping[str, Descriptor]
    path: tuple[int, ...]


def _declarations(
    scopes: Iterable[_Scope],
) -> tuple[list[list[EnumDescriptor]], list[list[_Declaration]]]:
    """Return the enums and messages of several versions, each as a list from the newest version
    to the oldest. Where a name is an enum in one version and a message in another, the newer
    prevails."""
    enums: dict[str, list[EnumDescriptor]] = {}
    messages: dict[str, list[_Declaration]] = {}
    for scope in scopes:
        for name, enum in scope.enums.items():
            if name not in messages:
                enums.setdefault(name, []).append(enum)
        for index, (name, message) in enumerate(scope.messages.items()):
            if name not in enums and not message.GetOptions().map_entry:
                declaration = _Declaration(scope.version, message, (*scope.path, index))
                messages.setdefault(name, []).append(declaration)
    return [*enums.values()], [*messages.values()]


def _enum(enums: Sequence[EnumDescriptor], indent: int) -> str:
    space = " " * indent
    numbers: dict[str, int] = {}
    for value in (value for enum in enums for value in enum.values):
        numbers.setdefault(value.name, value.number)
    values = "".join(f"{space}    {name} = {number}\n" for name, number in numbers.items())
    return f"{space}class {enums[0].name}(IntEnum):\n{values}"


def _message(declarations: Sequence[_Declaration], indent: int) -> str:
    space = " " * indent
    newest = declarations[0]
    comment = docstring(newest.comment(), indent + 4)
    enums, messages = _declarations(
        _Scope(
            declaration.version,
            declaration.message.enum_types_by_name,
            declaration.message.nested_types_by_name,
            (*declaration.path, DescriptorProto.NESTED_TYPE_FIELD_NUMBER),
        )
        for declaration in declarations
    )
    nested = [_enum(enum, indent + 4) for enum in enums]
    nested += [_message(message, indent + 4) for message in messages]
    fields = _fields(declarations, space)
    body = "\n".join([*([comment] if comment else []), *nested, *([fields] if fields else [])])
    return (
        f"{space}@dataclasses.dataclass(slots=True, kw_only=True)\n"
        f"{space}class {newest.message.name}:\n{body or f'{space}    pass' + chr(10)}"
    )


def _fields(declarations: Sequence[_Declaration], space: str) -> str:
    fields: dict[str, list[FieldDescriptor]] = {}
    comments: dict[str, str] = {}
    for declaration in declarations:
        for index, field in enumerate(declaration.message.fields):
            fields.setdefault(field.name, []).append(field)
            comment = declaration.comment(DescriptorProto.FIELD_FIELD_NUMBER, index)
            comments.setdefault(field.name, comment)
    return "".join(
        _comment_lines(comments[name], space)
        + f"{space}    {name}: {_definition(versions, fields.keys())}\n"
        for name, versions in fields.items()
    )


def _comment_lines(comment: str, space: str) -> str:
    lines = [line.strip() for line in comment.strip().splitlines()]
    return "".join(f"{space}    # {line}".rstrip() + "\n" for line in lines)


def _definition(fields: Sequence[FieldDescriptor], names: Collection[str]) -> str:
    """Return the annotation and default of a field of several versions, the newest first. Types
    that fields of the same class hide, as `bytes: int = 0` hides bytes, have `builtins.` before
    them."""
    newest, *older = fields
    annotations = accepted_annotations(newest)
    for annotation in annotations:
        if all(annotation in accepted_annotations(field) for field in older):
            break
    else:
        annotation = annotations[0]
    default = "None" if annotation.endswith("| None") else _default(newest)
    text = f"{annotation} = {default}"
    shadowed = "|".join(name for name in _BUILTINS if name in names)
    return re.sub(rf"\b({shadowed})\b", r"builtins.\1", text) if shadowed else text


def _default(field: FieldDescriptor) -> str:
    if map_types(field) is not None:
        return "dataclasses.field(default_factory=dict)"
    if field.is_repeated:
        return "dataclasses.field(default_factory=list)"
    return value_type(field).default or "None"


def callbacks(group: GroupDefinition) -> dict[str, MethodDescriptor]:
    """Return the calls of all versions by their names in Python. A call that several versions have
    is that of the newest."""
    return {
        snake_case(method.name): method
        for version in reversed(group.versions)
        for method in version.methods
    }


def signature(name: str, method: MethodDescriptor, *, implementation: bool) -> str:
    """Return the first lines of a callback, from `def` to the colon.

    An implementation is asynchronous; the interface also allows synchronous ones."""
    request = f"types.{class_path(method.input_type)}"
    response = f"types.{class_path(method.output_type)}"
    if method.client_streaming:
        request = f"AsyncIterator[{request}]"
    if method.server_streaming:
        response = f"AsyncIterator[{response}]" + (
            "" if implementation else f" | Iterator[{response}]"
        )
    elif not implementation:
        response = f"Awaitable[{response}] | {response}"
    prefix = "async " if implementation else ""
    return bracketed(
        f"    {prefix}def {name}(",
        ["self", f"request: {request}", "call: Call"],
        f") -> {response}:",
    )


def interface_module(group: GroupDefinition) -> str:
    """Return `types_generated.py`: the interface of the group's server."""
    methods = callbacks(group)
    body = "\n\n".join(
        f"{signature(name, method, implementation=False)} ..." for name, method in methods.items()
    )
    names = [name for name in ("AsyncIterator", "Awaitable") if f"{name}[" in body]
    names += ["Iterator"] * ("| Iterator[" in body)
    imports = [
        *([f"from collections.abc import {', '.join(names)}"] if names else []),
        "from typing import Protocol", "",
        "from kapiserver.rpc.registration import Call", "",
        "from . import types",
    ]  # fmt: skip
    return module(
        f"The interface that the server of the group {group.name} implements.",
        imports,
        'class Server(Protocol):\n    """Implements the calls of all versions."""\n\n'
        + (body or "    pass"),
    )


def server_module(group: GroupDefinition) -> str:
    """Return a new `server.py`, whose calls are not implemented."""
    methods = callbacks(group)
    body = "\n".join(_skeleton(name, method) for name, method in methods.items())
    streams = ["from collections.abc import AsyncIterator", ""] * ("AsyncIterator[" in body)
    return "\n".join(
        [
            f'"""The implementation of the group {group.name}, for all of its versions.',
            "",
            "`kapiserver rpc generate` created this file. Edit it: it is not generated again.",
            '"""', "", "from __future__ import annotations", "", *streams,
            "from kapiserver.rpc.registration import Call, RPCError", "",
            "from . import types", "", "",
            "class Server:",
            f'    """Implements the calls of {group.name}."""', "",
            body,
        ]
    )  # fmt: skip


def _skeleton(name: str, method: MethodDescriptor) -> str:
    error = f'RPCError("UNIMPLEMENTED", "{method.name} is not implemented")'
    body = f"        raise {error}\n"
    if method.server_streaming:  # `yield` makes the method an asynchronous generator
        response = class_path(method.output_type)
        body += f"        yield types.{response}()\n"
    return f"{signature(name, method, implementation=True)}\n{body}"


def missing_callbacks(group: GroupDefinition, names: Iterable[str]) -> str:
    """Return the signatures of callbacks, for the message that they are missing."""
    methods = callbacks(group)
    return "\n".join(signature(name, methods[name], implementation=True) for name in names)
