"""The Protobuf IDL of declared classes whose fields have numbers, for clients in other languages.

Each group-version has a file, as in Kubernetes. What it imports of Kubernetes is in the folder
`kapiserver/api/proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from kapiserver.api.idl import ProtoFile, messages_in, proto_text
from kapiserver.api.types import Type
from kapiserver.extension.messages import list_message, object_message
from kapiserver.extension.resources import Resource

_COMMENT = "Written by `kapiserver protos` from the classes of a Python module. Do not edit."


def proto_sources(resources: Iterable[Resource[Any]]) -> Mapping[PurePosixPath, str]:
    """Return the source of each file by its path, such as example.com/v1/generated.proto. Raises
    UnusableType."""
    by_version: dict[tuple[str, str], dict[str, type[Type]]] = {}
    for resource in resources:
        for version in resource.versions:
            package = _package(resource.group, version)
            kind = object_message(resource.type_of(version), package)
            if kind is not None:
                messages = by_version.setdefault((resource.group, version), {})
                messages |= {message.__name__: message for message in _own_messages(kind, package)}
                messages |= {f"{kind.__name__}List": list_message(kind)}
    return {
        PurePosixPath(file.path): proto_text(file, comment=_COMMENT) for file in _files(by_version)
    }


def _files(
    by_version: Mapping[tuple[str, str], Mapping[str, type[Type]]],
) -> Iterator[ProtoFile]:
    for (group, version), messages in by_version.items():
        yield ProtoFile(
            package=_package(group, version),
            messages=tuple(messages[name] for name in sorted(messages)),
            folder=f"{group}/{version}",
        )


def _package(group: str, version: str) -> str:
    return f"{group}.{version}".replace("-", "_")


def _own_messages(message: type[Type], package: str) -> Iterator[type[Type]]:
    """Yield a message and those in its fields that belong to the package."""
    yield message
    for field in message.fields():
        for inner in messages_in(field.shape):
            if inner.package == package:
                yield from _own_messages(inner, package)
