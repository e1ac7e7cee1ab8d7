"""The settings of HTTP/2, apart from what serves it, which is imported at the first connection."""

from __future__ import annotations

from msgspec import Struct

from kapiserver.apiserver.config import HTTPTOOLS, ServingSettings

MAX_STREAMS = 100
"""Concurrent streams of a connection by default, as in kube-apiserver."""


class Http2Settings(Struct, frozen=True, kw_only=True):
    """How HTTP/2 is served.

    max_streams     concurrent streams of a connection
    goaway_chance   the part of the requests after which the client is sent to another connection
    """

    max_streams: int = MAX_STREAMS
    goaway_chance: float = 0.0


def http2_settings(serving: ServingSettings) -> Http2Settings | None:
    """Return the settings of a server; None if it serves no HTTP/2, as with aiohttp."""
    if serving.disable_http2_serving or serving.http != HTTPTOOLS:
        return None
    return Http2Settings(
        max_streams=serving.http2_max_streams_per_connection or MAX_STREAMS,
        goaway_chance=serving.goaway_chance,
    )
