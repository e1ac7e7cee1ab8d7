"""Users and the groups that the server knows. Mirrors user.Info of k8s.io/apiserver."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kapiserver.api.types import Tree


class User(Struct, frozen=True, kw_only=True):
    """The user of a request, as an authenticator found."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
"""The extra attribute that names the certificate or token of a user."""

SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

ANONYMOUS = User(name="system:anonymous", groups=(UNAUTHENTICATED,))
"""The user of a request without credentials."""
UNSECURED = User(name="system:unsecured", groups=(MASTERS, AUTHENTICATED))
"""The user of every request on the loopback port without TLS, which is off by default."""
APISERVER = User(name="system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The server itself."""


def with_authenticated(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups of a user whom an authenticator has recognized: system:authenticated is
    among them, unless the user is anonymous or in system:unauthenticated."""
    if name == ANONYMOUS.name or AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of the service accounts of a namespace."""
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def service_account_user(
    namespace: str, name: str, *, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    """Return the user that a service account is."""
    return User(
        name=f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        uid=uid,
        groups=(*service_account_groups(namespace), AUTHENTICATED),
        extra=extra or {},
    )


def user_info(user: User) -> Tree:
    """Return a user in the form of authentication.k8s.io/v1 UserInfo."""
    info: Tree = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in sorted(user.extra.items())}
    return info
