"""Renders clients: `VERSION/client_generated.py`, and `client_generated.py` of the group, which
negotiates the version."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.python_names import class_path, function_name, snake_case
from kapiserver.rpc.generator.python_source import bracketed, docstring, module
from kapiserver.rpc.generator.types_template import callbacks


def version_client_module(version: VersionDefinition) -> str:
    """Return the client of one version, which sends and returns messages of that version."""
    name = f"{version.group} {version.name}"
    calls = "".join(_attribute(version, *item) for item in enumerate(version.methods))
    warning = (
        f'        warnings.warn("{name} is deprecated", DeprecationWarning, stacklevel=2)\n'
        if version.deprecated
        else ""
    )
    deprecated = "\n\nDeprecated: this version will be removed.\n" if version.deprecated else ""
    imports = ["import warnings", ""] * version.deprecated
    body = (
        f"class {version.service}Client:\n"
        f'    """Calls {name} over a channel. Each attribute is a call."""\n\n'
        f"    def __init__(self, channel: grpc.aio.Channel) -> None:\n{warning}{calls}"
    )
    if not warning and not calls:
        body += "        self._channel = channel\n"
    return module(
        f"Client of {name}.{deprecated}",
        [*imports, "import grpc.aio", *(["", "from . import api_pb2"] if calls else [])],
        body,
    )


def _attribute(version: VersionDefinition, index: int, method: MethodDescriptor) -> str:
    lines = [
        f'"/{version.source.package}.{version.service}/{method.name}"',
        f"request_serializer=api_pb2.{class_path(method.input_type)}.SerializeToString",
        f"response_deserializer=api_pb2.{class_path(method.output_type)}.FromString",
    ]
    arguments = "".join(f"            {line},\n" for line in lines)
    return (
        f"        self.{snake_case(method.name)} = channel.{_kind(method)}(\n{arguments}        )\n"
        + docstring(_comment(version, index, method), 8)
    )


def _comment(version: VersionDefinition, index: int, method: MethodDescriptor) -> str:
    comment = version.comment(FileDescriptorProto.SERVICE_FIELD_NUMBER, 0, 2, index)
    return f"{comment.strip()}\n\n{'Deprecated.' * method.GetOptions().deprecated}".strip()


def _kind(method: MethodDescriptor) -> str:
    request = "stream" if method.client_streaming else "unary"
    return f"{request}_stream" if method.server_streaming else f"{request}_unary"


def group_client_module(group: GroupDefinition) -> str:
    """Return the client that negotiates the version, and sends and returns internal types."""
    methods = callbacks(group)
    text = "\n\n".join(_call(group, *item) for item in methods.items())
    iterators = ["AsyncIterable"] * ("AsyncIterable[" in text) + ["AsyncIterator"]
    imports = [
        f"from collections.abc import {', '.join(iterators)}",
        "from contextlib import asynccontextmanager",
        "from pathlib import Path",
        *["from typing import Unpack"] * bool(methods), "",
        "from kapiserver.rpc.client import (",
        "    CallConversion,", *["    CallOptions,"] * bool(methods), "    NegotiatedClient,",
        "    VersionConversion,", "    negotiate,", "    unix_sockets,", ")",
        "", "from . import types" if methods else "",
    ]  # fmt: skip
    for name in sorted(version.name for version in group.versions):
        imports += [
            f"from .{name} import api_pb2 as {name}_pb",
            f"from .{name} import conversion_generated as {name}_conversion",
        ]
    service = group.versions[0].service
    versions = "".join(map(_version, group.versions))
    connect = bracketed(
        "async def connect(",
        ["socket_dir: str | Path", "connect_timeout: float = 5.0"],
        f") -> AsyncIterator[{service}Client]:",
    )
    return module(
        f"A client of the group {group.name} that calls the newest version of the server.",
        imports,
        f"VERSIONS = (\n{versions})",
        f'class {service}Client(NegotiatedClient):\n    """Calls {group.name} with its internal '
        f'types."""\n\n{text}',
        f"@asynccontextmanager\n{connect}\n"
        '    """Connect to a server by the directory of its sockets. Raises ConnectionError if it '
        'serves no\n    version, within so many seconds for each."""\n'
        f'    endpoints = unix_sockets(socket_dir, "{group.project}", "{group.name}")\n'
        "    async with negotiate(endpoints, VERSIONS, connect_timeout) as (version, channel):\n"
        f"        yield {service}Client(version, channel)",
    ).replace("\n\n\nVERSIONS", "\n\nVERSIONS", 1)


def _version(version: VersionDefinition) -> str:
    calls = "".join(line for method in version.methods for line in _conversion(version, method))
    return (
        "    VersionConversion(\n"
        f'        name="{version.name}",\n'
        f'        service="{version.source.package}.{version.service}",\n'
        f"        calls={{\n{calls}        }},\n"
        "    ),\n"
    )


def _conversion(version: VersionDefinition, method: MethodDescriptor) -> Iterator[str]:
    conversion = f"{version.name}_conversion"
    request, response = function_name(method.input_type), function_name(method.output_type)
    yield f'            "{method.name}": CallConversion(\n'
    for line in (
        f"to_pb={conversion}.to_pb_{request}",
        f"from_pb={conversion}.to_internal_{request}",
        f"response={version.name}_pb.{class_path(method.output_type)}",
        f"to_internal={conversion}.to_internal_{response}",
    ):
        yield f"                {line},\n"
    yield "            ),\n"


def _call(group: GroupDefinition, name: str, method: MethodDescriptor) -> str:
    request = f"types.{class_path(method.input_type)}"
    response = f"types.{class_path(method.output_type)}"
    parameter = f"requests: AsyncIterable[{request}]" if method.client_streaming else (
        f"request: {request}"
    )  # fmt: skip
    arguments = ["self", parameter, "**options: Unpack[CallOptions]"]
    result = f"AsyncIterator[{response}]" if method.server_streaming else response
    prefix = "" if method.server_streaming else "async "
    source = "requests" if method.client_streaming else "request"
    awaiting = "" if method.server_streaming else "await "
    call = bracketed(
        f"        response: {result} = {awaiting}self._{_kind(method)}(",
        [f'"{method.name}"', source, "options"],
        ")",
    )
    return (
        bracketed(f"    {prefix}def {name}(", arguments, f") -> {result}:")
        + "\n"
        + docstring(_newest_comment(group, method), 8)
        + f"{call}\n        return response"
    )


def _newest_comment(group: GroupDefinition, method: MethodDescriptor) -> str:
    for version in group.versions:
        for index, declaration in enumerate(version.methods):
            if declaration.name == method.name:
                return _comment(version, index, declaration)
    return ""
