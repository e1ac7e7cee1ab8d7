"""Assigns every request an audit id, for the response header and the log.

Mirrors filters/audit_init.go of k8s.io/apiserver.
"""

from __future__ import annotations

from random import getrandbits

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

HEADER = "Audit-Id"
_MAX_LENGTH = 64


def assign_audit_id(server: Server, next_handler: Handler) -> Handler:
    """Use the id that the client sent, cut to 64 characters, or a new one."""

    async def handle(request: Request) -> AnyResponse:
        client_id = request.header(HEADER)[:_MAX_LENGTH]
        audit_id = client_id if client_id.isprintable() and client_id.isascii() else ""
        audit_id = request.audit.id = audit_id or _new_id()
        response = await next_handler(request)
        response.headers.append((HEADER, audit_id))
        return response

    return handle


def _new_id() -> str:
    """Return a random UUID (version 4). It is no secret, so that it needs no call of the kernel."""
    text = f"{getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
