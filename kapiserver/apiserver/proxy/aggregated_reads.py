"""Reads of the server itself from extension API servers, as those of metrics for autoscalers.

The host has authorized the user; the extension API server is told who it is, as with requests of
clients.
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

import orjson

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import APIService
from kapiserver.apiserver.aggregation.back_ends import BadTransport, user_headers
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import ServiceUnavailable
from kapiserver.apiserver.request import Query
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.status import status
from kapiserver.apiserver.user import User

SECONDS = 10.0
MAX_BYTES = 64 << 20
_NO_STATUS = "the extension API server sent an answer that is no Status"
_UNAVAILABLE = "the server is currently unable to handle the request"


async def read_aggregated(
    server: Server, user: User, api_service: APIService, info: RequestInfo, query: Query
) -> Tree:
    """Return the object or the list that a get or list answers. Raises ServiceUnavailable if the
    extension API server cannot be reached, and StatusError with the error that it answers."""
    if not api_service.is_available:
        raise ServiceUnavailable(_UNAVAILABLE)
    back_ends = server.back_ends()
    scope = ("namespaces", info.namespace) if info.namespace else ()
    parts = (*scope, info.resource, info.name if info.is_item else "", info.subresource)
    target = "/".join((api_service.path, *(quote(part, safe="*") for part in parts if part)))
    if query:
        target += f"?{urlencode(query, doseq=True)}"
    headers = [*user_headers(user), ("Accept", "application/json")]
    try:
        async with asyncio.timeout(SECONDS):
            back_end = await back_ends.locate(api_service)
            response = await back_ends.send(back_end, "GET", target, headers)
            try:
                body = await response.read(MAX_BYTES)
            finally:
                response.close()
        value = orjson.loads(body)
    except (OSError, ValueError, Unresolved, BadTransport):
        raise ServiceUnavailable(_UNAVAILABLE) from None
    if response.status == 200 and isinstance(value, dict):
        return value
    if not isinstance(value, dict) or value.get("kind") != "Status":
        value = status(code=response.status, message=_NO_STATUS, outcome="Failure")
    raise StatusError({**value, "code": response.status}, response.status)
