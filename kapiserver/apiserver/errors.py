"""The Status of every error: a table by error class, and the error classes of this layer.

    ServerError
    |-- BadRequest          400
    |   `-- BadImpersonation    Impersonate-* headers without a user
    |-- Unauthorized        401
    |-- Forbidden           403
    |   `-- NotAuthorized   no authorizer allowed the request
    |-- UnknownResource     404: no such resource in a served version
    |   `-- UnknownGroup    404: no such API group
    |-- MethodNotAllowed    405: the resource does not have the verb
    |   `-- MethodNotSupported  the custom resource does not have it
    |-- RouteNotAcceptable  406: the route produces no accepted media type
    |-- UnsupportedResponseKind  406: the response has no such kind
    |-- ListTooLarge        406: the list would take too long to encode in that form
    |-- BodyTooLarge        413
    |-- UnsupportedByRoute  415: the route does not consume the media type
    |-- MisdirectedRequest  421: the Host is not this server's
    |-- TooManyRequests     429 with Retry-After
    |-- InternalError       500 with a message for the client
    |-- UnclassifiedError   500 with a message for the client and no reason
    |-- ServiceUnavailable  503: not ready, or shutting down
    `-- RequestTimeout      504

To add an error: one line in TABLE (a test finds classes without one). Mirrors
apimachinery/pkg/api/errors. Knows no HTTP library and no handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kapiserver.api import errors as api
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver import corrupt_objects
from kapiserver.apiserver.corrupt_objects import internal_error
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import cause, details, status
from kapiserver.codecs import errors as codecs
from kapiserver.storage import errors as storage


class ServerError(Exception):
    """Base of this layer's errors; the message is for the client."""


class BadRequest(ServerError):
    """The request is malformed or contradicts itself."""


class BadImpersonation(BadRequest):
    """The Impersonate-* headers name no user."""


class Unauthorized(ServerError):
    """The credentials are invalid, or missing and required."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ServerError):
    """Authorization or admission refused the request.

    reason      why; the message puts the resource and name before it
    """

    def __init__(
        self,
        reason: str,
        *,
        resource: str = "",
        group: str = "",
        name: str = "",
        causes: Sequence[Tree] = (),
    ) -> None:
        self.resource = resource
        self.group = group
        self.name = name
        self.causes = tuple(causes)
        qualified = f"{resource}.{group}" if group else resource
        if not qualified:
            message = f"forbidden: {reason}"
        elif not name:
            message = f"{qualified} is forbidden: {reason}"
        else:
            message = f'{qualified} "{name}" is forbidden: {reason}'
        super().__init__(message)


class NotAuthorized(Forbidden):
    """No authorizer allowed the request."""


class UnknownResource(ServerError):
    """A served version has no such resource."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource")


class UnknownGroup(UnknownResource):
    """No such API group. Over HTTP the response is a plain page, as for any unknown path."""


class MethodNotAllowed(ServerError):
    """The resource does not have the verb."""

    def __init__(
        self, message: str = "the server does not allow this method on the requested resource"
    ) -> None:
        super().__init__(message)


class MethodNotSupported(MethodNotAllowed):
    """A custom resource does not have the verb, which is "" for methods such as OPTIONS."""

    def __init__(self, verb: str, *, resource: str, group: str) -> None:
        super().__init__(f'{verb} is not supported on resources of kind "{resource}.{group}"')
        self.resource = resource
        self.group = group


class RouteNotAcceptable(ServerError):
    """The route produces none of the accepted media types."""

    def __init__(self, produced: Sequence[str]) -> None:
        super().__init__(f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}")


class UnsupportedByRoute(ServerError):
    """The route does not consume the media type of the body."""

    def __init__(self) -> None:
        super().__init__("415: Unsupported Media Type")


class UnsupportedResponseKind(ServerError):
    """The response cannot be converted to the kind that the Accept header requests."""


class ListTooLarge(ServerError):
    """The list would take too long to encode in the requested form."""

    def __init__(self, form: str, size: int, limit: int) -> None:
        super().__init__(
            f"the list is too large for {form}: its objects have {size} bytes, at most {limit} are "
            "encoded; request application/json, or pages with limit"
        )


class BodyTooLarge(ServerError):
    """The request body has more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"Request entity too large: limit is {limit}")
        self.limit = limit


class MisdirectedRequest(ServerError):
    """The Host header names a server that this one is not."""


class TooManyRequests(ServerError):
    """Too many requests are in flight, or a disruption budget is exhausted."""

    def __init__(
        self,
        message: str = "too many requests, please try again later",
        *,
        retry_after: int = 1,
        causes: Sequence[Tree] = (),
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.causes = tuple(causes)


class InternalError(ServerError):
    """The server failed; the message contains nothing that the client must not see."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Internal error occurred: {message}")


class UnclassifiedError(ServerError):
    """An error for which kube-apiserver has no reason either, such as a backend that does not
    upgrade a connection."""


