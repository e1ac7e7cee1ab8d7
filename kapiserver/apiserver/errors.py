"""From exception to Status: one table for every error of every layer, and this layer's own.

    ServerError
    |-- BadRequest          400
    |-- Unauthorized        401
    |-- Forbidden           403
    |-- UnknownResource     404: no such path below a version that is served
    |   `-- UnknownGroup    404: no such API group
    |-- MethodNotAllowed    405: no such verb on the resource
    |-- NoSuchForm          406: the answer cannot be turned into the kind asked for
    |-- BodyTooLarge        413
    |-- TooManyRequests     429 with Retry-After
    |-- InternalError       500 whose message is for the client
    |-- ServiceUnavailable  503: not ready, or on the way out
    `-- RequestTimeout      504

To add an error: one line in TABLE (a test finds classes without one). Mirrors
apimachinery/pkg/api/errors. Knows no HTTP library and no handler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kapiserver.api import errors as api
from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import cause, details, status
from kapiserver.codecs import errors as codecs
from kapiserver.storage import errors as storage


class ServerError(Exception):
    """Base of this layer's errors; the message is for the client."""


class BadRequest(ServerError):
    """A request that makes no sense."""


class Unauthorized(ServerError):
    """Credentials that nobody here vouches for, or none where some are needed."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ServerError):
    """Refused by authorization or admission; `reason` without the words about who and what."""

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


class UnknownResource(ServerError):
    """No such path below a version that is served."""

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource")


class UnknownGroup(UnknownResource):
    """No such API group. Over HTTP the answer is a plain page, as for any unknown path."""


class MethodNotAllowed(ServerError):
    """No such verb on the resource."""

    def __init__(
        self, message: str = "the server does not allow this method on the requested resource"
    ) -> None:
        super().__init__(message)


class NoSuchForm(ServerError):
    """The answer cannot be turned into the kind asked for."""


class BodyTooLarge(ServerError):
    """A body of more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"Request entity too large: limit is {limit}")
        self.limit = limit


class TooManyRequests(ServerError):
    """Not now: as many requests are in flight as may be, or a budget is spent."""

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
    """Something failed here, in words that are fit for the client."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Internal error occurred: {message}")


class ServiceUnavailable(ServerError):
    """Not ready yet, or on the way out."""


class RequestTimeout(ServerError):
    """The request took longer than it may."""

    def __init__(self) -> None:
        super().__init__("Timeout: request did not complete within the allotted timeout")


ToStatus: TypeAlias = Callable[[Exception, RequestInfo], Tree]


def _plain(code: int, reason: str) -> ToStatus:
    """The error's own message under a code and a reason."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        return status(code=code, reason=reason, message=str(error))

    return to_status


