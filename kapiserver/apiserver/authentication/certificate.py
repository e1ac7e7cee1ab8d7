"""Authenticates TLS client certificates: the common name is the user, organizations are groups, and
the hash of the certificate is the credential id. An attribute of the subject may hold the uid.

TLS has verified the certificate when the connection began; its expiry and its CA are checked for
each request, because they may change meanwhile. Mirrors pkg/authentication/request/x509 of
k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.client_authorities import ClientAuthorities
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.request import Certificate, Request
from kapiserver.apiserver.user import CREDENTIAL_ID, User, with_authenticated
from kapiserver.storage.concurrency.clock import Clock, SystemClock


class CertificateAuthenticator:
    """Recognizes client certificates with a common name.

    authorities         the CAs of users; None means all that TLS trusts
    accept_unknown      whether a certificate of unknown chain is accepted, as a resumed TLS session
                        may have it: if TLS trusts no other CAs than those of users
    """

    def __init__(
        self,
        authorities: ClientAuthorities | None = None,
        clock: Clock | None = None,
        *,
        accept_unknown: bool = True,
        metrics: AuthenticationMetrics | None = None,
    ) -> None:
        self._metrics = metrics or AuthenticationMetrics()
        self._authorities = authorities
        self._clock = clock or SystemClock()
        self._accept_unknown = accept_unknown

    def authenticate(self, request: Request) -> User | None:
        """Return the user whom the request's certificate names, or None. Raises
        InvalidCredentials."""
        certificate = request.certificate
        if certificate is None:
            return None
        now = self._clock.now()
        self._metrics.certificate_seconds.observe("", certificate.not_after - now)
        check_certificate(certificate, self._authorities, now, accept_unknown=self._accept_unknown)
        if not certificate.common_name:
            return None
        return User(
            name=certificate.common_name,
            uid=_uid(certificate),
            groups=with_authenticated(certificate.common_name, certificate.organizations),
            extra={CREDENTIAL_ID: (f"X509SHA256={certificate.sha256}",)},
        )


def check_certificate(
    certificate: Certificate,
    authorities: ClientAuthorities | None,
    now: float,
    *,
    accept_unknown: bool,
) -> None:
    """Return if a certificate has not expired and one of the CAs signed it. Raises
    InvalidCredentials."""
    if now > certificate.not_after:
        raise InvalidCredentials("x509: certificate has expired or is not yet valid")
    if authorities is None or (accept_unknown and not certificate.chain):
        return
    if not authorities.have_signed(certificate):
        raise InvalidCredentials("x509: certificate signed by unknown authority")


def _uid(certificate: Certificate) -> str:
    if len(certificate.uids) > 1:
        raise InvalidCredentials(
            f"expected 1 UID, but found multiple: [{' '.join(certificate.uids)}]"
        )
    if certificate.uids and not certificate.uids[0]:
        raise InvalidCredentials("UID cannot be an empty string")
    return certificate.uids[0] if certificate.uids else ""
