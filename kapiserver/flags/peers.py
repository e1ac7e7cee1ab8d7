"""The flags of peers: how the servers of one store reach each other."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, port


def add_peer_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    group.add_argument(
        "--peer-ca-file", type=Path, metavar="FILE",
        help="PEM file of the CAs that sign the certificates of the other servers of the store. "
        "With it, requests for resources that this server does not serve, but another one does, "
        "are passed on to that one, and discovery shows what all of them serve. Needs "
        "--proxy-client-cert-file, and etcd or PostgreSQL as the store. It is read again when it "
        "changes. Default: no request is passed on.",
    )  # fmt: skip
    group.add_argument(
        "--peer-advertise-ip", default=DEFAULTS.peer_advertise_ip, metavar="IP",
        help="IP address at which the other servers of the store reach this one; needs "
        "--peer-advertise-port. Default: that of --bind-address.",
    )  # fmt: skip
    group.add_argument(
        "--peer-advertise-port", type=port, metavar="PORT",
        default=DEFAULTS.peer_advertise_port,
        help="Port at which the other servers of the store reach this one; needs "
        "--peer-advertise-ip. Default: 0, which means that of --secure-port.",
    )  # fmt: skip
