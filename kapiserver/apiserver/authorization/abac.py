"""Attribute-based access control: authorizes by the policies of a file, one in JSON a line.

Mirrors pkg/auth/authorizer/abac of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.configuration_files import BadConfiguration, read_small_file
from kapiserver.apiserver.request_info import RequestInfo, matches_path
from kapiserver.apiserver.user import User
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import JSONSerializer

ALL = "*"
_READS = ("get", "list", "watch")
_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION, reason="No policy matched.")


class PolicySpec(Type):
    """The permission of a user or group; `*` in a field matches everything, no value nothing."""

    user: str = field(1)
    group: str = field(2)
    readonly: bool = field(3)
    apiGroup: str = field(4)
    resource: str = field(5)
    namespace: str = field(6)
    nonResourcePath: str = field(7)


class Policy(Kind):
    """One line of the file."""

    spec: PolicySpec = field(1)


_KINDS = {GroupVersionKind("abac.authorization.kubernetes.io", "v1beta1", "Policy"): Policy}


def read_policies(file: Path) -> Sequence[Tree]:
    """Return the specs of a file's policies. Empty lines and those that begin with # are comments.
    Raises BadConfiguration."""
    try:
        data = read_small_file(file)
    except OSError as error:
        raise BadConfiguration(f"cannot read the ABAC policy {file}: {error.strerror}") from error
    serializer = JSONSerializer(ConfigurationScheme(_KINDS))
    specs = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            specs.append(serializer.decode(line).object.get("spec") or {})
        except (CodecError, NotRegistered) as error:
            raise BadConfiguration(
                f"error reading policy file {file}, line {number}: {error}"
            ) from error
    return specs


class AbacAuthorizer:
    """Allows what a policy allows; never denies."""

    def __init__(self, policies: Sequence[Tree]) -> None:
        """Take the specs of policies."""
        self._policies = policies

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Allow the request if a policy matches it."""
        for policy in self._policies:
            if _matches_user(policy, user) and _allows(policy, info):
                return _ALLOW
        return _NO_OPINION

    async def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of the policies for a user."""
        resources, paths = [], []
        for policy in self._policies:
            if not _matches_user(policy, user):
                continue
            verbs = _READS if policy.get("readonly") else (ALL,)
            resource, path = policy.get("resource"), policy.get("nonResourcePath")
            if resource and policy.get("namespace") in (ALL, namespace):
                groups = [policy.get("apiGroup") or ""]
                resources.append({"verbs": verbs, "apiGroups": groups, "resources": [resource]})
            if path:
                paths.append({"verbs": verbs, "nonResourceURLs": [path]})
        return Rules(resources=resources, paths=paths)


def _matches_user(policy: Tree, user: User) -> bool:
    """Whether a policy is for a user: its user and its group match, and it has one of them."""
    name, group = policy.get("user"), policy.get("group")
    if name and name not in (ALL, user.name):
        return False
    if group and group != ALL and group not in user.groups:
        return False
    return bool(name or group)


def _allows(policy: Tree, info: RequestInfo) -> bool:
    if policy.get("readonly") and info.verb not in _READS:
        return False
    if not info.is_resource_request:
        path = policy.get("nonResourcePath") or ""
        return bool(path) and matches_path(path, info.path)
    return all(
        (policy.get(name) or "") in (ALL, value)
        for name, value in (
            ("namespace", info.namespace),
            ("resource", info.resource),
            ("apiGroup", info.version.group),
        )
    )
