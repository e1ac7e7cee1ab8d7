"""Checks whether an extension API server answers: the last step of the condition Available.

It asks for a document that each must serve. Redirects are not followed. Mirrors the end of
remote_available_controller.go of k8s.io/kube-aggregator.
"""

from __future__ import annotations

import asyncio

from kapiserver.apiserver.aggregation.api_services import APIService
from kapiserver.apiserver.aggregation.back_ends import (
    AGGREGATOR,
    BackEnd,
    BackEnds,
    BadTransport,
    user_headers,
)
from kapiserver.apiserver.aggregation.service_resolver import Unresolved
from kapiserver.apiserver.http_client.errors import CONNECTING, error_text, was_connecting

ATTEMPTS = 5
"""Attempts of one check, each of which may reach another endpoint; one success is enough."""
SECONDS = 5.0
"""The time of one attempt."""
_CANCELED = "net/http: request canceled"
_TIMED_OUT = "(Client.Timeout exceeded while awaiting headers)"


async def discovery_failure(back_ends: BackEnds, api_service: APIService) -> str:
    """Return why the extension API server of an APIService does not serve its group-version, in
    kube-aggregator's words, or "" if it does. After a failed attempt the others run at the same
    time."""
    failure = await _attempt(back_ends, api_service)
    if not failure:
        return ""
    others = [asyncio.create_task(_attempt(back_ends, api_service)) for _ in range(ATTEMPTS - 1)]
    try:
        for attempt in asyncio.as_completed(others):
            failure = await attempt
            if not failure:
                break
    finally:
        for task in others:
            task.cancel()
    return failure


async def _attempt(back_ends: BackEnds, api_service: APIService) -> str:
    """Return why an attempt failed, or ""."""
    try:
        back_end = await back_ends.locate(api_service)
    except (Unresolved, BadTransport) as error:
        return str(error)
    url = back_end.url(api_service.path)
    try:
        async with asyncio.timeout(SECONDS):
            status = await _status(back_ends, back_end, api_service.path)
    except TimeoutError as error:
        text = f"{_CANCELED} {CONNECTING}" if was_connecting(error) else _CANCELED
        return f'failing or missing response from {url}: Get "{url}": {text} {_TIMED_OUT}'
    except (OSError, ValueError) as error:
        text = error_text(error, back_end.host_port)
        return f'failing or missing response from {url}: Get "{url}": {text}'
    if not 200 <= status < 300:
        return f"failing or missing response from {url}: bad status from {url}: {status}"
    return ""


async def _status(back_ends: BackEnds, back_end: BackEnd, path: str) -> int:
    headers = [*user_headers(AGGREGATOR), ("Accept-Encoding", "gzip")]
    response = await back_ends.send(back_end, "GET", path, headers)
    try:
        async for _ in response.pieces():  # so that the connection can be used again
            pass
        return response.status
    finally:
        response.close()
