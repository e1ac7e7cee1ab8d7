"""The credentials with which the server calls admission webhooks, by the webhook's host.

`kubeConfigFile` of WebhookAdmissionConfiguration is a kubeconfig file whose users are named after
hosts. Mirrors pkg/util/webhook/authentication.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath

from kapiserver.apiserver.webhooks.credentials import ClientCredentials
from kapiserver.apiserver.webhooks.kubeconfig import read_users

_DEFAULT_PORT = ":443"
ANONYMOUS = ClientCredentials({}, FilePath())


class WebhookIdentities:
    """The users of one kubeconfig file; without a file, all webhooks are called without
    credentials."""

    def __init__(self, file: FilePath | None = None) -> None:
        """Read the file. Raises BadConfiguration."""
        self._credentials: Mapping[str, ClientCredentials] = {}
        self._default = ANONYMOUS
        if file is None:
            return
        self._credentials, current = read_users(file, purpose="kubeconfig of admission webhooks")
        self._default = self._credentials.get(current, ANONYMOUS)

    def credentials_of(self, host: str) -> ClientCredentials:
        """Return the credentials for `host:port`: those of the user with that name (port 443 may be
        left out), of `*.domain`, of `*`, or of the current context."""
        if not self._credentials:
            return self._default
        names = [host]
        if host.endswith(_DEFAULT_PORT):
            names.append(host.removesuffix(_DEFAULT_PORT))
        steps = host.split(".")
        names.extend(f"*.{'.'.join(steps[index:])}" for index in range(1, len(steps)))
        for name in (*names, "*"):
            credentials = self._credentials.get(name)
            if credentials is not None:
                return credentials
        return self._default
