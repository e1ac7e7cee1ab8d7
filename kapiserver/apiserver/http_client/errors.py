"""Why a request to another server failed, in the words of Go's client. Knows no HTTP library."""

from __future__ import annotations

import errno
import os
import ssl
from typing import NamedTuple


class Disconnected(ConnectionError):
    """The server closed the connection before its response was complete."""


class ResponseTooLarge(ValueError):
    """The response has more bytes than the caller takes."""


class UnknownHost(OSError):
    """The name of the host cannot be resolved."""


class AddressNotAllowed(ValueError):
    """The client does not connect to this address."""


class ConnectTimeout(TimeoutError):
    """The server did not accept the connection in time."""


class HostPort(NamedTuple):
    """The host and port of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_VERIFY_ERRORS = {
    10: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
    21: "x509: certificate signed by unknown authority",
}
"""Go's messages by OpenSSL's verification error code."""
_PLAIN_HTTP = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons for a server that answers a TLS handshake in plain HTTP."""
_CONNECT_ERRORS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ETIMEDOUT: "connection timed out",
}


CONNECTING = "while waiting for connection"
"""The note of a cancellation that ended a request before its connection was open."""


def was_connecting(error: TimeoutError) -> bool:
    """Report whether the time limit of a caller ended a request before its connection was open."""
    return CONNECTING in getattr(error.__cause__, "__notes__", ())


def error_text(error: Exception, host_port: HostPort, *, name: str = "") -> str:
    """Return Go's message for an error of a request to a server. `name` is the name that was looked
    up, if it is not that of the host."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = _VERIFY_ERRORS.get(error.verify_code, error)
        return f"tls: failed to verify certificate: {text}"
    if isinstance(error, ssl.SSLError) and getattr(error, "reason", "") in _PLAIN_HTTP:
        return "http: server gave HTTP response to HTTPS client"
    if isinstance(error, UnknownHost):
        return f"dial tcp: lookup {name or host_port.host}: no such host"
    if isinstance(error, ConnectTimeout):
        return f"dial tcp {host_port}: i/o timeout"
    if isinstance(error, Disconnected):
        return "EOF"
    if isinstance(error, OSError) and error.errno in _CONNECT_ERRORS:
        return f"dial tcp {host_port}: connect: {_CONNECT_ERRORS[error.errno]}"
    if isinstance(error, ConnectionResetError):
        return f"read tcp {host_port}: read: {os.strerror(errno.ECONNRESET).lower()}"
    return str(error) or type(error).__name__
