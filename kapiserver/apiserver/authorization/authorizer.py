"""Who may do what: the attributes of a request and the seam where an authorizer decides.

Mirrors apiserver/pkg/authorization/authorizer of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.apiserver.request import UNAUTHENTICATED, Request, User
from kapiserver.apiserver.request_info import RequestInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What an authorizer says; `reason` is for the client."""

    allowed: bool
    reason: str = ""


Authorizer: TypeAlias = Callable[[User, RequestInfo], Awaitable[Decision]]
"""The attributes are those of the request info: verb, group, resource, name, ... or a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a user may do in a namespace, as far as it can be told.

    resources   rules in the form of authorization.k8s.io/v1 ResourceRule
    paths       rules in the form of its NonResourceRule
    """

    resources: Sequence[Mapping[str, Sequence[str]]] = ()
    paths: Sequence[Mapping[str, Sequence[str]]] = ()
    incomplete: bool = False
    error: str = ""


RulesOf: TypeAlias = Callable[[User, str], Awaitable[Rules]]
"""The rules for a user in a namespace."""

_ALLOWED = Decision(allowed=True)
_REFUSED = Decision(allowed=False)


_PUBLIC = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
"""What everybody may read: the paths of kube-apiserver's role system:public-info-viewer."""


async def allow_authenticated(user: User, info: RequestInfo) -> Decision:
    """Everybody who says who they are may do everything; others may ask how the server is.

    kube-apiserver refuses anonymous requests altogether when it allows everything else.
    """
    if UNAUTHENTICATED not in user.groups or (info.verb == "get" and info.path in _PUBLIC):
        return _ALLOWED
    return _REFUSED


_EVERYTHING = Rules(
    resources=[{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    paths=[{"verbs": ["*"], "nonResourceURLs": ["*"]}],
)
_PUBLIC_ONLY = Rules(paths=[{"verbs": ["get"], "nonResourceURLs": sorted(_PUBLIC)}])


async def rules_of_authenticated(user: User, _namespace: str) -> Rules:
    """What `allow_authenticated` allows."""
    return _PUBLIC_ONLY if UNAUTHENTICATED in user.groups else _EVERYTHING


def refusal(request: Request, decision: Decision) -> str:
    """What a refused user is told, in kube-apiserver's words."""
    info, name = request.info, request.user.name
    if not info.is_resource_request:
        return f'User "{name}" cannot {info.verb} path "{info.path}"' + _why(decision)
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    where = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
    return (
        f'User "{name}" cannot {info.verb} resource "{resource}" in API group '
        f'"{info.version.group}"{where}{_why(decision)}'
    )


def _why(decision: Decision) -> str:
    return f": {decision.reason}" if decision.reason else ""
