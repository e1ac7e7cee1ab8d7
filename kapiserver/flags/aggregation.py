"""The flags of API aggregation: how the server reaches extension API servers."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import boolean


def add_aggregation_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    group.add_argument(
        "--proxy-client-cert-file", type=Path, metavar="FILE",
        help="PEM file of the client certificate to show to extension API servers, which believe "
        "it who the user is. Needs --proxy-client-key-file. It is read again when it changes. "
        "Default: no certificate.",
    )  # fmt: skip
    group.add_argument(
        "--proxy-client-key-file", type=Path, metavar="FILE",
        help="PEM file of the private key of --proxy-client-cert-file; each flag needs the other. "
        "Default: no key.",
    )  # fmt: skip
    group.add_argument(
        "--enable-aggregator-routing", type=boolean, nargs="?", const=True, default=False,
        metavar="BOOL",
        help="Connect to the endpoints of the Service of an extension API server instead of its "
        "cluster IP, for machines without kube-proxy. Default: false.",
    )  # fmt: skip
    add_service_resolver_flag(group)


def add_service_resolver_flag(group: argparse._ArgumentGroup) -> None:
    """Add the flag of addresses of Services."""
    group.add_argument(
        "--service-resolver", type=Path, metavar="FILE",
        help="YAML or JSON file with a map from NAMESPACE/NAME of the Service of an extension API "
        "server (or, if this is one, of a webhook), or NAMESPACE/NAME:PORT, to HOST:PORT, where it "
        "is reached. Such a Service and its endpoints need not exist. Default: no file.",
    )  # fmt: skip
