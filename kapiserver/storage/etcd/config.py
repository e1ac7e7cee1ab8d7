"""The settings of the backend etcd and the configuration of a connection. Importing it does not
import the client.

Knows no connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

EtcdTransport: TypeAlias = Literal["grpc", "gateway"]
TRANSPORTS: tuple[EtcdTransport, ...] = get_args(EtcdTransport)


class EtcdConfig(Struct, frozen=True, kw_only=True):
    """The configuration of one store in etcd.

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


class EtcdSettings(Struct, frozen=True, kw_only=True):
    """The settings of the backend etcd: kube-apiserver's flags that begin with --etcd, and the
    transport. `EtcdConfig` says what they mean."""

    etcd_transport: EtcdTransport = "grpc"
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_username: str = ""
    etcd_password_file: Path | None = None

    def config(self, endpoints: tuple[str, ...], root: str) -> EtcdConfig:
        """Return the configuration of a store at these endpoints."""
        return EtcdConfig(
            endpoints=endpoints,
            cafile=self.etcd_cafile,
            certfile=self.etcd_certfile,
            keyfile=self.etcd_keyfile,
            username=self.etcd_username,
            password_file=self.etcd_password_file,
            root=root,
            transport=self.etcd_transport,
        )