class ServiceUnavailable(ServerError):
    """The server is not ready yet, or is shutting down, or cannot reach what it passes a request on
    to."""


class RequestTimeout(ServerError):
    """The request exceeded its time limit."""

    def __init__(self) -> None:
        super().__init__("Timeout: request did not complete within the allotted timeout")


ToStatus: TypeAlias = Callable[[Exception, RequestInfo], Tree]


def _with_message(code: int, reason: str) -> ToStatus:
    """A Status with the error's own message."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        return status(code=code, reason=reason, message=str(error))

    return to_status


def _with_fixed_message(code: int, reason: str, message: str, *, retry_after: int = 0) -> ToStatus:
    """A Status with a fixed message, for errors whose own message is not for the client."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        status_details = _request_details(info)
        if retry_after:
            status_details["retryAfterSeconds"] = retry_after
        return status(code=code, reason=reason, message=message, details=status_details)

    return to_status


def _with_empty_details(code: int, reason: str) -> ToStatus:
    def to_status(error: Exception, info: RequestInfo) -> Tree:
        return status(code=code, reason=reason, message=str(error), details={})

    return to_status


def _request_details(info: RequestInfo) -> Tree:
    """Return the details that name the request's object."""
    return details(name=info.name, group=info.version.group, kind=info.resource)


def _not_supported(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, MethodNotSupported)
    status_details = details(group=error.group, kind=error.resource)
    return status(code=405, reason="MethodNotAllowed", message=str(error), details=status_details)


def _invalid(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, api.InvalidObject)
    causes = [
        cause(reason=field_error.reason, message=message, field=str(field_error.path))
        for field_error, message in zip(error.errors, error.messages, strict=True)
    ]
    status_details = details(name=error.name, group=error.group, kind=error.kind, causes=causes)
    return status(code=422, reason="Invalid", message=str(error), details=status_details)


def _forbidden(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, Forbidden)
    status_details = details(
        name=error.name, group=error.group, kind=error.resource, causes=error.causes
    )
    return status(code=403, reason="Forbidden", message=str(error), details=status_details)


def _quota_exceeded(error: Exception, info: RequestInfo) -> Tree:
    group = info.version.group
    refusal = Forbidden(str(error), resource=info.resource, group=group, name=info.name)
    return _forbidden(refusal, info)


def _too_much_work(error: Exception, info: RequestInfo) -> Tree:
    return _too_many(TooManyRequests(str(error)), info)


def _too_many(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, TooManyRequests)
    status_details = details(causes=error.causes, retry_after=error.retry_after)
    return status(code=429, reason="TooManyRequests", message=str(error), details=status_details)


def _qualified(info: RequestInfo) -> str:
    group = info.version.group
    return f"{info.resource}.{group}" if group else info.resource


def _already_exists(error: Exception, info: RequestInfo) -> Tree:
    message = f'{_qualified(info)} "{info.name}" already exists'
    return status(code=409, reason="AlreadyExists", message=message, details=_request_details(info))


def _conflict(error: Exception, info: RequestInfo) -> Tree:
    message = (
        f'Operation cannot be fulfilled on {_qualified(info)} "{info.name}": {storage.MODIFIED}'
    )
    return status(code=409, reason="Conflict", message=message, details=_request_details(info))


def _internal(error: Exception, info: RequestInfo) -> Tree:
    return internal_error(str(error).removeprefix("Internal error occurred: "))


