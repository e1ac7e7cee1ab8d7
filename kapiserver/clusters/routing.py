"""Which logical cluster a request is for, by its path or its host.

The name is compared with what a Cluster may be called, before anything is decoded: `/clusters/`
followed by an escaped slash, a dot or a capital letter is a path of the management cluster, which
does not have it. What follows the name is the path in the cluster, as the client sent it, and means
nothing to anybody else: no `..` leads out of it.
"""

from __future__ import annotations

import re

from msgspec import Struct

from kapiserver.apiserver.request import Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info

PREFIX = "/clusters/"
_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PATH = re.compile(rf"{PREFIX}({_NAME})(?=[/?]|\Z)")


class Destination(Struct, frozen=True):
    """The name of a cluster, and the part of the path before the path in the cluster."""

    name: str
    prefix: str


class Router:
    """Finds the destination of requests.

    domain      the domain of which clusters are subdomains; "" if they are not
    """

    def __init__(self, domain: str) -> None:
        self._host = re.compile(rf"({_NAME})\.{re.escape(domain)}\.?(?::\d+)?") if domain else None

    def destination(self, request: Request) -> Destination | None:
        """Return the destination of a request; None if it is for the management cluster. The host
        counts before the path."""
        if self._host is not None:
            host = self._host.fullmatch(request.header("Host").lower())
            if host is not None:
                return Destination(host[1], "")
        path = _PATH.match(request.uri)
        return None if path is None else Destination(path[1], path[0])


def enter(request: Request, destination: Destination) -> None:
    """Make a request what it is for the cluster: its path begins after the prefix."""
    if not destination.prefix:
        return
    uri = request.uri.removeprefix(destination.prefix)
    request.uri = uri if uri.startswith("/") else f"/{uri}"
    target = parse_target(request.uri)
    request.path, request.query = target.path, target.query
    request.info = parse_request_info(request.method, target.path, target.query)
