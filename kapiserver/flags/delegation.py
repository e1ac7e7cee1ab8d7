"""The flags with which an extension API server asks its host cluster about users and rights."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.authentication import add_client_ca_flag, add_request_header_flags
from kapiserver.flags.values import boolean, names, seconds

_ALLOWED_PATHS = ("/healthz", "/readyz", "/livez")
_TTL = 10.0


def add_delegation_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of delegated authentication and authorization."""
    group.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="kubeconfig of the cluster that this server belongs to. It is asked about bearer "
        "tokens and rights, and names the CAs of users and front proxies. Default: the files of "
        "the pod in which the server runs; outside of pods, the server stands alone.",
    )  # fmt: skip
    _add_authentication(group)
    _add_authorization(group)


def _add_authentication(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--authentication-kubeconfig", type=Path, metavar="FILE",
        help="kubeconfig with the rights to create tokenreviews.authentication.k8s.io and to read "
        "the ConfigMap extension-apiserver-authentication. Default: --kubeconfig.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-skip-lookup", type=boolean, nargs="?", const=True, default=False,
        metavar="BOOL",
        help="Do not look up the CAs of users and front proxies in the cluster. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-tolerate-lookup-failure", type=boolean, nargs="?", const=True,
        default=False, metavar="BOOL",
        help="Start even if the CAs cannot be looked up; until they can, requests with "
        "certificates of the cluster are refused. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--authentication-token-webhook-cache-ttl", type=seconds, default=_TTL, metavar="DURATION",
        help="How long the cluster's answer about a token is used. Default: 10s.",
    )  # fmt: skip
    add_client_ca_flag(group)
    add_request_header_flags(group)


def _add_authorization(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--authorization-kubeconfig", type=Path, metavar="FILE",
        help="kubeconfig with the right to create subjectaccessreviews.authorization.k8s.io. "
        "Default: --kubeconfig.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-always-allow-paths", type=names, default=_ALLOWED_PATHS,
        metavar="PATH,...",
        help="Paths that everybody may request, without asking the cluster; one that ends with * "
        f"stands for all that begin so. Default: {','.join(_ALLOWED_PATHS)}.",
    )  # fmt: skip
    for decision in ("authorized", "unauthorized"):
        group.add_argument(
            f"--authorization-webhook-cache-{decision}-ttl", type=seconds, default=_TTL,
            metavar="DURATION",
            help=f"How long the cluster's answer that a request is {decision} is used. "
            "Default: 10s.",
        )  # fmt: skip
