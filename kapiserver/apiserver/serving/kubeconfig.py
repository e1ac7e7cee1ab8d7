"""Writes kubeconfigs: the server's URL, its CA, and the administrator's client certificate or the
token of another user.

Knows no YAML library; the file is a template.
"""

from __future__ import annotations

import errno
import logging
from pathlib import Path

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.serving.tls.credentials import Credentials, pem_base64

_log = logging.getLogger(__name__)

NAME = "kapiserver"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, a quota of the disk, and a limit of the process."""
HEADER = "# Written by kapiserver at each start; do not edit.\n"


class ForeignKubeconfig(Exception):
    """The file exists and was not written by kapiserver."""


def write_kubeconfig(path: Path, *, url: str, credentials: Credentials | None) -> None:
    """Write the file, readable by its owner alone. Raises ForeignKubeconfig, OSError."""
    if path.exists() and path.read_bytes().strip() and not _is_own_file(path):
        raise ForeignKubeconfig(
            f"{path} exists and was not written by kapiserver; set --kubeconfig-out"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig(url=url, credentials=credentials).encode())


def write_if_space(path: Path, *, url: str, credentials: Credentials | None) -> bool:
    """Write the file and return True. On a full disk log that the file is out of date, and return
    False: a server that has its data must be able to start. Raises ForeignKubeconfig, OSError."""
    try:
        write_kubeconfig(path, url=url, credentials=credentials)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        _log.error(
            "%s is not written (%s): clients that use it do not find this server, which serves %s; "
            "free some space and restart the server",
            path,
            error.strerror,
            url,
        )
        return False
    return True


def follow_certificate(path: Path, url: str, credentials: Credentials | None) -> None:
    """Write the file again if the certificates in it have changed. Log an error."""
    try:
        if path.read_text(encoding="utf-8") != kubeconfig(url=url, credentials=credentials):
            write_kubeconfig(path, url=url, credentials=credentials)
    except (OSError, ForeignKubeconfig) as error:
        _log.error("%s does not have the changed certificate: %s", path, error)


def _is_own_file(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline() == HEADER


def kubeconfig(
    *,
    url: str,
    credentials: Credentials | None,
    namespace: str = "",
    token: str = "",
    token_file: Path | None = None,
) -> str:
    """Return the text of the file, whose context names the namespace if one is given. It is that of
    an administrator, or of the user with the token, which is also in `token_file` for clients that
    read it again. There are no credentials for a server without TLS, whose clients are all
    administrators."""
    user = f"{NAME}-user" if token else f"{NAME}-admin"
    secret = f"\n    token: {token}" if token else _client_certificate(credentials)
    secret += f"\n    tokenFile: {token_file}" if token_file else ""
    in_namespace = f"\n    namespace: {namespace}" if namespace else ""
    return f"""{HEADER}apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {url}{_authority(credentials)}
users:
- name: {user}
  user:{secret}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {user}{in_namespace}
"""


def _authority(credentials: Credentials | None) -> str:
    if credentials is None:
        return ""
    return f"\n    certificate-authority-data: {pem_base64(credentials.ca)}"


def _client_certificate(credentials: Credentials | None) -> str:
    if credentials is None:
        return " {}"
    return f"""
    client-certificate-data: {pem_base64(credentials.admin.certificate)}
    client-key-data: {pem_base64(credentials.admin.key)}"""
