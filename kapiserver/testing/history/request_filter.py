"""Selects requests: for faults, and for searches in the recorded requests."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

if TYPE_CHECKING:
    from kapiserver.apiserver.request import Request


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""The verbs of requests for resources."""


class Selection(TypedDict, total=False):
    """The keyword arguments that select requests; `RequestFilter` explains them. Verbs and
    resources are lists, or separated by commas."""

    verb: str | Sequence[str]
    resource: str | Sequence[str]
    namespace: str
    name: str
    user: str
    user_agent: str


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Matches requests; an empty field matches all. Texts are globs, which match the whole value
    and distinguish upper and lower case: `*` stands for any characters, `?` for one, `[ab]` for one
    of those in the brackets.

    verbs       verbs of VERBS; `*` is every one
    resources   plural names as in rules of RBAC: `pods`, `pods/status`, `pods/*` (every
                subresource), `deployments.apps`; without a group those of all groups
    user_agent  the header, as in `kubectl/*`

    Requests for no resource (discovery, health, version) match only a filter without verbs,
    resources, namespace and name.
    """

    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""

    @classmethod
    def of(
        cls,
        *,
        verb: str | Sequence[str] = "",
        resource: str | Sequence[str] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        user_agent: str = "",
    ) -> RequestFilter:
        """Return a filter; verbs and resources are lists, or separated by commas. Raises ValueError
        for an unknown verb."""
        verbs = _items(verb)
        for text in verbs:
            if text not in (*VERBS, "*"):
                raise ValueError(f"{text!r} is not a verb; write one of {', '.join(VERBS)}")
        return cls(
            verbs=verbs,
            resources=_items(resource),
            namespace=namespace,
            name=name,
            user=user,
            user_agent=user_agent,
        )

    def matches_request(self, request: Request, name: str) -> bool:
        """Whether a request matches; `name` is that of the object, from the path or the body."""
        info = request.info
        return self.matches(
            verb=info.verb,
            resource=info.resource,
            group=info.version.group,
            subresource=info.subresource,
            namespace=info.namespace,
            name=name,
            user=request.user.name,
            user_agent=request.header("User-Agent"),
        )

    def matches(
        self,
        *,
        verb: str,
        resource: str,
        group: str,
        subresource: str,
        namespace: str,
        name: str,
        user: str,
        user_agent: str,
    ) -> bool:
        """Whether a request with these properties matches."""
        if not (_is_match(self.user, user) and _is_match(self.user_agent, user_agent)):
            return False
        if not resource:
            return not (self.verbs or self.resources or self.namespace or self.name)
        return (
            (not self.verbs or verb in self.verbs or "*" in self.verbs)
            and _is_match(self.namespace, namespace)
            and _is_match(self.name, name)
            and (
                not self.resources
                or any(_is_resource(text, resource, group, subresource) for text in self.resources)
            )
        )


def _items(value: str | Sequence[str]) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _is_match(pattern: str, text: str) -> bool:
    return not pattern or fnmatchcase(text, pattern)


def _is_resource(text: str, resource: str, group: str, subresource: str) -> bool:
    """Whether `text` names the resource and subresource of a request."""
    if text == "*":
        return True
    qualified, _, filter_subresource = text.partition("/")
    filter_name, dot, filter_group = qualified.partition(".")
    if not fnmatchcase(resource, filter_name) or (dot and not fnmatchcase(group, filter_group)):
        return False
    if not filter_subresource:
        return not subresource
    return bool(subresource) and fnmatchcase(subresource, filter_subresource)
