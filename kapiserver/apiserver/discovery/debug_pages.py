"""Serves /debug/api_priority_and_fairness/, the pages of flow control."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.flowcontrol.dumps import DUMPS
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, page_not_found, text_response

_PREFIX = "/debug/api_priority_and_fairness/"


async def serve_debug(server: Server, request: Request) -> AnyResponse:
    """Return a page of flow control; 404 if it is off, and for any other path."""
    dump = DUMPS.get(request.path.removeprefix(_PREFIX))
    if server.flow_control is None or dump is None:
        return page_not_found()
    return text_response(dump(server.flow_control, request.query, server.clock))
