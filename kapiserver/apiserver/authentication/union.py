"""Who asks: a client certificate, a bearer token of the token file, or nobody.

Mirrors apiserver/pkg/authentication of k8s.io/apiserver and the token file of kube-apiserver.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.apiserver.authentication.user import ANONYMOUS, AUTHENTICATED, User
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Certificate, Request

if TYPE_CHECKING:
    from kapiserver.apiserver.authentication.service_accounts import ServiceAccountTokens


class BadTokenFile(Exception):
    """A line of the token file that is no token, user and uid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """How users are told apart."""

    tokens: Mapping[str, User] = field(default_factory=dict)
    anonymous: bool = True
    accounts: ServiceAccountTokens | None = None
    """Tokens of service accounts; None: none are believed."""

    async def authenticate(self, request: Request) -> User:
        """The user of a request, who may be a service account. Raises Unauthorized."""
        if self.accounts is not None and request.user is ANONYMOUS:
            token = bearer_token(request.header("Authorization"))
            if token and request.certificate is None and token not in self.tokens:
                user = await self.accounts.user_of(token)
                if user is not None:
                    return user
        return self.user_of(request)

    def user_of(self, request: Request) -> User:
        """The user of a request. Raises Unauthorized."""
        if request.user is not ANONYMOUS:
            return request.user
        if request.certificate is not None and request.certificate.common_name:
            return _of_certificate(request.certificate)
        token = bearer_token(request.header("Authorization"))
        if token:
            known = self.tokens.get(token)
            if known is None:
                raise Unauthorized
            return known
        if not self.anonymous:
            raise Unauthorized
        return ANONYMOUS


def _of_certificate(certificate: Certificate) -> User:
    return User(name=certificate.common_name, groups=(*certificate.organizations, AUTHENTICATED))


def bearer_token(header: str) -> str:
    """The token of an Authorization header, or ""."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def read_tokens(path: Path) -> dict[str, User]:
    """Read a file of `token,user,uid,"group1,group2"`. Raises BadTokenFile, OSError."""
    found: dict[str, User] = {}
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadTokenFile(f"{path}: {error}") from error
    for number, row in enumerate(rows, 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise BadTokenFile(
                f"{path}, line {number}: want at least 3 columns: token, user name, user uid"
            )
        token, name, uid = (cell.strip() for cell in row[:3])
        groups = [one.strip() for one in row[3].split(",")] if len(row) > 3 else []
        found[token] = User(name=name, uid=uid, groups=(*filter(None, groups), AUTHENTICATED))
    return found
