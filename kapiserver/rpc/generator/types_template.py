"""Renders modules of a group: a new `types.py`, `types_generated.py` and a new `server.py`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.fields import accepted_annotations, map_types, value_type
from kapiserver.rpc.generator.python_names import class_path, snake_case
from kapiserver.rpc.generator.python_source import bracketed, docstring, module

_BUILTINS = ("bool", "bytes", "dict", "float", "int", "list", "str")


def types_module(version: VersionDefinition) -> str:
    """Return a new `types.py`, which copies the messages and enums of a version."""
    file = version.file
    blocks = [
        *(_enum(enum, 0) for enum in file.enum_types_by_name.values()),
        *(
            _message(version, message, (FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER, index), 0)
            for index, message in enumerate(file.message_types_by_name.values())
        ),
    ]
    text = "\n\n".join(blocks)
    imports = ["import builtins"] * ("builtins." in text) + ["import dataclasses"]
    imports += ["from enum import IntEnum"] * ("(IntEnum)" in text)
    well_known_imports = _well_known_imports(version)
    head = (
        f'"""Internal types of the group {version.group}; they can represent all of its versions.\n'
        "\n`kapiserver rpc generate` created this file. Edit it: it is not generated again.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
    )
    return (
        head
        + "\n".join(imports + [""] * bool(well_known_imports) + well_known_imports)
        + "\n\n\n"
        + text
    )


def _well_known_imports(version: VersionDefinition) -> list[str]:
    """Return the imports of the well-known types that fields hold, sorted as ruff sorts them."""
    names: dict[str, set[str]] = {}
    for field in (field for message in version.messages() for field in message.fields):
        value = (map_types(field) or [value_type(field)])[-1]
        if value.module:
            names.setdefault(value.module, set()).add(value.annotation)
    return [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]


def _enum(enum: EnumDescriptor, indent: int) -> str:
    space = " " * indent
    values = "".join(f"{space}    {value.name} = {value.number}\n" for value in enum.values)
    return f"{space}class {enum.name}(IntEnum):\n{values}"


def _message(
    version: VersionDefinition, message: Descriptor, path: tuple[int, ...], indent: int
) -> str:
    space = " " * indent
    comment = docstring(version.comment(*path), indent + 4)
    nested = [_enum(enum, indent + 4) for enum in message.enum_types]
    nested += [
        _message(
            version, inner, (*path, DescriptorProto.NESTED_TYPE_FIELD_NUMBER, index), indent + 4
        )
        for index, inner in enumerate(message.nested_types)
        if not inner.GetOptions().map_entry
    ]
    fields = "".join(
        _comment_lines(version.comment(*path, DescriptorProto.FIELD_FIELD_NUMBER, index), space)
        + f"{space}    {field.name}: {_definition(field, message.fields_by_name.keys())}\n"
        for index, field in enumerate(message.fields)
    )
    body = "\n".join([*([comment] if comment else []), *nested, *([fields] if fields else [])])
    return (
        f"{space}@dataclasses.dataclass(slots=True, kw_only=True)\n"
        f"{space}class {message.name}:\n{body or f'{space}    pass' + chr(10)}"
    )


def _comment_lines(comment: str, space: str) -> str:
    lines = [line.strip() for line in comment.strip().splitlines()]
    return "".join(f"{space}    # {line}".rstrip() + "\n" for line in lines)


def _definition(field: FieldDescriptor, names: Collection[str]) -> str:
    """Return the annotation and default of a field. Types that fields of the same class hide, as
    `bytes: int = 0` hides bytes, have `builtins.` before them."""
    text = f"{accepted_annotations(field)[0]} = {_default(field)}"
    shadowed = "|".join(name for name in _BUILTINS if name in names)
    return re.sub(rf"\b({shadowed})\b", r"builtins.\1", text) if shadowed else text


def _default(field: FieldDescriptor) -> str:
    if map_types(field) is not None:
        return "dataclasses.field(default_factory=dict)"
    if field.is_repeated:
        return "dataclasses.field(default_factory=list)"
    return "None" if field.has_presence else value_type(field).default or "None"


def callbacks(group: GroupDefinition) -> dict[str, MethodDescriptor]:
    """Return the calls of all versions by their name in Python; of several versions' the newest."""
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
