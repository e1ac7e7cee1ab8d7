"""The clock of a test server as a path of its API, for the page at /ui.

GET /kapiserver/clock answers with the time; POST moves it forward, freezes it or lets it flow. As
for every path, the authorizer decides who may.
"""

from __future__ import annotations

from typing import Any

from kapiserver.apiserver.context import PathHandler, Server
from kapiserver.apiserver.errors import BadRequest, MethodNotAllowed
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.codecs import json
from kapiserver.codecs.errors import CodecError
from kapiserver.testing.determinism.clock import TestClock

CLOCK_PATH = "/kapiserver/clock"
MAX_BODY = 4096
MAX_SECONDS = 366 * 24 * 3600.0
"""The longest way of one request."""


def clock_handler(clock: TestClock) -> PathHandler:
    """Return the handler of CLOCK_PATH. The body of a POST is a JSON object: `advance` with seconds
    or `freeze` with true or false, or both; the time is frozen or resumed first."""

    async def serve_clock(_: Server, request: Request) -> Response:
        if request.method == "POST":
            seconds, freeze = _change(await _read_body(request))
            if freeze is not None:
                (clock.freeze if freeze else clock.resume)()
            if seconds:
                await clock.advance_async(seconds)
        elif request.method != "GET":
            raise MethodNotAllowed
        state = {"now": clock.now(), "isFrozen": clock.frozen}
        return Response(body=json.encode_value(state) + b"\n")

    return serve_clock


async def _read_body(request: Request) -> dict[str, Any]:
    try:
        body = json.decode_value(await request.read_body(MAX_BODY))
    except CodecError as error:
        raise BadRequest(str(error)) from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _change(body: dict[str, Any]) -> tuple[float, bool | None]:
    """Return the seconds and whether to freeze; None leaves that as it is. Raises BadRequest."""
    seconds, freeze = body.get("advance", 0), body.get("freeze")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_SECONDS:
        raise BadRequest(f"advance must be a number of seconds from 0 to {MAX_SECONDS:g}")
    if freeze is not None and not isinstance(freeze, bool):
        raise BadRequest("freeze must be true or false")
    return float(seconds), freeze
