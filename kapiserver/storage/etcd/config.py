"""The settings of the backend etcd and the configuration of a connection. Importing it does not
import the client.

Knows no connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, get_args

from msgspec import Struct

from kapiserver.storage.kv.flag import Flag

EtcdTransport: TypeAlias = Literal["grpc", "gateway"]
TRANSPORTS: tuple[EtcdTransport, ...] = get_args(EtcdTransport)


class EtcdConfig(Struct, frozen=True, kw_only=True):
    """The configuration of one store in etcd.

    endpoints       URLs of one cluster: http://host:2379 or https://host:2379
    cafile          the file of the CAs that sign the servers' certificates; None for the system's
    certfile        the file of the client certificate
    keyfile         the file of its private key
    username        the name of the user; "" for no authentication
    password_file   the file with the user's password, which is read at each login
    prefix          the text before every key in etcd, which users of the store do not see
    root            the first segments of all keys; other keys below the prefix are not watched
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
    """The settings of the backend etcd: the transport, and flags of kube-apiserver. `EtcdConfig`
    says what they mean."""

    etcd_transport: EtcdTransport = "grpc"
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_username: str = ""
    etcd_password_file: Path | None = None

    FLAGS: ClassVar[tuple[Flag, ...]] = (
        Flag(
            setting="etcd_transport",
            choices=TRANSPORTS,
            help="How to talk to etcd: its gRPC, or its JSON gateway, which costs etcd three times "
            "as much and is for proxies that let no gRPC through. Default: %(default)s.",
        ),
        Flag(
            setting="etcd_cafile",
            metavar="FILE",
            help="PEM file of the CA that signed etcd's server certificates. "
            "Default: the CAs that the system trusts.",
        ),
        Flag(
            setting="etcd_certfile",
            metavar="FILE",
            partner="etcd_keyfile",
            help="PEM file of the client certificate to show to etcd. Needs --etcd-keyfile. "
            "Default: no client certificate.",
        ),
        Flag(
            setting="etcd_keyfile",
            metavar="FILE",
            help="PEM file of the private key of --etcd-certfile; each flag needs the other. "
            "Default: no key.",
        ),
        Flag(
            setting="etcd_username",
            metavar="NAME",
            partner="etcd_password_file",
            help="User to log in to etcd as, if etcd has authentication enabled. "
            "Needs --etcd-password-file. Default: no user.",
        ),
        Flag(
            setting="etcd_password_file",
            metavar="FILE",
            help="File that holds the password of --etcd-username, which it needs; a file, so that "
            "process listings do not show the password. Default: no password.",
        ),
    )

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
