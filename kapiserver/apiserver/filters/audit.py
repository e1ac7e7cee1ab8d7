"""Gives every request an id, which the answer and the log carry.

Mirrors filters/audit_init.go of k8s.io/apiserver.
"""

from __future__ import annotations

import random

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

HEADER = "Audit-Id"
_MAX_LENGTH = 64


def give_audit_id(server: Server, next_handler: Handler) -> Handler:
    """Take the client's id where it sent one, cut to 64 characters."""

    async def handle(request: Request) -> AnyResponse:
        given = request.header(HEADER)[:_MAX_LENGTH]
        audit_id = given if given.isprintable() and given.isascii() else ""
        audit_id = request.audit_id = audit_id or _new_id()
        answer = await next_handler(request)
        answer.headers.append((HEADER, audit_id))
        return answer

    return handle


def _new_id() -> str:
    """A random uid (version 4); it names a request and guards nothing, so any randomness does."""
    text = f"{random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