def _named_object(code: int, reason: str) -> ToStatus:
    """A Status for an error that names its object."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        assert isinstance(error, storage.ObjectError)
        retry_after = error.retry_after if isinstance(error, storage.AlreadyExists) else 0
        status_details = details(
            name=error.name, group=error.group, kind=error.resource, retry_after=retry_after
        )
        return status(code=code, reason=reason, message=str(error), details=status_details)

    return to_status


def _own_status(error: Any, _info: RequestInfo) -> Tree:
    own_status: Tree = error.status
    return own_status


def _expired(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, storage.Expired)
    tree = status(code=410, reason="Expired", message=str(error))
    if error.continue_token:
        tree["metadata"] = {"continue": error.continue_token}
    return tree


def _too_new(error: Exception, info: RequestInfo) -> Tree:
    message = "Too large resource version"
    causes = [cause(reason="ResourceVersionTooLarge", message=message)]
    status_details = details(causes=causes, retry_after=1)
    return status(code=504, reason="Timeout", message=str(error), details=status_details)


def _field_conflicts(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, api.FieldConflicts)
    causes = [
        cause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path)
        for manager, path in error.paths
    ]
    status_details = details(causes=causes)
    return status(code=409, reason="Conflict", message=str(error), details=status_details)


def _patch_failed(error: Exception, info: RequestInfo) -> Tree:
    message = "the server rejected our request due to an error in our request"
    return status(code=422, reason="Invalid", message=message, details={})


_BAD_REQUEST = _with_message(400, "BadRequest")
# Without Retry-After: clients that obey it wait ten times as long, and a write may have happened.
_STORE_UNAVAILABLE = _with_fixed_message(503, "ServiceUnavailable", "the store does not answer")

TABLE: dict[type[Exception], ToStatus] = {
    # this layer
    BadRequest: _BAD_REQUEST,
    Unauthorized: _with_message(401, "Unauthorized"),
    Forbidden: _forbidden,
    UnknownResource: _with_empty_details(404, "NotFound"),
    MethodNotAllowed: _with_empty_details(405, "MethodNotAllowed"),
    MethodNotSupported: _not_supported,
    RouteNotAcceptable: _with_empty_details(406, "NotAcceptable"),
    UnsupportedByRoute: _with_empty_details(415, "UnsupportedMediaType"),
    UnsupportedResponseKind: _with_message(406, "NotAcceptable"),
    ListTooLarge: _with_message(406, "NotAcceptable"),
    BodyTooLarge: _with_message(413, "RequestEntityTooLarge"),
    MisdirectedRequest: _with_message(421, ""),  # Kubernetes has no reason for this code
    TooManyRequests: _too_many,
    InternalError: _internal,
    UnclassifiedError: _with_message(500, ""),
    ServiceUnavailable: _with_message(503, "ServiceUnavailable"),
    RequestTimeout: _with_empty_details(504, "Timeout"),
    # api
    api.InvalidObject: _invalid,
    api.BadObject: _BAD_REQUEST,
    api.NotRegistered: _BAD_REQUEST,
    api.ConversionFailed: _BAD_REQUEST,
    api.VersionDropped: _with_message(500, ""),  # as any error of kube-apiserver without a Status
    api.FieldConflicts: _field_conflicts,
    api.PatchFailed: _patch_failed,
    api.PatchTooLong: _with_message(413, "RequestEntityTooLarge"),
    # calls of the internal client
    StatusError: _own_status,
    # codecs
    codecs.Malformed: _BAD_REQUEST,
    codecs.MissingKind: _BAD_REQUEST,
    codecs.UnknownKind: _BAD_REQUEST,
    codecs.WrongValue: _BAD_REQUEST,
    codecs.TooLarge: _with_message(413, "RequestEntityTooLarge"),
    codecs.UnsupportedEncoding: _BAD_REQUEST,
    codecs.NotEncodable: _with_message(406, "NotAcceptable"),
    codecs.NotAcceptable: _with_message(406, "NotAcceptable"),
    codecs.UnsupportedMediaType: _with_message(415, "UnsupportedMediaType"),
    # storage
    storage.KeyExists: _already_exists,
    storage.Conflict: _conflict,
    storage.Compacted: _with_fixed_message(410, "Expired", "The resourceVersion is too old."),
    storage.FutureRevision: _with_fixed_message(
        504, "Timeout", "Too large resource version", retry_after=1
    ),
    storage.Unavailable: _STORE_UNAVAILABLE,
    storage.OutcomeUnknown: _with_fixed_message(
        503, "ServiceUnavailable", f"the store does not answer; {storage.OutcomeUnknown.MESSAGE}"
    ),
    storage.ConversionRefused: _with_message(500, ""),
    storage.Refused: _with_message(500, ""),  # kube-apiserver passes on the message of etcd
    # kube-apiserver responds 500 without a reason; 413 tells the client not to retry.
    storage.ValueTooLarge: _with_message(413, "RequestEntityTooLarge"),
    storage.Corrupt: _with_fixed_message(
        500, "InternalError", "Internal error occurred: unreadable object"
    ),
    storage.Damaged: _with_message(500, "InternalError"),
    storage.EncryptionFailed: _internal,
    storage.CorruptObject: corrupt_objects.object_status,
    storage.CorruptList: corrupt_objects.list_status,
    storage.DefinitionDeleted: _with_fixed_message(404, "NotFound", str(UnknownResource())),
    storage.ResourceVersionSet: _with_message(500, ""),  # as kube-apiserver
    storage.StoreLocked: _STORE_UNAVAILABLE,
    storage.TooMuchWork: _too_much_work,
    storage.QuotaExceeded: _quota_exceeded,
    storage.NotFound: _named_object(404, "NotFound"),
    storage.AlreadyExists: _named_object(409, "AlreadyExists"),
    storage.ObjectConflict: _named_object(409, "Conflict"),
    storage.Expired: _expired,
    storage.ResourceVersionTooLarge: _too_new,
    storage.BadQuery: _BAD_REQUEST,
}
"""A class without a row uses that of its nearest base class."""


def status_of(error: Exception, info: RequestInfo) -> Tree | None:
    """Return the Status of an error, or None if the table has no row for it."""
    for class_ in type(error).__mro__:
        to_status = TABLE.get(class_)
        if to_status is not None:
            return to_status(error, info)
    return None
