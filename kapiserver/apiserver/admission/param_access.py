"""Refuses policies and bindings whose parameters their writer may not read.

Otherwise a policy could show the parameters in its messages. Mirrors authz.go of
pkg/registry/admissionregistration in Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.errors import InvalidObject, NotRegistered, Path, forbidden
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import MASTERS, User
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_GROUP = "admissionregistration.k8s.io"
_BINDINGS = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}
"""The resource of the policies, by that of their bindings."""


async def check(server: Server, attributes: Attributes, new: Tree, old: Tree | None) -> None:
    """Raise InvalidObject if the user may not read the parameters of a policy or binding, unless
    the write leaves them as they are."""
    if MASTERS in attributes.user.groups:
        return
    policies = _BINDINGS.get(attributes.target.resource.name)
    if policies is None:
        await _check_policy(server, attributes, new, old)
    else:
        await _check_binding(server, attributes, policies, new, old)


async def _check_policy(
    server: Server, attributes: Attributes, new: Tree, old: Tree | None
) -> None:
    user = attributes.user
    kind = value_at(new, "spec", "paramKind")
    if kind is None or kind == value_at(old or {}, "spec", "paramKind"):
        return
    if not await _may_read(server, user, kind, namespace="*", name="*"):
        names = f"(kind={kind.get('kind')}, apiVersion={kind.get('apiVersion')})"
        raise _refusal(
            attributes,
            new,
            "paramKind",
            f'user {_format_user(user)} must have "get" permission on all objects of the '
            f"referenced paramKind {names}",
        )


async def _check_binding(
    server: Server, attributes: Attributes, policies: str, new: Tree, old: Tree | None
) -> None:
    user = attributes.user
    spec, old_spec = new.get("spec") or {}, (old or {}).get("spec") or {}
    reference, fields = spec.get("paramRef"), ("paramRef", "policyName")
    if reference is None or all(spec.get(name) == old_spec.get(name) for name in fields):
        return
    kind = await _param_kind(server, policies, spec.get("policyName") or "")
    name, namespace = reference.get("name") or "", reference.get("namespace") or ""
    if not await _may_read(server, user, kind, namespace=namespace, name=name):
        raise _refusal(
            attributes,
            new,
            "paramRef",
            f'user {_format_user(user)} does not have "get" permission on the object referenced by '
            "paramRef",
        )


async def _param_kind(server: Server, policies: str, name: str) -> Tree:
    """Return the paramKind of a policy; {} if there is no such policy."""
    store = server.stores.by_name(GroupVersion(_GROUP, "v1"), policies)
    try:
        policy = (await store.get(ObjectKey("", name))).tree()
    except NotFound:
        return {}
    return value_at(policy, "spec", "paramKind") or {}


async def _may_read(server: Server, user: User, kind: Tree, *, namespace: str, name: str) -> bool:
    """Report whether a user may read objects of a kind. If the kind is unknown, the user must be
    able to read all resources."""
    version, resource = GroupVersion("*", "*"), "*"
    if kind:
        try:
            version = GroupVersion.parse(kind.get("apiVersion") or "")
            resource = server.scheme.resource_of(version.with_kind(kind.get("kind") or "")).name
        except (ValueError, NotRegistered):
            resource = "*"
    info = RequestInfo(
        verb="get", version=version, namespace=namespace, resource=resource, name=name
    )
    return (await server.authorizer.authorize(user, info)).allowed


def _refusal(attributes: Attributes, obj: Tree, field: str, detail: str) -> InvalidObject:
    resource = attributes.target.resource
    error = forbidden(Path("spec") / field, detail)
    return InvalidObject(
        group=resource.group, kind=resource.kind, name=name_of(obj), errors=[error]
    )


def _format_user(user: User) -> str:
    """Format a user as Go's %v does."""
    extra = " ".join(f"{name}:[{' '.join(values)}]" for name, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
