"""Who may use a logical cluster: its keys, its administrator, and those of the management cluster.

Each cluster has a token of an administrator, and a key that signs the tokens of its service
accounts. Both are made with the cluster and stored in a Secret of the management cluster, which is
encrypted at rest as all Secrets are. Other users come from the issuers that the Cluster names
(`end_users.py`) and from certificates that the cluster's own CA has signed (`client_ca.py`).
Nothing else names a user of a logical cluster, except that members of system:masters of the
management cluster are members of system:masters in every cluster. So a credential of one cluster is
unknown in another one.
"""

from __future__ import annotations

import base64
import secrets
from collections import ChainMap

from msgspec import Struct

from kapiserver.api.accessors import owners_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.chain import Access
from kapiserver.apiserver.authentication.service_accounts.keys import generate_key
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import AUTHENTICATED, MASTERS, User
from kapiserver.clusters.client_ca import PemAuthority
from kapiserver.clusters.cluster_kind import CLUSTERS, KIND, ClusterRecord

NAMESPACE = "kapiserver-clusters"
"""The namespace of the Secrets, which have the names of their clusters."""
ADMINISTRATORS = "kapiserver:cluster-admins"
"""The group of a cluster's administrator, and the name of its binding to the role
cluster-admin."""
_ADMINISTRATOR = User(name="kapiserver-cluster-admin", groups=(ADMINISTRATORS, AUTHENTICATED))
_SECRET_TYPE = f"{CLUSTERS.group}/credentials"
_TOKEN, _KEY = "token", "service-account.key"
_CLIENT_CA, _CLIENT_CA_KEY = "client-ca.crt", "client-ca.key"


class Credentials(Struct, frozen=True):
    """The credentials of one cluster.

    token       the bearer token of its administrator
    signing_key PEM of the key that signs the tokens of its service accounts
    client_ca   the CA of its client certificates; None if it has none
    """

    token: str
    signing_key: bytes
    client_ca: PemAuthority | None = None


def new_secret(cluster: ClusterRecord, client_ca: PemAuthority | None) -> Tree:
    """Return a Secret with new credentials of a cluster."""
    values = {_TOKEN: secrets.token_urlsafe(32).encode(), _KEY: generate_key()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": cluster.name,
            "namespace": NAMESPACE,
            "ownerReferences": [
                {
                    "apiVersion": str(CLUSTERS),
                    "kind": KIND,
                    "name": cluster.name,
                    "uid": cluster.uid,
                }
            ],
        },
        "type": _SECRET_TYPE,
        "data": {name: base64.b64encode(value).decode() for name, value in values.items()},
    }
    return secret if client_ca is None else with_client_ca(secret, client_ca)


def with_client_ca(secret: Tree, client_ca: PemAuthority) -> Tree:
    """Return a Secret of credentials with another CA of client certificates."""
    values = {_CLIENT_CA: client_ca.certificate, _CLIENT_CA_KEY: client_ca.key}
    encoded = {name: base64.b64encode(value).decode() for name, value in values.items()}
    return {**secret, "data": {**(secret.get("data") or {}), **encoded}}


def belongs_to(secret: Tree, cluster: ClusterRecord) -> bool:
    """Return whether a Secret is that of a cluster, and not of an earlier one of its name."""
    return any(owner.get("uid") == cluster.uid for owner in owners_of(secret))


def credentials_of(secret: Tree) -> Credentials:
    """Return the credentials in a Secret. Raises ValueError if it has none."""
    data = secret.get("data") or {}
    try:
        values = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
        token, key = values[_TOKEN].decode(), values[_KEY]
    except (KeyError, ValueError) as error:
        raise ValueError(f"the Secret has no credentials of a cluster: {error}") from error
    if _CLIENT_CA not in values or _CLIENT_CA_KEY not in values:
        return Credentials(token, key)
    return Credentials(token, key, PemAuthority(values[_CLIENT_CA], values[_CLIENT_CA_KEY]))


def access_of(
    credentials: Credentials,
    management: UnionAuthenticator,
    issuers: Tree | None,
    users: dict[str, User],
) -> Access:
    """Return who may use a cluster with these credentials.

    management  the authenticators of the management cluster
    issuers     the AuthenticationConfiguration of the cluster; None if it has none
    users       users by token, which a program adds while the cluster is open
    """
    client_ca = credentials.client_ca
    return Access(
        signing_key=credentials.signing_key,
        client_ca=client_ca.certificate.decode() if client_ca is not None else "",
        users=ChainMap({credentials.token: _ADMINISTRATOR}, users),
        issuers=issuers,
        fallback=_Masters(management),
    )


class _Masters:
    """Recognizes members of system:masters of the management cluster, and nobody else. In a cluster
    they have this group alone."""

    def __init__(self, management: UnionAuthenticator) -> None:
        self._management = management

    async def authenticate(self, request: Request) -> User | None:
        """Return the user of a request's certificate or token."""
        try:
            user = await self._management.authenticate(request)
        except Unauthorized:
            return None
        if MASTERS not in user.groups:
            return None
        return User(name=user.name, groups=(MASTERS, AUTHENTICATED))
