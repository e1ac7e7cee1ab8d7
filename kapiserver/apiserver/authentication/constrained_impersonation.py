"""Constrained impersonation (KEP-5284): whom a caller may impersonate, and for which requests.

Each mode has two kinds of verbs: `impersonate:MODE` for the identity, and
`impersonate-on:MODE:VERB` for the request itself. The caller needs both. Without the feature gate
ConstrainedImpersonation, and if no mode allows the request, the verb `impersonate` counts. Knows no
authorizer. Mirrors pkg/endpoints/filters/impersonation of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_domain_prefixed_path
from kapiserver.api.errors import Path
from kapiserver.apiserver.authentication.impersonation import (
    AUTHENTICATION,
    Impersonation,
    impersonation_check,
    service_account_of,
)
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import MASTERS, User

GATE = "ConstrainedImpersonation"
_NODE_PREFIX = "system:node:"
_NODES = "system:nodes"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_ASSOCIATED_KEYS = "authentication.kubernetes.io/associated-node-keys"


class Attempt(Struct, frozen=True, kw_only=True):
    """One way in which a caller may impersonate a user.

    caller      the caller as the authorizer sees it
    checks      what the caller must be authorized for, all of them
    user        the user that the request gets
    constraint  the verb for the audit log; "" for the verb `impersonate`
    refused     a check that fails whatever the authorizer says, and the reason
    """

    caller: User
    checks: Sequence[RequestInfo]
    user: User
    constraint: str = ""
    forbidden_check: tuple[RequestInfo, str] | None = None


def attempts(
    impersonation: Impersonation, caller: User, info: RequestInfo, *, constrained: bool
) -> Iterator[Attempt]:
    """Yield the ways to impersonate the user, in order; the first that is authorized counts. The
    last is the verb `impersonate`."""
    if constrained:
        for name, applies in _MODES:
            if applies(impersonation, caller):
                yield _constrained(name, impersonation, caller, info)
    yield Attempt(
        caller=caller,
        checks=tuple(impersonation.checks()),
        user=impersonation.impersonated_user(),
    )


def _constrained(
    mode: str, impersonation: Impersonation, caller: User, info: RequestInfo
) -> Attempt:
    verb = f"impersonate:{mode}"
    identity = list(_identity_checks(mode, verb, impersonation))
    if mode == "associated-node":  # the same decision for all nodes of a service account
        caller = replace(caller, extra={_ASSOCIATED_KEYS: tuple(sorted(caller.extra))})
    node = _node_of(impersonation.user)
    if node is not None:
        impersonation = replace(impersonation, groups=(_NODES,))
    return Attempt(
        caller=caller,
        checks=(replace(info, verb=f"impersonate-on:{mode}:{info.verb}"), *identity),
        user=impersonation.impersonated_user(),
        constraint=verb,
        forbidden_check=_forbidden_check(verb, impersonation) if mode == "user-info" else None,
    )


def _identity_checks(mode: str, verb: str, impersonation: Impersonation) -> Iterator[RequestInfo]:
    node, account = _node_of(impersonation.user), service_account_of(impersonation.user)
    if node is not None:
        name = "*" if mode == "associated-node" else node
        yield impersonation_check(AUTHENTICATION, "nodes", name, verb=verb)
    elif account is not None:
        namespace, name = account
        yield impersonation_check(
            AUTHENTICATION, "serviceaccounts", name, verb=verb, namespace=namespace
        )
    else:
        yield impersonation_check(AUTHENTICATION, "users", impersonation.user, verb=verb)
    for check in impersonation.checks_of_details():
        yield replace(check, verb=verb, version=AUTHENTICATION, prefix="apis")


def _forbidden_check(verb: str, impersonation: Impersonation) -> tuple[RequestInfo, str] | None:
    """Return the check and the reason if nobody may impersonate these groups or extra fields."""
    groups = impersonation.groups
    if "" in groups:
        check = impersonation_check(AUTHENTICATION, "groups", "", verb=verb)
        return check, "impersonating the empty string group is not allowed"
    if MASTERS in groups:
        check = impersonation_check(AUTHENTICATION, "groups", MASTERS, verb=verb)
        return check, "impersonating the system:masters group is not allowed"
    for key, values in impersonation.extra.items():
        reason = _extra_problem(key, values)
        if reason:
            return impersonation_check(AUTHENTICATION, "userextras", "", verb=verb), reason
    return None


def _extra_problem(key: str, values: Sequence[str]) -> str:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    errors = list(validate_domain_prefixed_path(key, Path("extra") / "key"))
    if errors:
        return f"impersonating an invalid key in extra is not allowed: {errors[0]}"
    if key != key.lower():
        return f'impersonating a non-lowercase key in extra is not allowed: "{key}"'
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return ""


def _node_of(user: str) -> str | None:
    """Return the name of the node that a user is."""
    name = user.removeprefix(_NODE_PREFIX)
    return name if name != user and not names.dns1123_subdomain(name) else None


def _has_name_only(impersonation: Impersonation) -> bool:
    return not (impersonation.uid or impersonation.groups or impersonation.extra)


def _is_associated_node(impersonation: Impersonation, caller: User) -> bool:
    node = _node_of(impersonation.user)
    return (
        node is not None
        and _has_name_only(impersonation)
        and service_account_of(caller.name) is not None
        and tuple(caller.extra.get(_NODE_NAME, ())) == (node,)
    )


def _is_node(impersonation: Impersonation, _caller: User) -> bool:
    return _has_name_only(impersonation) and _node_of(impersonation.user) is not None


def _is_service_account(impersonation: Impersonation, _caller: User) -> bool:
    return _has_name_only(impersonation) and service_account_of(impersonation.user) is not None


def _is_other_user(impersonation: Impersonation, _caller: User) -> bool:
    user = impersonation.user
    return _node_of(user) is None and service_account_of(user) is None


_MODES: tuple[tuple[str, Callable[[Impersonation, User], bool]], ...] = (
    ("associated-node", _is_associated_node),
    ("arbitrary-node", _is_node),
    ("serviceaccount", _is_service_account),
    ("user-info", _is_other_user),
)
"""The modes, and whether a mode is for a user and a caller."""
