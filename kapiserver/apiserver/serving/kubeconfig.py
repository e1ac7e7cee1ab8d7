"""Writes the administrator's kubeconfig: the server's URL, its CA and a client certificate.

Knows no YAML library; the file is a template.
"""

from __future__ import annotations

from pathlib import Path

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.serving.tls import Credentials, pem_base64

NAME = "kapiserver"
HEADER = "# Written by kapiserver at each start; do not edit.\n"


class ForeignKubeconfig(Exception):
    """The file exists and was not written by kapiserver."""


def write_kubeconfig(path: Path, *, url: str, credentials: Credentials) -> None:
    """Write the file, readable by its owner alone. Raises NotOurs, OSError."""
    if path.exists() and path.read_bytes().strip() and not _is_own_file(path):
        raise ForeignKubeconfig(
            f"{path} exists and was not written by kapiserver; set --kubeconfig-out"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig(url=url, credentials=credentials).encode())


def _is_own_file(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline() == HEADER


def kubeconfig(*, url: str, credentials: Credentials) -> str:
    """Return the text of the file."""
    return f"""{HEADER}apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {url}
    certificate-authority-data: {pem_base64(credentials.ca)}
users:
- name: {NAME}-admin
  user:
    client-certificate-data: {pem_base64(credentials.admin.certificate)}
    client-key-data: {pem_base64(credentials.admin.key)}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}-admin
"""
