"""The flags of TLS and of signed certificates."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.api.certificates.signer_rules import (
    KUBE_APISERVER_CLIENT,
    KUBE_APISERVER_CLIENT_KUBELET,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from kapiserver.apiserver.serving.tls.settings import VERSIONS
from kapiserver.flags.values import DEFAULTS, host_names, names, seconds

CLUSTER_SIGNERS = {
    "kubelet-serving": KUBELET_SERVING,
    "kubelet-client": KUBE_APISERVER_CLIENT_KUBELET,
    "kube-apiserver-client": KUBE_APISERVER_CLIENT,
    "legacy-unknown": LEGACY_UNKNOWN,
}
"""The names of signers in flags, and those in requests."""


def add_certificate_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of the certificates with which the server serves."""
    group.add_argument(
        "--cert-dir", type=Path, metavar="DIR",
        help="Directory of the server's own CA and of the certificates it signs; files that are "
        "missing, expire within 30 days or lack a name of the server are created. "
        "Default: certificates in --data-dir.",
    )  # fmt: skip
    group.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE",
        help="PEM file with the certificate to serve HTTPS with, followed by its intermediate "
        "certificates. Needs --tls-private-key-file. Default: a certificate in --cert-dir.",
    )  # fmt: skip
    group.add_argument(
        "--tls-private-key-file", type=Path, metavar="FILE",
        help="PEM file with the private key of --tls-cert-file; each flag needs the other. "
        "Default: a key in --cert-dir.",
    )  # fmt: skip
    group.add_argument(
        "--tls-san", type=host_names, default=(), metavar="NAME,...",
        help="More host names and IP addresses for the certificate in --cert-dir, such as those of "
        "a load balancer. Default: localhost, the host's name, kubernetes.default.svc, "
        "--bind-address and the IP of the Service kubernetes.",
    )  # fmt: skip
    group.add_argument(
        "--tls-sni-cert-key", action="append", default=[], metavar="CERT,KEY[:NAME,...]",
        help="PEM files of another certificate and its key, for clients that ask for one of these "
        "host names, such as www.example.com or *.example.com; without names, for the names in "
        "the certificate. May be repeated. Default: every client gets --tls-cert-file.",
    )  # fmt: skip
    group.add_argument(
        "--tls-min-version", default=DEFAULTS.tls_min_version, metavar="VERSION",
        help=f"Lowest version of TLS to accept: {', '.join(VERSIONS)}. The OpenSSL that Python "
        "uses may refuse the first two. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--tls-cipher-suites", type=names, default=(), metavar="NAME,...",
        help="Cipher suites to offer up to TLS 1.2, by Go's names, such as "
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256. TLS 1.3 always offers its own. "
        "Default: those with forward secrecy and authenticated encryption.",
    )  # fmt: skip


def add_signing_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of the certificates that the server signs."""
    group.add_argument(
        "--cluster-signing-cert-file", type=Path, metavar="FILE",
        help="PEM file with the CA certificate that signs approved CertificateSigningRequests. "
        "Needs --cluster-signing-key-file. Default: the CA in --cert-dir.",
    )  # fmt: skip
    group.add_argument(
        "--cluster-signing-key-file", type=Path, metavar="FILE",
        help="PEM file with the private key of --cluster-signing-cert-file; each flag needs the "
        "other. Default: the key of the CA in --cert-dir.",
    )  # fmt: skip
    for name, signer in CLUSTER_SIGNERS.items():
        flag = f"--cluster-signing-{name}"
        group.add_argument(
            f"{flag}-cert-file", type=Path, metavar="FILE",
            help=f"PEM file with the CA certificate of the signer {signer}. If any signer has its "
            "own CA, those without do not sign. Excludes --cluster-signing-cert-file. "
            "Default: no CA of its own.",
        )  # fmt: skip
        group.add_argument(
            f"{flag}-key-file", type=Path, metavar="FILE",
            help=f"PEM file with the private key of {flag}-cert-file; each flag needs the other. "
            "Default: no key.",
        )  # fmt: skip
    group.add_argument(
        "--cluster-signing-duration", type=seconds, metavar="DURATION",
        default=DEFAULTS.cluster_signing_duration,
        help="Maximum validity of signed certificates; a request may ask for less. "
        "Default: 8760h.",
    )  # fmt: skip