def _fixed(code: int, reason: str, message: str, *, retry_after: int = 0) -> ToStatus:
    """Words of our own: the error's message is not for the client."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        found = _target(info)
        if retry_after:
            found["retryAfterSeconds"] = retry_after
        return status(code=code, reason=reason, message=message, details=found)

    return to_status


def _with_empty_details(code: int, reason: str) -> ToStatus:
    def to_status(error: Exception, info: RequestInfo) -> Tree:
        return status(code=code, reason=reason, message=str(error), details={})

    return to_status


def _target(info: RequestInfo) -> Tree:
    """Details that name what the request is about."""
    return details(name=info.name, group=info.version.group, kind=info.resource)


def _invalid(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, api.InvalidObject)
    causes = [
        cause(reason=one.reason, message=one.message, field=str(one.path)) for one in error.errors
    ]
    about = details(name=error.name, group=error.group, kind=error.kind, causes=causes)
    return status(code=422, reason="Invalid", message=str(error), details=about)


def _forbidden(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, Forbidden)
    about = details(name=error.name, group=error.group, kind=error.resource, causes=error.causes)
    return status(code=403, reason="Forbidden", message=str(error), details=about)


def _too_many(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, TooManyRequests)
    about = details(causes=error.causes, retry_after=error.retry_after)
    return status(code=429, reason="TooManyRequests", message=str(error), details=about)


def _qualified(info: RequestInfo) -> str:
    group = info.version.group
    return f"{info.resource}.{group}" if group else info.resource


def _exists(error: Exception, info: RequestInfo) -> Tree:
    message = f'{_qualified(info)} "{info.name}" already exists'
    return status(code=409, reason="AlreadyExists", message=message, details=_target(info))


def _conflict(error: Exception, info: RequestInfo) -> Tree:
    message = (
        f'Operation cannot be fulfilled on {_qualified(info)} "{info.name}": {storage.MODIFIED}'
    )
    return status(code=409, reason="Conflict", message=message, details=_target(info))


def _internal(error: Exception, info: RequestInfo) -> Tree:
    causes = [{"message": str(error).removeprefix("Internal error occurred: ")}]
    return status(
        code=500, reason="InternalError", message=str(error), details=details(causes=causes)
    )


def _unread(error: Exception, info: RequestInfo) -> Tree:
    return _internal(InternalError(str(error)), info)


def _object(code: int, reason: str) -> ToStatus:
    """An error that names its object."""

    def to_status(error: Exception, info: RequestInfo) -> Tree:
        assert isinstance(error, storage.ObjectError)
        retry_after = error.retry_after if isinstance(error, storage.AlreadyExists) else 0
        about = details(
            name=error.name, group=error.group, kind=error.resource, retry_after=retry_after
        )
        return status(code=code, reason=reason, message=str(error), details=about)

    return to_status


def _expired(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, storage.Expired)
    tree = status(code=410, reason="Expired", message=str(error))
    if error.continue_token:
        tree["metadata"] = {"continue": error.continue_token}
    return tree


def _too_new(error: Exception, info: RequestInfo) -> Tree:
    words = "Too large resource version"
    causes = [cause(reason="ResourceVersionTooLarge", message=words)]
    about = details(causes=causes, retry_after=1)
    return status(code=504, reason="Timeout", message=str(error), details=about)


def _field_conflicts(error: Exception, info: RequestInfo) -> Tree:
    assert isinstance(error, api.FieldConflicts)
    causes = [
        cause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path)
        for manager, path in error.paths
    ]
    about = details(causes=causes)
    return status(code=409, reason="Conflict", message=str(error), details=about)


def _patch_failed(error: Exception, info: RequestInfo) -> Tree:
    message = "the server rejected our request due to an error in our request"
    return status(code=422, reason="Invalid", message=message, details={})


_BAD_REQUEST = _plain(400, "BadRequest")
# No Retry-After: a client that obeys one waits ten times as long, and a write may have happened.
_NOT_NOW = _fixed(503, "ServiceUnavailable", "the store does not answer")

TABLE: dict[type[Exception], ToStatus] = {
    # this layer
    BadRequest: _BAD_REQUEST,
    Unauthorized: _plain(401, "Unauthorized"),
    Forbidden: _forbidden,
    UnknownResource: _with_empty_details(404, "NotFound"),
    MethodNotAllowed: _with_empty_details(405, "MethodNotAllowed"),
    NoSuchForm: _plain(406, "NotAcceptable"),
    BodyTooLarge: _plain(413, "RequestEntityTooLarge"),
    TooManyRequests: _too_many,
    InternalError: _internal,
    ServiceUnavailable: _plain(503, "ServiceUnavailable"),
    RequestTimeout: _with_empty_details(504, "Timeout"),
    # api
    api.InvalidObject: _invalid,
    api.BadObject: _BAD_REQUEST,
    api.NotRegistered: _BAD_REQUEST,
    api.ConversionFailed: _BAD_REQUEST,
    api.FieldConflicts: _field_conflicts,
    api.PatchFailed: _patch_failed,
    api.PatchTooLong: _plain(413, "RequestEntityTooLarge"),
    # codecs
    codecs.Malformed: _BAD_REQUEST,
    codecs.MissingKind: _BAD_REQUEST,
    codecs.UnknownKind: _BAD_REQUEST,
    codecs.WrongValue: _BAD_REQUEST,
    codecs.TooLarge: _plain(413, "RequestEntityTooLarge"),
    codecs.UnsupportedEncoding: _BAD_REQUEST,
    codecs.NotEncodable: _plain(406, "NotAcceptable"),
    codecs.NotAcceptable: _plain(406, "NotAcceptable"),
    codecs.UnsupportedMediaType: _plain(415, "UnsupportedMediaType"),
    # storage
    storage.KeyExists: _exists,
    storage.Conflict: _conflict,
    storage.Compacted: _fixed(410, "Expired", "The resourceVersion is too old."),
    storage.FutureRevision: _fixed(504, "Timeout", "Too large resource version", retry_after=1),
    storage.Unavailable: _NOT_NOW,
    storage.ConversionRefused: _plain(500, ""),
    storage.Refused: _plain(500, ""),  # as kube-apiserver hands on what etcd says
    # kube-apiserver: 500 without a reason. It is the object's fault, and no retry helps.
    storage.ValueTooLarge: _plain(413, "RequestEntityTooLarge"),
    storage.Corrupt: _fixed(500, "InternalError", "Internal error occurred: unreadable object"),
    storage.Undecryptable: _unread,
    storage.Unreadable: _unread,
    storage.StoreLocked: _NOT_NOW,
    storage.NotFound: _object(404, "NotFound"),
    storage.AlreadyExists: _object(409, "AlreadyExists"),
    storage.ObjectConflict: _object(409, "Conflict"),
    storage.Expired: _expired,
    storage.ResourceVersionTooLarge: _too_new,
    storage.BadQuery: _BAD_REQUEST,
}
"""A class without a line here takes that of its nearest base."""


def status_of(error: Exception, info: RequestInfo) -> Tree | None:
    """The Status of an error; None: nobody expected it, so it is an internal one."""
    for class_ in type(error).__mro__:
        to_status = TABLE.get(class_)
        if to_status is not None:
            return to_status(error, info)
    return None
