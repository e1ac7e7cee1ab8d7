"""Assigns every request an audit id, for the response header, which `filters/headers.py` adds, and
the log.

Mirrors filters/audit_init.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

AUDIT_ID = "Audit-Id"
_MAX_LENGTH = 64


def assign_audit_id(server: Server, next_handler: Handler) -> Handler:
    """Use the id that the client sent, cut to 64 characters, or a new one."""
    # Draws bits without a call of the kernel, and leaves the state of `random` to other programs.
    # Each server has its own, since workers are forked.
    new_bits = Random().getrandbits

    def handle(request: Request) -> Awaitable[AnyResponse]:
        client_id = request.header(AUDIT_ID)[:_MAX_LENGTH]
        if client_id.isprintable() and client_id.isascii():
            request.audit.id = client_id
        request.audit.id = request.audit.id or _random_uuid(new_bits(128))
        return next_handler(request)

    return handle


def _random_uuid(bits: int) -> str:
    """Return a UUID (version 4) of 128 random bits."""
    text = bits.to_bytes(16, "big").hex()  # half of the time of an f-string
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
