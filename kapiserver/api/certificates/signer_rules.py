"""The rules of Kubernetes' own signers: subject, alternative names and usages of a request.

The cryptography package is loaded when first needed. Mirrors helpers.go of pkg/apis/certificates
and signer.go of pkg/controller/certificates/signer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kapiserver.api.certificates import pem
from kapiserver.api.certificates.keys import public_key_of
from kapiserver.api.types import Tree

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest, GeneralName

KUBE_APISERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
KUBE_APISERVER_CLIENT_KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

_NODES_GROUP = "system:nodes"
_NODE_PREFIX = "system:node:"
_MLDSA = tuple(bytes.fromhex(f"060960864801650304031{number}") for number in (1, 2, 3))
"""Object identifiers of the three ML-DSA algorithms, in DER."""
_ALGORITHM_END = 20
"""The algorithm of a public key ends before this byte of its DER encoding."""
_OPTIONAL_CLIENT_USAGES = ("digital signature", "key encipherment")
_MLDSA_REFUSED_USAGES = (
    "data encipherment", "decipher only", "encipher only", "key agreement", "key encipherment",
)  # fmt: skip
_MLDSA_SIGNING_USAGES = ("cert sign", "content commitment", "crl sign", "digital signature")


class InvalidRequest(ValueError):
    """The signer refuses a request; the message is that of kube-controller-manager."""


class RequestContent(Struct, frozen=True, kw_only=True):
    """The parts of a signing request that the rules and the signer read.

    common_name     the last one of the subject, as Go reads it; "" if there is none
    names           DNS names, mail addresses, IP addresses and URIs, in this order
    """

    parsed: CertificateSigningRequest
    common_name: str
    organizations: tuple[str, ...]
    names: tuple[GeneralName, ...]
    usages: tuple[str, ...]


def read_request(spec: Tree) -> RequestContent:
    """Return the content of the spec of a CertificateSigningRequest. Raises InvalidRequest."""
    from cryptography import x509

    try:
        text = base64.b64decode(spec.get("request") or "").decode("latin-1")
        parsed = pem.parse_signing_request(text)
        names = _alternative_names(parsed)
        common_names = pem.subject_values(parsed, pem.COMMON_NAME)
        organizations = pem.subject_values(parsed, pem.ORGANIZATION)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise InvalidRequest(f"unable to parse csr: {error}") from None
    return RequestContent(
        parsed=parsed,
        common_name=common_names[-1] if common_names else "",
        organizations=tuple(organizations),
        names=names,
        usages=tuple(spec.get("usages") or ()),
    )


def _alternative_names(request: CertificateSigningRequest) -> tuple[GeneralName, ...]:
    from cryptography import x509

    try:
        extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    kinds = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    return tuple(name for kind in kinds for name in extension.value if isinstance(name, kind))


def check_request(signer: str, request: RequestContent) -> None:
    """Raise InvalidRequest if the signer does not sign such a request."""
    _RULES[signer](request)


def _check_client(request: RequestContent) -> None:
    for usage in request.usages:
        if usage not in ("client auth", *_OPTIONAL_CLIENT_USAGES):
            raise InvalidRequest(f"invalid usage for client certificate: {usage}")
    if "client auth" not in request.usages:
        raise InvalidRequest("missing required usage for client certificate: client auth")
    _check_mldsa(request)


def _check_kubelet_client(request: RequestContent) -> None:
    from cryptography import x509

    _check_organization(request)
    for kind, noun in (
        (x509.DNSName, "DNS"),
        (x509.RFC822Name, "Email"),
        (x509.IPAddress, "IP"),
        (x509.UniformResourceIdentifier, "URI"),
    ):
        _check_absent(request, kind, noun)
    _check_common_name(request)
    _check_usages(request, "client auth")


def _check_kubelet_serving(request: RequestContent) -> None:
    from cryptography import x509

    _check_organization(request)
    if not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in request.names):
        raise InvalidRequest("DNS or IP subjectAltName is required")
    _check_absent(request, x509.RFC822Name, "Email")
    _check_absent(request, x509.UniformResourceIdentifier, "URI")
    _check_usages(request, "server auth")
    _check_common_name(request)


def _check_organization(request: RequestContent) -> None:
    if request.organizations != (_NODES_GROUP,):
        raise InvalidRequest(f"subject organization is not {_NODES_GROUP}")


def _check_common_name(request: RequestContent) -> None:
    if not request.common_name.startswith(_NODE_PREFIX):
        raise InvalidRequest(f"subject common name does not begin with {_NODE_PREFIX}")


def _check_absent(request: RequestContent, kind: type[GeneralName], noun: str) -> None:
    if any(isinstance(name, kind) for name in request.names):
        raise InvalidRequest(f"{noun} subjectAltNames are not allowed")


def _check_usages(request: RequestContent, purpose: str) -> None:
    required = {"digital signature", purpose}
    if set(request.usages) not in (required, required | {"key encipherment"}):
        text = " ".join(sorted(required | {"key encipherment"}))
        raise InvalidRequest(f"usages did not match [{text}]")
    _check_mldsa(request)


def _check_mldsa(request: RequestContent) -> None:
    """Raise InvalidRequest if the key is an ML-DSA key, which only signs, and a usage is not for
    such keys."""
    algorithm = public_key_of(request.parsed)[:_ALGORITHM_END]
    if not any(oid in algorithm for oid in _MLDSA):
        return
    problems = [
        f"usage {usage} cannot be used with an ML-DSA signed certificate request"
        for usage in sorted(set(request.usages))
        if usage in _MLDSA_REFUSED_USAGES
    ]
    if not set(request.usages).intersection(_MLDSA_SIGNING_USAGES):
        problems.append(f"usages must contain at least one of [{' '.join(_MLDSA_SIGNING_USAGES)}]")
    if problems:
        text = "\n".join(problems)
        raise InvalidRequest(f"validating usages for ml-dsa key: {text}")


def _check_nothing(_request: RequestContent) -> None:
    pass


_RULES: Mapping[str, Callable[[RequestContent], None]] = {
    KUBE_APISERVER_CLIENT: _check_client,
    KUBE_APISERVER_CLIENT_KUBELET: _check_kubelet_client,
    KUBELET_SERVING: _check_kubelet_serving,
    LEGACY_UNKNOWN: _check_nothing,
}

SIGNERS: Sequence[str] = tuple(_RULES)
"""The signers of kube-controller-manager."""
