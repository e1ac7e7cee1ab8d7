"""Maps exceptions to codes of gRPC, and these to HTTP.

The codes and their HTTP status are those of google/rpc/code.proto. Knows no gRPC library.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.errors import status_of
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.rpc.registration import ConversionError, RPCError

_log = logging.getLogger(__name__)

CODES: Mapping[str, tuple[int, int, str]] = {
    "CANCELLED": (1, 499, "Timeout"),
    "UNKNOWN": (2, 500, "InternalError"),
    "INVALID_ARGUMENT": (3, 400, "BadRequest"),
    "DEADLINE_EXCEEDED": (4, 504, "Timeout"),
    "NOT_FOUND": (5, 404, "NotFound"),
    "ALREADY_EXISTS": (6, 409, "AlreadyExists"),
    "PERMISSION_DENIED": (7, 403, "Forbidden"),
    "RESOURCE_EXHAUSTED": (8, 429, "TooManyRequests"),
    "FAILED_PRECONDITION": (9, 400, "BadRequest"),
    "ABORTED": (10, 409, "Conflict"),
    "OUT_OF_RANGE": (11, 400, "BadRequest"),
    "UNIMPLEMENTED": (12, 501, "MethodNotAllowed"),
    "INTERNAL": (13, 500, "InternalError"),
    "UNAVAILABLE": (14, 503, "ServiceUnavailable"),
    "DATA_LOSS": (15, 500, "InternalError"),
    "UNAUTHENTICATED": (16, 401, "Unauthorized"),
}
"""The number of each code of gRPC, and the code and reason of its Status over HTTP, by name."""

_INTERNAL = "internal error; the log of the server has the reason"
_CODES_OF_STATUS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    406: "INVALID_ARGUMENT",
    409: "ABORTED",
    410: "OUT_OF_RANGE",
    413: "RESOURCE_EXHAUSTED",
    415: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_NO_REQUEST = RequestInfo(verb="create")


class OutOfRange(RPCError):
    """A value does not fit into the version that the client called.

    error        the error, which names the field
    in_response  whether the field is in the response
    """

    def __init__(self, error: ConversionError, *, in_response: bool) -> None:
        super().__init__("OUT_OF_RANGE", str(error))
        self.error = error
        self.in_response = in_response


def rpc_error(error: Exception, method: str, *, in_response: bool = False) -> RPCError:
    """Return the error for the client of a call. An error that is not meant for clients becomes
    INTERNAL without its message, and is logged.

    method       full name of the call, for the log
    in_response  whether the response was converted when the error was raised
    """
    if isinstance(error, RPCError):
        if error.code_name in CODES:
            return error
        _log.error("%s raised an RPCError with the unknown code %s", method, error.code_name)
        return RPCError("INTERNAL", error.message, error.details)
    if isinstance(error, ConversionError):
        return OutOfRange(error, in_response=in_response)
    if isinstance(error, TimeoutError):
        return RPCError("DEADLINE_EXCEEDED", "the call did not complete within its deadline")
    if isinstance(error, NotImplementedError):
        return RPCError("UNIMPLEMENTED", "the server does not implement this call")
    status = error.status if isinstance(error, StatusError) else status_of(error, _NO_REQUEST)
    if status is not None:
        code_name = _CODES_OF_STATUS.get(status["code"], "INTERNAL")
        if status.get("reason") == "AlreadyExists":
            code_name = "ALREADY_EXISTS"
        return RPCError(code_name, status.get("message") or "")
    _log.error("%s failed", method, exc_info=error)
    return RPCError("INTERNAL", _INTERNAL)
