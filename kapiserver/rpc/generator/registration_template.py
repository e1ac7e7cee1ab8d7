"""Renders `registration_generated.py` of a group."""

from __future__ import annotations

import json
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, MethodDescriptor

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.python_names import class_path, function_name, snake_case
from kapiserver.rpc.generator.python_source import module


def registration_module(group: GroupDefinition) -> str:
    """Return the module."""
    imports = [
        "from kapiserver.rpc.registration import Group, Method, Version", "",
        "from . import server, types, types_generated",
    ]  # fmt: skip
    for name in sorted(version.name for version in group.versions):
        imports += [
            f"from .{name} import api_pb2 as {name}_pb",
            f"from .{name} import conversion_generated as {name}_conversion",
        ]
    names = "".join(f"{version.name.upper()}, " for version in group.versions).rstrip()
    interface = "SERVER: type[types_generated.Server] = server.Server"
    registration = (
        "GROUP = Group(\n"
        f'    name="{group.name}",\n'
        f'    project="{group.project}",\n'
        f"    versions=({names if len(group.versions) == 1 else names[:-1]}),\n"
        "    server_class=SERVER,\n)"
    )
    title = f"Registers the versions of the group {group.name}."
    blocks = "\n\n".join([interface, *map(_version, group.versions), registration])
    return module(title, imports, blocks).replace("\n\n\nSERVER", "\n\nSERVER")


def _version(version: VersionDefinition) -> str:
    methods = "".join(_method(version, method) for method in version.methods)
    return (
        f"{version.name.upper()} = Version(\n"
        f'    name="{version.name}",\n'
        f'    package="{version.source.package}",\n'
        f'    service="{version.service}",\n'
        f"    file_descriptor={version.name}_pb.DESCRIPTOR,\n"
        + (f"    methods=(\n{methods}    ),\n" if methods else "    methods=(),\n")
        + ("    deprecated=True,\n" if version.deprecated else "")
        + _comments(version)
        + ")"
    )


def _comments(version: VersionDefinition) -> str:
    lines = [
        f"        {json.dumps(name)}: {json.dumps(text)},\n"
        for name, text in sorted(version.comments().items())
    ]
    return f"    comments={{\n{''.join(lines)}    }},\n" if lines else ""


def _method(version: VersionDefinition, method: MethodDescriptor) -> str:
    request, response = method.input_type, method.output_type
    conversion = f"{version.name}_conversion"
    lines = [
        f'name="{method.name}"',
        f"request={version.name}_pb.{class_path(request)}",
        f"response={version.name}_pb.{class_path(response)}",
        f"internal_request=types.{class_path(request)}",
        f"internal_response=types.{class_path(response)}",
        f"to_internal={conversion}.to_internal_{function_name(request)}",
        f"from_internal={conversion}.to_pb_{function_name(response)}",
        f'server_method="{snake_case(method.name)}"',
    ]
    lines += ["client_streaming=True"] * method.client_streaming
    lines += ["server_streaming=True"] * method.server_streaming
    lines += ["deprecated=True"] * method.GetOptions().deprecated
    fields = sorted(_deprecated_fields(request, set()))
    if len(fields) == 1:
        lines.append(f'deprecated_fields=frozenset({{"{fields[0]}"}})')
    elif fields:
        items = "".join(f'                    "{field}",\n' for field in fields)
        lines.append(
            f"deprecated_fields=frozenset(\n                {{\n{items}                }}\n"
            "            )"
        )
    arguments = "".join(f"            {line},\n" for line in lines)
    return f"        Method(\n{arguments}        ),\n"


def _deprecated_fields(message: Descriptor, seen: set[str]) -> Iterator[str]:
    """Yield the full names of the deprecated fields of a message and of those within it."""
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        if field.GetOptions().deprecated:
            yield field.full_name
        if field.message_type is not None:
            yield from _deprecated_fields(field.message_type, seen)
