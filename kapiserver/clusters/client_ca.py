"""The CAs that sign client certificates of users of logical clusters.

One root is made for the store, and each cluster has a CA of its own that the root has signed. TLS
verifies a certificate before it is known which cluster the connection is for, so the port trusts
the root alone, and a client shows the CA of its cluster with its certificate. Then the
authenticator of a cluster looks for this CA in the chain that TLS has verified, and that of the
management cluster for its own CAs: a certificate counts in the cluster that has signed it, and
nowhere else (decision 190). The root signs nothing but these CAs, which sign no others.

The root is in a Secret of the management cluster, and the CA of a cluster in its Secret of
credentials. The cryptography package is loaded when first needed.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from msgspec import Struct

from kapiserver.api.certificates.signer_rules import (
    KUBE_APISERVER_CLIENT,
    KUBE_APISERVER_CLIENT_KUBELET,
    RequestContent,
)
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.serving.tls.credentials import authority_builder, subject_name
from kapiserver.controllers.certificates.certificate_authority import (
    CertificateAuthority,
    parse_authority,
)
from kapiserver.controllers.loop.writing import create_missing

ROOT_NAMESPACE, ROOT_SECRET = "kube-system", "kapiserver-clusters-client-ca"
"""The Secret of the root."""
RENEWAL = timedelta(days=365)
"""A CA that expires sooner is replaced when its cluster opens."""
_CERTIFICATE, _KEY = "tls.crt", "tls.key"

_log = logging.getLogger(__name__)


class PemAuthority(Struct, frozen=True):
    """PEM of a CA and of its key."""

    certificate: bytes
    key: bytes
    signers: Sequence[str] = (KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET)

    def sign(self, request: RequestContent, duration: timedelta, now: datetime) -> bytes:
        """Return a client certificate for a request, and then the CA, because TLS trusts the root
        alone. Raises InvalidRequest."""
        return self.parse().sign(request, duration, now) + self.certificate

    def parse(self) -> CertificateAuthority:
        """Return the CA. Raises ValueError."""
        return parse_authority(self.certificate, self.key)


def new_root(now: datetime) -> PemAuthority:
    """Return a new root."""
    return _new(f"kapiserver-clusters-client-ca-{token_hex(8)}", None, now)


def new_client_ca(uid: str, root: PemAuthority, now: datetime) -> PemAuthority:
    """Return a new CA of the cluster with a uid. Raises ValueError for an unusable root."""
    return _new(f"kapiserver-client-ca-{uid}", root, now)


def _new(name: str, root: PemAuthority | None, now: datetime) -> PemAuthority:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, subject = ec.generate_private_key(ec.SECP256R1()), subject_name(name)
    builder = authority_builder(subject, key, now, path_length=0 if root else 1)
    if root is None:
        certificate = builder.issuer_name(subject).sign(key, hashes.SHA256())
    else:
        certificate = root.parse().sign_authority(builder)
    return PemAuthority(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def is_usable(client_ca: PemAuthority | None, root: PemAuthority, now: datetime) -> bool:
    """Return whether a root has signed a CA, which will not expire soon."""
    from cryptography.exceptions import InvalidSignature

    if client_ca is None:
        return False
    try:
        certificate = client_ca.parse().certificate
        certificate.verify_directly_issued_by(root.parse().certificate)
    except (TypeError, ValueError, InvalidSignature):
        return False
    return certificate.not_valid_after_utc > now + RENEWAL


async def ensure_root(secrets: ResourceClient) -> PemAuthority | None:
    """Return the root of the store, which the first server makes; None if its Secret is unusable,
    which is logged. `secrets` are those of ROOT_NAMESPACE. Raises StatusError."""
    try:
        secret = await secrets.get(ROOT_SECRET)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
        await create_missing(secrets, _root_secret(new_root(datetime.now(UTC))))
        secret = await secrets.get(ROOT_SECRET)
    data = secret.get("data") or {}
    try:
        root = PemAuthority(base64.b64decode(data[_CERTIFICATE]), base64.b64decode(data[_KEY]))
        root.parse()
    except (KeyError, ValueError) as error:
        text = "the Secret %s/%s is unusable, logical clusters sign no client certificates: %s"
        _log.error(text, ROOT_NAMESPACE, ROOT_SECRET, error)
        return None
    return root


def _root_secret(root: PemAuthority) -> Tree:
    values = {_CERTIFICATE: root.certificate, _KEY: root.key}
    return {
        "metadata": {"name": ROOT_SECRET, "namespace": ROOT_NAMESPACE},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(value).decode() for name, value in values.items()},
    }
