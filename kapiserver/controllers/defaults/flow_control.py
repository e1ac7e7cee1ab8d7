"""Create the flow schemas and priority levels that every cluster has, shortly after the start.

Mirrors pkg/apis/flowcontrol/bootstrap.
"""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing

START_DELAY_SECONDS = 5.0
"""The delay after the start; a short-lived server does not need the objects."""
_ALL = "flow schemas and priority levels"
_FLOWCONTROL = GroupVersion("flowcontrol.apiserver.k8s.io", "v1")
_MANAGED = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ALL = "*"

_LEVELS = (
    # name, shares, lendable percent, (queues, hand size, queue length); None: rejects at once
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, (128, 6, 50)),
    ("leader-election", 10, 0, (16, 4, 50)),
    ("node-high", 40, 25, (64, 6, 50)),
    ("system", 30, 33, (64, 6, 50)),
    ("workload-high", 40, 50, (128, 6, 50)),
    ("workload-low", 100, 90, (128, 6, 50)),
)


def _group(name: str) -> Tree:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Tree:
    return {"kind": "User", "user": {"name": name}}


def _account(name: str) -> Tree:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}}


def _resources(
    verbs: list[str], group: str, names: list[str], *, namespaces: list[str], cluster: bool = False
) -> Tree:
    rule: Tree = {"verbs": verbs, "apiGroups": [group], "resources": names}
    if cluster:
        rule["clusterScope"] = True
    return rule | {"namespaces": namespaces}


_ANY = _resources([_ALL], _ALL, [_ALL], namespaces=[_ALL], cluster=True)
_ANY_PATH: Tree = {"verbs": [_ALL], "nonResourceURLs": [_ALL]}
_EVERYTHING: Tree = {"resourceRules": [_ANY], "nonResourceRules": [_ANY_PATH]}
_EVERYBODY = [_group("system:unauthenticated"), _group("system:authenticated")]
_MANAGER, _SCHEDULER = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
_WRITES = ["get", "create", "update"]
_LEASES = _resources(_WRITES, "coordination.k8s.io", ["leases"], namespaces=[_ALL])
_PROBES: Tree = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}

_SCHEMAS = (
    # name, level, precedence, distinguisher, subjects, rules
    ("catch-all", "catch-all", 10000, "ByUser", _EVERYBODY, _EVERYTHING),
    ("endpoint-controller", "workload-high", 150, "ByUser",
     [_MANAGER, _account("endpoint-controller"), _account("endpointslicemirroring-controller")],
     {"resourceRules": [_resources(_WRITES, "", ["endpoints"], namespaces=[_ALL])]}),
    ("exempt", "exempt", 1, "", [_group("system:masters")], _EVERYTHING),
    ("global-default", "global-default", 9900, "ByUser", _EVERYBODY, _EVERYTHING),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", [_MANAGER], _EVERYTHING),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", [_SCHEDULER], _EVERYTHING),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", [_account(_ALL)],
     _EVERYTHING),
    ("probes", "exempt", 2, "", _EVERYBODY, {"nonResourceRules": [_PROBES]}),
    ("service-accounts", "workload-low", 9000, "ByUser", [_group("system:serviceaccounts")],
     _EVERYTHING),
    ("system-leader-election", "leader-election", 100, "ByUser",
     [_MANAGER, _SCHEDULER, _account(_ALL)], {"resourceRules": [_LEASES]}),
    ("system-node-high", "node-high", 400, "ByUser", [_group("system:nodes")],
     {"resourceRules": [
         _resources([_ALL], "", ["nodes", "nodes/status"], namespaces=[_ALL], cluster=True),
         _resources([_ALL], "coordination.k8s.io", ["leases"], namespaces=[_ALL]),
     ]}),
    ("system-nodes", "system", 500, "ByUser", [_group("system:nodes")], _EVERYTHING),
    ("workload-leader-election", "leader-election", 200, "ByUser", [_account(_ALL)],
     {"resourceRules": [_LEASES]}),
)  # fmt: skip


class FlowControlBootstrap(Controller[str]):
    """Creates the missing flow schemas and priority levels, once; its queue holds `_ALL`."""

    def set_up(self) -> None:
        """Begin after a delay, if the objects are served."""
        if self.server.scheme.is_served(_FLOWCONTROL):
            self.queue.add_after(_ALL, START_DELAY_SECONDS)

    async def reconcile(self, _all: str) -> None:
        """Create the missing objects."""
        for name, *_ in (("exempt",), *_LEVELS):
            await self._create("prioritylevelconfigurations", _level(name))
        for schema in _SCHEMAS:
            await self._create("flowschemas", _schema(*schema))

    async def _create(self, resource: str, tree: Tree) -> None:
        await create_missing(self.context.resource(str(_FLOWCONTROL), resource), tree)


def _object(kind: str, name: str, spec: Tree) -> Tree:
    metadata = {"name": name, "annotations": dict(_MANAGED)}
    return {"kind": kind, "apiVersion": str(_FLOWCONTROL), "metadata": metadata, "spec": spec}


def _level(name: str) -> Tree:
    if name == "exempt":
        exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
        return _object("PriorityLevelConfiguration", name, {"type": "Exempt", "exempt": exempt})
    _, shares, lendable, queues = next(level for level in _LEVELS if level[0] == name)
    response: Tree = {"type": "Reject"}
    if queues is not None:
        names = ("queues", "handSize", "queueLengthLimit")
        response = {"type": "Queue", "queuing": dict(zip(names, queues, strict=True))}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": response,
        "lendablePercent": lendable,
    }
    spec = {"type": "Limited", "limited": limited}
    return _object("PriorityLevelConfiguration", name, spec)


def _schema(
    name: str, level: str, precedence: int, method: str, subjects: list[Tree], rules: Tree
) -> Tree:
    spec: Tree = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, **rules}],
    }
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return _object("FlowSchema", name, spec)
