"""The credentials that the user of a kubeconfig gives a client: certificate, token or password.

Mirrors rest.Config of client-go.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.webhooks.http_client import WebhookFailed

FileStates = Sequence[tuple[int, int] | None]
"""Modification time and inode of files; None for a missing file."""


_CERTIFICATE_FILES = ("client-certificate", "client-key")


class ClientCredentials:
    """The credentials of one user of a kubeconfig file, whose relative paths begin at `folder`."""

    def __init__(self, user: Tree, folder: FilePath) -> None:
        self._user = user
        self._folder = folder
        self._has_files = any(user.get(name) for name in _CERTIFICATE_FILES)

    def headers(self) -> Mapping[str, str]:
        """Return the Authorization header, if any. Reads a token file each time. Raises
        WebhookFailed."""
        user = self._user
        token = user.get("token") or ""
        if user.get("tokenFile"):
            try:
                token = (self._folder / user["tokenFile"]).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise WebhookFailed(f"failed to read token file: {error}") from None
        if token:
            return {"Authorization": f"Bearer {token}"}
        if user.get("username"):
            pair = f"{user['username']}:{user.get('password') or ''}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {}

    def file_states(self) -> FileStates:
        """Return the states of the certificate files, which change when the files do."""
        return file_states(self._user, _CERTIFICATE_FILES, self._folder) if self._has_files else ()

    def load_certificate(self, context: ssl.SSLContext) -> None:
        """Load the client certificate, if any, into a TLS context. Raises BadConfiguration."""
        certificate = read_pem(self._user, "client-certificate", self._folder)
        key = read_pem(self._user, "client-key", self._folder)
        if not certificate or not key:
            return
        try:
            with tempfile.NamedTemporaryFile() as file:  # ssl loads a certificate by path only
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
        except (ValueError, ssl.SSLError) as error:
            raise BadConfiguration(f"unable to load client certificate or key: {error}") from None


def file_states(tree: Tree, names: Sequence[str], folder: FilePath) -> FileStates:
    """Return the states of the files that these fields name."""
    states: list[tuple[int, int] | None] = []
    for name in names:
        if tree.get(name):
            try:
                stat = (folder / tree[name]).stat()
                states.append((stat.st_mtime_ns, stat.st_ino))
            except OSError:
                states.append(None)
    return states


def read_pem(tree: Tree, name: str, folder: FilePath) -> bytes:
    """Return the PEM text in the field `NAME-data`, or in the file that the field `NAME` names.
    Raises BadConfiguration."""
    if tree.get(f"{name}-data"):
        return base64.b64decode(tree[f"{name}-data"])
    if not tree.get(name):
        return b""
    try:
        return FilePath(folder, tree[name]).read_bytes()
    except OSError as error:
        raise BadConfiguration(f"unable to read {name} {tree[name]}: {error.strerror}") from None
