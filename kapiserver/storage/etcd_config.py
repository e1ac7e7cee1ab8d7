"""Where etcd is and how to get in, as a value that is made before the client is imported.

Knows no flag and no connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig:
    """Settings of one store in etcd; named as kube-apiserver's --etcd-* flags.

    endpoints  URLs, all of one cluster: http://host:2379 or https://...
    cafile     who signs the servers' certificates; None: the system's authorities
    prefix     is put before all keys, unseen by who uses the store
    username   "": nobody in particular
    password_file   holds the user's password; read at each log-in
    root       what all keys begin with before a "/": what others keep beside it is not watched
    """

    endpoints: tuple[str, ...] = ()
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    username: str = ""
    password_file: Path | None = None
    prefix: str = ""
    root: str = ""
