"""The user that a request impersonates with Impersonate-* headers.

Knows no authorizer. Mirrors filters/impersonation of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from msgspec import Struct

from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.apiserver.errors import BadImpersonation
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    User,
    service_account_groups,
)

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
AUTHENTICATION = GroupVersion("authentication.k8s.io", "v1")


class Impersonation(Struct, frozen=True, kw_only=True):
    """The values of a request's Impersonate-* headers."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]]

    def checks(self) -> Iterator[RequestInfo]:
        """Yield the requests that the caller must be authorized for: to impersonate the user or
        service account, each group, the uid and each value of the extra fields."""
        account = service_account_of(self.user)
        if account is None:
            yield impersonation_check(CORE, "users", self.user)
        else:
            namespace, name = account
            yield impersonation_check(CORE, "serviceaccounts", name, namespace=namespace)
        yield from self.checks_of_details()

    def checks_of_details(self) -> Iterator[RequestInfo]:
        """Yield the checks for the groups, the uid and each value of the extra fields."""
        for group in self.groups:
            yield impersonation_check(CORE, "groups", group)
        for key, values in self.extra.items():
            for value in values:
                yield impersonation_check(AUTHENTICATION, "userextras", value, subresource=key)
        if self.uid:
            yield impersonation_check(AUTHENTICATION, "uids", self.uid)

    def impersonated_user(self) -> User:
        """Return the user. A service account is in its groups unless groups are named; others
        than system:anonymous are in system:authenticated."""
        groups = self.groups
        account = service_account_of(self.user)
        if account is not None and not groups:
            groups = service_account_groups(account[0])
        if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
            is_anonymous = self.user == ANONYMOUS.name
            groups = (*groups, UNAUTHENTICATED if is_anonymous else AUTHENTICATED)
        return User(name=self.user, uid=self.uid, groups=groups, extra=self.extra)


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name if a user is a service account."""
    if not user.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, name) if colon and namespace and name and ":" not in name else None


def parse_impersonation(headers: Mapping[str, str]) -> Impersonation | None:
    """Return the values of the Impersonate-* headers, None without them. Raises
    BadImpersonation for groups, a uid or extra fields without a user."""
    if _PREFIX not in " ".join(headers).lower():  # one look at all names: most requests have none
        return None
    values: dict[str, list[str]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_PREFIX):
            values.setdefault(name.lower(), []).append(value)
    if not any(any(texts) for texts in values.values()):
        return None
    impersonation = Impersonation(
        user=values.get("impersonate-user", [""])[0],
        uid=values.get("impersonate-uid", [""])[0],
        groups=tuple(values.get("impersonate-group", ())),
        extra={
            unquote(name.removeprefix(_EXTRA)): tuple(texts)
            for name, texts in values.items()
            if name.startswith(_EXTRA)
        },
    )
    if not impersonation.user:
        raise BadImpersonation(
            f"requested {_go_user(impersonation)} without impersonating a user name"
        )
    return impersonation


def _go_user(user: Impersonation) -> str:
    """Format a user as `fmt.Sprintf("%#v", user)` does."""
    extra = (f"{quote(name)}:{_go_texts(user.extra[name])}" for name in sorted(user.extra))
    return (
        f"&user.DefaultInfo{{Name:{quote(user.user)}, UID:{quote(user.uid)}, "
        f"Groups:{_go_texts(user.groups)}, Extra:map[string][]string"
        + (f"{{{', '.join(extra)}}}}}" if user.extra else "(nil)}")
    )


def _go_texts(texts: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(quote, texts))}}}" if texts else "[]string(nil)"


def impersonation_check(
    version: GroupVersion,
    resource: str,
    name: str,
    *,
    verb: str = "impersonate",
    namespace: str = "",
    subresource: str = "",
) -> RequestInfo:
    """Return the request that stands for the right to impersonate a value."""
    return RequestInfo(
        verb=verb,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
    )
