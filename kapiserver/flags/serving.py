"""The flags of the secure port, which every API server of this project has."""

from __future__ import annotations

import argparse

from kapiserver.flags.values import port


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
