"""Authenticates TLS client certificates: the common name is the user, organizations are groups, and
the hash of the certificate is the credential id.

TLS has verified the certificate against the client CAs. Mirrors
pkg/authentication/request/x509 of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.user import AUTHENTICATED, CREDENTIAL_ID, User
from kapiserver.apiserver.request import Request


class CertificateAuthenticator:
    """Recognizes client certificates with a common name."""

    def authenticate(self, request: Request) -> User | None:
        """Return the user whom the request's certificate names, or None."""
        certificate = request.certificate
        if certificate is None or not certificate.common_name:
            return None
        groups = (*certificate.organizations, AUTHENTICATED)
        extra = {CREDENTIAL_ID: (f"X509SHA256={certificate.sha256}",)}
        return User(name=certificate.common_name, groups=groups, extra=extra)
