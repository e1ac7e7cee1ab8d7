"""Create operations that store no new object: bindings, evictions, tokens, reviews."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import Body
from kapiserver.apiserver.target import Target

CreateOperation: TypeAlias = Callable[[Server, Target, Caller, Tree, Body], Awaitable[Tree]]


_lazy_bind: Lazy[CreateOperation] = lazy(
    "kapiserver.apiserver.endpoints.subresources.binding:bind_pod"
)
_lazy_review: Lazy[CreateOperation] = lazy("kapiserver.apiserver.endpoints.reviews:create_review")

UNSTORED_CREATES: dict[tuple[str, str, str], Lazy[CreateOperation]] = {
    ("", "bindings", ""): _lazy_bind,
    ("", "pods", "binding"): _lazy_bind,
    ("", "pods", "eviction"): lazy(
        "kapiserver.apiserver.endpoints.subresources.eviction:evict_pod"
    ),
    ("", "serviceaccounts", "token"): lazy(
        "kapiserver.apiserver.endpoints.subresources.token:create_token"
    ),
    ("authentication.k8s.io", "selfsubjectreviews", ""): _lazy_review,
    ("authentication.k8s.io", "tokenreviews", ""): _lazy_review,
    ("authorization.k8s.io", "localsubjectaccessreviews", ""): _lazy_review,
    ("authorization.k8s.io", "selfsubjectaccessreviews", ""): _lazy_review,
    ("authorization.k8s.io", "selfsubjectrulesreviews", ""): _lazy_review,
    ("authorization.k8s.io", "subjectaccessreviews", ""): _lazy_review,
}
"""Operations, keyed by group, resource and subresource (see `media_types.py` on late loading)."""


def unstored_create(server: Server, target: Target) -> Lazy[CreateOperation] | None:
    """Return the operation of a create that stores no object; None if it stores one."""
    resource = target.resource
    if (resource.group, resource.name) in server.calls:
        return _lazy_review
    return UNSTORED_CREATES.get((resource.group, resource.name, target.subresource))
