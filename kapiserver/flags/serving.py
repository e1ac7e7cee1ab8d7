"""The flags of the secure port, which every API server of this project has."""

from __future__ import annotations

import argparse

from kapiserver.flags.values import DEFAULTS, boolean, goaway_chance, port, seconds, stream_count


def add_address_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say where the server serves HTTPS."""
    group.add_argument(
        "--bind-address", default="127.0.0.1", metavar="IP",
        help="IP address on which to serve HTTPS (--secure-port). 0.0.0.0 or :: serves on all "
        "network interfaces. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--secure-port", type=port, default=6443, metavar="PORT",
        help="Port for HTTPS, from 0 to 65535; 0 picks a free port. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--permit-port-sharing", type=boolean, nargs="?", const=True,
        default=DEFAULTS.permit_port_sharing, metavar="BOOL",
        help="Listen on the ports together with other servers that have this flag "
        "(SO_REUSEPORT), so that a new server starts before the old one stops. Default: false.",
    )  # fmt: skip
    _add_http2_flags(group)


def _add_http2_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--disable-http2-serving", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=DEFAULTS.disable_http2_serving,
        help="Serve HTTPS by HTTP/1.1 only. Without it, clients that offer HTTP/2 get it. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--http2-max-streams-per-connection", type=stream_count, metavar="N",
        default=DEFAULTS.http2_max_streams_per_connection,
        help="Number of requests, up to 10000, that a client may have open on one connection of "
        "HTTP/2; 0 means 100. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--goaway-chance", type=goaway_chance, metavar="FRACTION",
        default=DEFAULTS.goaway_chance,
        help="Part of the requests of HTTP/2, from 0 to 0.02, after which the client is asked to "
        "open a new connection, so that clients spread over several servers behind a load "
        "balancer. Default: %(default)s.",
    )  # fmt: skip


def add_shutdown_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say how a server stops."""
    group.add_argument(
        "--shutdown-delay-duration", type=seconds, default=DEFAULTS.shutdown_delay_duration,
        metavar="DURATION",
        help="How long /readyz fails before a server that stops accepts no more connections, so "
        "that load balancers notice. Default: 0s.",
    )  # fmt: skip
    group.add_argument(
        "--shutdown-send-retry-after", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=DEFAULTS.shutdown_send_retry_after,
        help="After --shutdown-delay-duration, accept connections until the requests in flight "
        "have finished, and answer new requests with 429 and Retry-After. Default: false, that "
        "is, connections are refused.",
    )  # fmt: skip
    group.add_argument(
        "--shutdown-watch-termination-grace-period", type=seconds, metavar="DURATION",
        default=DEFAULTS.shutdown_watch_termination_grace_period,
        help="Over which time a server that stops ends its watches, at least 200 a second, so that "
        "their clients do not all come back at once. Default: 0s, that is, all end at once.",
    )  # fmt: skip
