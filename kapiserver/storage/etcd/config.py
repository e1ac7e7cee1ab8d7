"""The configuration of an etcd connection. Importing it does not import the client.

Knows no flag and no connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

EtcdTransport: TypeAlias = Literal["grpc", "gateway"]
TRANSPORTS: tuple[EtcdTransport, ...] = get_args(EtcdTransport)


class EtcdConfig(Struct, frozen=True, kw_only=True):
    """Settings of one store in etcd, named like kube-apiserver's --etcd-* flags.

    endpoints       URLs of one cluster: http://host:2379 or https://host:2379
    cafile          CA bundle for the servers' certificates; None for the system's CAs
    certfile        client certificate
    keyfile         private key of the client certificate
    username        "" for no authentication
    password_file   holds the user's password; read at each login
    prefix          prepended to every key in etcd, invisible to users of the store
    root            the first segments of all keys; keys of others beside it are not watched
    transport       "grpc", or "gateway" for etcd's JSON gateway
    """

    endpoints: tuple[str, ...] = ()
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    username: str = ""
    password_file: Path | None = None
    prefix: str = ""
    root: str = ""
    transport: EtcdTransport = "grpc"
