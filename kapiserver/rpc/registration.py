"""The registration of a group: its versions, their calls and its implementation.

The generator writes a `Group` into each group's `registration_generated.py`, and the server serves
it. An implementation receives a `Call` and raises `RPCError`. Knows no gRPC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.message import Message

    from kapiserver.apiserver.user import User


class ConversionError(Exception):
    """A value does not fit into a version. The server answers OUT_OF_RANGE.

    path    the path of the field in the message, such as `items[2].size`
    reason  the end of the sentence that begins with the path, or with the value if there is one
    value   the value that does not fit; None if the reason tells enough
    """

    def __init__(self, path: str, reason: str, *, value: float | None = None) -> None:
        super().__init__(f"{path}: {reason}" if value is None else f"{path}: {value} {reason}")
        self.path = path
        self.reason = reason
        self.value = value

    def below(self, parent: str) -> ConversionError:
        """Return the same error with the path that begins at the parent's message."""
        return ConversionError(f"{parent}.{self.path}", self.reason, value=self.value)


class RPCError(Exception):
    """The error of a call. Implementations raise it; the server answers with its code.

    code_name  name of a gRPC status code, such as NOT_FOUND
    message    the message for the client
    details    messages of google.rpc or others, for programs
    """

    def __init__(self, code_name: str, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.code_name = code_name
        self.message = message
        self.details = tuple(details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, as its implementation sees it.

    version   the version that the client called, such as v1alpha1
    method    name of the call, such as ComputeDouble
    user      the user who called
    deadline  time of the event loop's clock at which the client stops waiting; None if it waits
              forever
    metadata  the metadata that the client sent, by key; the last value of a repeated key counts
    """

    version: str
    method: str = ""
    user: User | None = None
    deadline: float | None = None
    metadata: Mapping[str, str | bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One call of one version.

    name               the name in the protobuf file, such as ComputeDouble
    request, response  the protobuf classes of this version
    internal_request, internal_response  dataclasses of the group's `types.py`
    to_internal        converts a request; raises ConversionError
    from_internal      converts a response; raises ConversionError
    server_method      name of the method that implements it: compute_double
    deprecated_fields  full names of the deprecated fields that a request can hold, such as
                       v1.ComputeDoubleRequest.input32
    """

    name: str
    request: type[Message]
    response: type[Message]
    internal_request: type[Any]
    internal_response: type[Any]
    to_internal: Callable[[Any], Any]
    from_internal: Callable[[Any], Any]
    server_method: str
    client_streaming: bool = False
    server_streaming: bool = False
    deprecated: bool = False
    deprecated_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a group.

    name      the name of the version, such as v1alpha1
    package   the package of the protobuf file, such as dummy.v1alpha1
    service   the name of its only service, without the package: Dummy
    comments  the comments of the protobuf file by the full name of the message, field, enum or call
    """

    name: str
    package: str
    service: str
    file_descriptor: FileDescriptor
    methods: tuple[Method, ...]
    deprecated: bool = False
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_service(self) -> str:
        """The service's name in paths of gRPC, such as dummy.v1alpha1.Dummy."""
        return f"{self.package}.{self.service}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group.

    name          the name of the group, such as dummy
    project       the first part of the names of its endpoints, such as csi-proxy
    versions      the versions by preference: v2, v1, v1beta1, v1alpha1
    server_class  the class that implements the calls of all versions; it is created without
                  arguments
    """

    name: str
    project: str
    versions: tuple[Version, ...]
    server_class: Callable[[], Any]


def endpoint_name(group: Group, version: Version) -> str:
    """Return the name of the socket or pipe of a version, `<project>-<group>-<version>`."""
    return f"{group.project}-{group.name}-{version.name}"
