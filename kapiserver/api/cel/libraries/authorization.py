"""CEL functions that ask the authorizer: `authorizer.group(...).resource(...).check(verb)`.

Evaluation does not wait. `check` returns a decision that `Decisions` knows, or raises
DecisionRequired: the caller asks the authorizer, adds the decision, and evaluates the expression
again. Knows no authorizer. Mirrors k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kapiserver.api import names
from kapiserver.api.cel.functions import Row, Table
from kapiserver.api.cel.values import CostExceeded, EvaluationError

CHECK_COST = 350_000
"""The cost of a check, which allows two in one expression."""


class Check(Struct, frozen=True):
    """A question to the authorizer.

    account  namespace and name of a service account; empty for the user of the request
    path     the path of a request for no resource; empty otherwise
    """

    verb: str = ""
    account: tuple[str, ...] = ()
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class Decision(Struct, frozen=True):
    """The decision of the authorizer; `error` is empty unless the check failed."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""


class DecisionRequired(Exception):
    """An expression needs a decision that is not known yet."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check


class Decisions(Struct):
    """The decisions that one request knows. `cost` is that of the checks of one evaluation, `limit`
    its maximum."""

    by_check: dict[Check, Decision] = field(default_factory=dict)
    cost: int = 0
    limit: int = 0

    def begin(self, limit: int) -> None:
        """Begin an evaluation whose checks may cost up to `limit`."""
        self.cost, self.limit = 0, limit

    def decide(self, check: Check) -> Decision:
        """Return the decision on a check. Raises DecisionRequired and CostExceeded."""
        self.cost += CHECK_COST
        if self.cost > self.limit:
            raise CostExceeded
        decision = self.by_check.get(check)
        if decision is None:
            raise DecisionRequired(check)
        return decision


_AnyReceiver = TypeVar("_AnyReceiver", bound="_Receiver")


class _Receiver(Struct, frozen=True, eq=False):
    """A value with functions and without fields: the check that it prepares."""

    check: Check
    decisions: Decisions

    def narrow(self, receiver: type[_AnyReceiver], **attributes: Any) -> _AnyReceiver:
        """Return a receiver whose check has more attributes."""
        return receiver(replace(self.check, **attributes), self.decisions)


class Authorizer(_Receiver, frozen=True, eq=False):
    """Prepares checks for one user."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"


class PathCheck(_Receiver, frozen=True, eq=False):
    """A check of a path that is not a resource."""

    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"


class GroupCheck(_Receiver, frozen=True, eq=False):
    """A check within an API group."""

    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"


class ResourceCheck(_Receiver, frozen=True, eq=False):
    """A check of a resource."""

    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return authorizer.narrow(PathCheck, path=path)


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return authorizer.narrow(GroupCheck, group=group)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return authorizer.narrow(Authorizer, account=(namespace, name))


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return group.narrow(ResourceCheck, resource=resource)


def _attribute(name: str) -> list[Row]:
    def run(check: ResourceCheck, value: str) -> ResourceCheck:
        return check.narrow(ResourceCheck, **{name: value})

    return [("resourcecheck.(string) resourcecheck", run)]


def _check(receiver: _Receiver, verb: str) -> Decision:
    return receiver.decisions.decide(replace(receiver.check, verb=verb))


FUNCTIONS: Table = {
    "path": [("authorizer.(string) pathcheck", _path)],
    "group": [("authorizer.(string) groupcheck", _group)],
    "serviceAccount": [("authorizer.(string, string) authorizer", _service_account)],
    "resource": [("groupcheck.(string) resourcecheck", _resource)],
    "subresource": _attribute("subresource"),
    "namespace": _attribute("namespace"),
    "name": _attribute("name"),
    "fieldSelector": _attribute("field_selector"),
    "labelSelector": _attribute("label_selector"),
    "check": [
        ("pathcheck.(string) decision", _check),
        ("resourcecheck.(string) decision", _check),
    ],
    "allowed": [("decision.() bool", lambda decision: decision.allowed)],
    "reason": [("decision.() string", lambda decision: decision.reason)],
    "errored": [("decision.() bool", lambda decision: bool(decision.error))],
    "error": [("decision.() string", lambda decision: decision.error)],
}
