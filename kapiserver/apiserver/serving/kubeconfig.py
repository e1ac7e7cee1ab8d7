"""The administrator's kubeconfig: where the server is, its CA and a client certificate.

Knows YAML only as text that it writes itself.
"""

from __future__ import annotations

from pathlib import Path

from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.serving.tls import Credentials, pem_base64

NAME = "kapiserver"
MARK = "# Written by kapiserver at each start; do not edit.\n"


class NotOurs(Exception):
    """The file to write is there and was not written by us."""


def write_kubeconfig(path: Path, *, url: str, made: Credentials) -> None:
    """Write the file, readable by its owner alone. Raises NotOurs, OSError."""
    if path.exists() and path.read_bytes().strip() and not _is_ours(path):
        raise NotOurs(f"{path} is a kubeconfig of someone else's; name another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, kubeconfig(url=url, made=made).encode())


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return file.readline() == MARK


def kubeconfig(*, url: str, made: Credentials) -> str:
    """The text of the file."""
    return f"""{MARK}apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
- name: {NAME}
  cluster:
    server: {url}
    certificate-authority-data: {pem_base64(made.ca)}
users:
- name: {NAME}-admin
  user:
    client-certificate-data: {pem_base64(made.admin.certificate)}
    client-key-data: {pem_base64(made.admin.key)}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}-admin
"""
