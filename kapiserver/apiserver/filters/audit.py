"""Gives every request an id, which the answer and the log carry.

Mirrors filters/audit_init.go of k8s.io/apiserver.
"""

from __future__ import annotations

import dataclasses
import uuid

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.respond import Answer

HEADER = "Audit-Id"
_MAX_LENGTH = 64


def give_audit_id(server: Server, after: Handler) -> Handler:
    """Take the client's id where it sent one, cut to 64 characters."""

    async def handle(request: Request) -> Answer:
        given = request.header(HEADER)[:_MAX_LENGTH]
        audit_id = given if given.isprintable() and given.isascii() else ""
        audit_id = audit_id or str(uuid.uuid4())
        answer = await after(dataclasses.replace(request, audit_id=audit_id))
        answer.headers.append((HEADER, audit_id))
        return answer

    return handle
