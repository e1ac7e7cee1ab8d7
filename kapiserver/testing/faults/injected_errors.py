"""The errors that faults inject, with the Status that kube-apiserver would send."""

from __future__ import annotations

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver import errors
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.serving.http1.response_head import REASONS
from kapiserver.apiserver.status import details, status
from kapiserver.storage import errors as storage

_REASONS = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


def injected_error(
    request: Request, code: int, *, name: str, message: str, retry_after: int
) -> StatusError:
    """Return the error of an HTTP status for a request.

    name            the name of the object, from the path or the body
    message         replaces that of kube-apiserver unless it is ""
    retry_after     seconds of Retry-After, for 429 and 503
    """
    tree = _status_tree(request, code, name, retry_after)
    if message:
        tree["message"] = message
    return StatusError(tree, code)


def _status_tree(request: Request, code: int, name: str, retry_after: int) -> Tree:
    info = request.info
    error = _known_error(request, code, name, retry_after)
    if error is not None:
        tree = errors.status_of(error, info)
        assert tree is not None
        if code == 503:
            tree["details"] = details(retry_after=retry_after)
        return tree
    phrase = REASONS.get(code, f"HTTP {code}")
    status_details = details(name=name, group=info.version.group, kind=info.resource)
    return status(code=code, reason=_REASONS.get(code, ""), message=phrase, details=status_details)


def _known_error(request: Request, code: int, name: str, retry_after: int) -> Exception | None:
    info = request.info
    resource, group = info.resource, info.version.group
    match code:
        case 401:
            return errors.Unauthorized()
        case 403:
            return forbidden(request.user, info, "")
        case 404:
            return storage.NotFound(resource=resource, group=group, name=name)
        case 409 if info.verb == "create":
            return storage.AlreadyExists(resource=resource, group=group, name=name)
        case 409:
            return storage.ObjectConflict(resource=resource, group=group, name=name)
        case 410:
            message = "The resourceVersion for the provided list is too old."
            return storage.Expired(message, resource=resource, group=group)
        case 429:
            return errors.TooManyRequests(retry_after=retry_after)
        case 500:
            return errors.InternalError("etcdserver: leader changed")
        case 503:
            text = "the server is currently unable to handle the request"
            return errors.ServiceUnavailable(text)
        case 504:
            return errors.RequestTimeout()
    return None
