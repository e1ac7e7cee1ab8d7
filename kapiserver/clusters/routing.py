"""Which logical cluster a request is for, by its host or its path.

The name is compared with what a Cluster may be called, before anything is decoded: `/clusters/`
followed by an escaped slash, a dot or a capital letter is a path of the management cluster, which
does not have it. What follows the name is the path in the cluster, as the client sent it, and means
nothing to anybody else: no `..` leads out of it.

A client names a host twice: in the TLS handshake (SNI) and in the request. If TLS ends at a proxy,
only the request names the cluster; if a kubeconfig has `tls-server-name`, only the handshake does.
A connection that was opened for one cluster is not used for another one (decision 168).
"""

from __future__ import annotations

import re

from msgspec import Struct

from kapiserver.apiserver.errors import MisdirectedRequest
from kapiserver.apiserver.request import Request, parse_target
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.clusters.cluster_kind import NAME

PREFIX = "/clusters/"
_PATH = re.compile(rf"{PREFIX}({NAME})(?=[/?]|\Z)")


class Destination(Struct, frozen=True):
    """The name of a cluster, and the part of the path before the path in the cluster."""

    name: str
    prefix: str


class Router:
    """Finds the destination of requests.

    domain      the domain of which clusters are subdomains; "" if they are not
    """

    def __init__(self, domain: str) -> None:
        self._host = re.compile(rf"({NAME})\.{re.escape(domain)}\.?(?::\d+)?") if domain else None

    def destination(self, request: Request) -> Destination | None:
        """Return the destination of a request; None if it is for the management cluster. A host
        counts before the path. Raises MisdirectedRequest if the client has named one cluster in its
        TLS handshake and another one in the request."""
        if self._host is not None:
            tls, host = self._cluster_at(request.tls_host), self._cluster_at(_host_of(request))
            if tls and host and tls != host:
                raise MisdirectedRequest(f"the connection was opened for {request.tls_host}")
            if tls or host:
                return Destination(host or tls, "")
        path = _PATH.match(request.uri)
        return None if path is None else Destination(path[1], path[0])

    def _cluster_at(self, host: str) -> str:
        """Return the name of the cluster that has a host; "" if none has."""
        match = self._host.fullmatch(host.lower()) if self._host is not None else None
        return match[1] if match is not None else ""


def _host_of(request: Request) -> str:
    """Return the host that a request names, with its port. That of a target in absolute form
    counts, as RFC 9112 says."""
    if request.uri.startswith("/"):
        return request.header("Host")
    return request.uri.partition("://")[2].partition("/")[0]


def enter(request: Request, destination: Destination) -> None:
    """Make a request what it is for the cluster: its path begins after the prefix."""
    if not destination.prefix:
        return
    uri = request.uri.removeprefix(destination.prefix)
    request.uri = uri if uri.startswith("/") else f"/{uri}"
    target = parse_target(request.uri)
    request.path, request.query = target.path, target.query
    request.info = parse_request_info(request.method, target.path, target.query)
