"""The flags of requests to kubelets: logs, exec, attach, port-forward, the proxy of nodes."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, names, port, positive_seconds


def add_kubelet_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    group.add_argument(
        "--kubelet-preferred-address-types", type=names, metavar="TYPE,...",
        default=DEFAULTS.kubelet_preferred_address_types,
        help="Types of a node's addresses, in the order in which the server looks for one to reach "
        f"the kubelet at. Default: {','.join(DEFAULTS.kubelet_preferred_address_types)}.",
    )  # fmt: skip
    group.add_argument(
        "--kubelet-certificate-authority", type=Path, metavar="FILE",
        help="PEM file of the CAs that signed the serving certificates of kubelets. "
        "Default: their certificates are not verified.",
    )  # fmt: skip
    group.add_argument(
        "--kubelet-client-certificate", type=Path, metavar="FILE",
        help="PEM file of the client certificate to show to kubelets. Needs --kubelet-client-key. "
        "Default: no client certificate.",
    )  # fmt: skip
    group.add_argument(
        "--kubelet-client-key", type=Path, metavar="FILE",
        help="PEM file of the private key of --kubelet-client-certificate; each flag needs the "
        "other. Default: no key.",
    )  # fmt: skip
    group.add_argument(
        "--kubelet-port", type=port, default=DEFAULTS.kubelet_port, metavar="PORT",
        help="Port of kubelets whose nodes report none. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--kubelet-timeout", type=positive_seconds, default=DEFAULTS.kubelet_timeout,
        metavar="DURATION",
        help="How long a kubelet may take to accept a connection, such as 10s. Default: 5s.",
    )  # fmt: skip
