"""Serves the paths below /debug: profiles, and the pages of flow control."""

from __future__ import annotations

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.debugging.pprof import serve_profile
from kapiserver.apiserver.flowcontrol.dumps import DUMPS
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, page_not_found, text_response

_FLOW_CONTROL = "/debug/api_priority_and_fairness/"
_PROFILES = "/debug/pprof"


async def serve_debug(server: Server, request: Request) -> AnyResponse:
    """Return a profile or a page of flow control; 404 if the part is off, and for any other
    path."""
    path, slash, name = request.path.partition(_PROFILES)
    if slash and not path and name[:1] in ("", "/"):
        if not server.config.debugging.profiling:
            return page_not_found()
        return await serve_profile(request, name)
    dump = DUMPS.get(request.path.removeprefix(_FLOW_CONTROL))
    if server.flow_control is None or dump is None:
        return page_not_found()
    return text_response(dump(server.flow_control, request.query, server.clock))
