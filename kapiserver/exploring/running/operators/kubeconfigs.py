"""The kubeconfigs of an operator's instances, each with a token or a client certificate of its own,
by which the server knows whose a request is.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import structs

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.apiserver.serving.kubeconfig import kubeconfig
from kapiserver.apiserver.serving.tls.credentials import write_client_certificate
from kapiserver.apiserver.serving.tls.settings import Pair
from kapiserver.exploring.planning.plans import CERTIFICATE
from kapiserver.testing.server import TestServer

NAMESPACE = "default"


class Kubeconfigs:
    """The kubeconfigs of one run after the other; used on the server's loop.

    plain_url   where clients with tokens connect without TLS, "" if they use TLS
    """

    def __init__(
        self, server: TestServer, user: str, groups: Sequence[str], plain_url: str
    ) -> None:
        self._server = server
        self._user = user
        self._groups = groups
        self._plain_url = plain_url
        self._paths: dict[int, Path] = {}
        self._numbers: dict[str, int] = {}
        """The numbers of instances, by Authorization headers and hashes of certificates."""
        self._expired: set[str] = set()
        self._tokens: list[str] = []
        self._credential = ""

    def begin(self, credential: str) -> None:
        """Begin a run. `credential` is TOKEN or CERTIFICATE if such credentials expire in it,
        else ""."""
        self._credential = credential
        self._paths.clear()
        self._numbers.clear()
        self._expired.clear()

    def end(self) -> None:
        """Make the server forget the tokens of the run."""
        for token in self._tokens:
            self._server.remove_token(token)
        self._tokens.clear()

    @property
    def newest(self) -> int:
        """The highest number of an instance, 0 without one."""
        return max(self._paths, default=0)

    @property
    def oldest(self) -> int:
        """The lowest number of an instance, 0 without one."""
        return min(self._paths, default=0)

    def number_of(self, http: HttpRequest) -> int:
        """Return the number of the instance that sends a request, 0 for others."""
        return self._numbers.get(_credential_of(http), 0)

    def has_expired(self, http: HttpRequest) -> bool:
        """Whether the token or the certificate of a request has expired."""
        return _credential_of(http) in self._expired

    def write(self, instance: int) -> Path:
        """Write the kubeconfig of a new instance; return its path, which no other has."""
        name = f"operator-{secrets.token_hex(4)}.kubeconfig"
        path = self._paths[instance] = self._server.kubeconfig.with_name(name)
        self._issue(instance)
        return path

    def renew(self) -> None:
        """Let all credentials expire, and write new ones into the files."""
        self._expired.update(self._numbers)
        for instance in self._paths:
            self._issue(instance)

    def _issue(self, instance: int) -> None:
        """Write the kubeconfig of an instance with a new credential."""
        if self._credential == CERTIFICATE:
            self._issue_certificate(instance)
        else:
            self._issue_token(instance)

    def _issue_token(self, instance: int) -> None:
        path, running = self._paths[instance], self._server.running
        token = self._server.add_token(self._user, self._groups)
        self._tokens.append(token)
        self._numbers[f"Bearer {token}"] = instance
        token_file = None
        if self._credential:  # client-go reads a token again only if it is in a file of its own
            token_file = path.with_suffix(".token")
            write_private(token_file, token.encode())
        text = kubeconfig(
            url=self._plain_url or running.url,
            credentials=None if self._plain_url else running.credentials,
            namespace=NAMESPACE,
            token=token,
            token_file=token_file,
        )
        write_private(path, text.encode())

    def _issue_certificate(self, instance: int) -> None:
        path, running = self._paths[instance], self._server.running
        assert running.credentials is not None
        pair = Pair(certificate=path.with_suffix(".crt"), key=path.with_suffix(".key"))
        write_client_certificate(pair, running.credentials.own_ca, self._user, self._groups)
        der = ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
        self._numbers[sha256(der).hexdigest()] = instance
        credentials = structs.replace(running.credentials, admin=pair)
        text = kubeconfig(url=running.url, credentials=credentials, namespace=NAMESPACE)
        write_private(path, text.encode())


def _credential_of(http: HttpRequest) -> str:
    """Return the Authorization header of a request, or the hash of its client certificate."""
    authorization = http.header("Authorization")
    if authorization or http.certificate is None:
        return authorization
    return http.certificate.sha256
