"""How the server reaches other API servers: two sections of `config.py`."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class AggregationSettings(Struct, frozen=True, kw_only=True):
    """How the server reaches the extension API servers that APIServices name.

    proxy_client_cert_file      certificate to show to them, with `proxy_client_key_file`
    enable_aggregator_routing   connect to an endpoint of a Service instead of its cluster IP
    service_resolver            file with addresses of Services
    """

    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None
    enable_aggregator_routing: bool = False
    service_resolver: Path | None = None


class PeerSettings(Struct, frozen=True, kw_only=True):
    """How the servers of one store reach each other, when they serve different API versions.

    peer_ca_file        CAs of the peers' certificates; None: no request is passed on to a peer
    peer_advertise_ip   where peers reach this server, with `peer_advertise_port`; "" or 0 means the
                        bind address and the secure port
    """

    peer_ca_file: Path | None = None
    peer_advertise_ip: str = ""
    peer_advertise_port: int = 0
