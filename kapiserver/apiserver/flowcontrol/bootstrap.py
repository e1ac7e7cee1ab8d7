"""The FlowSchemas and PriorityLevelConfigurations that every cluster has.

Without the mandatory ones some requests would have no priority level: flow control counts on them
even while their objects are missing. The suggested ones give Leases, nodes and controllers their
own seats. Mirrors pkg/apis/flowcontrol/bootstrap of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree

FLOWCONTROL = GroupVersion("flowcontrol.apiserver.k8s.io", "v1")
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
"""The annotation whose value says whether the server maintains the spec of an object."""

_ALL = "*"


def _group(name: str) -> Tree:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Tree:
    return {"kind": "User", "user": {"name": name}}


def _rule(verbs: list[str], group: str, names: list[str], *, has_cluster_scope: bool) -> Tree:
    rule: Tree = {"verbs": verbs, "apiGroups": [group], "resources": names}
    if has_cluster_scope:
        rule["clusterScope"] = True
    return rule | {"namespaces": [_ALL]}


_ANY = _rule([_ALL], _ALL, [_ALL], has_cluster_scope=True)
_ANY_PATH: Tree = {"verbs": [_ALL], "nonResourceURLs": [_ALL]}
_EVERYTHING: Tree = {"resourceRules": [_ANY], "nonResourceRules": [_ANY_PATH]}
_EVERYBODY = [_group("system:unauthenticated"), _group("system:authenticated")]
_MANAGER, _SCHEDULER = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
_KUBE_SYSTEM: Tree = {
    "kind": "ServiceAccount",
    "serviceAccount": {"namespace": "kube-system", "name": _ALL},
}
_LEASES = _rule(
    ["get", "create", "update"], "coordination.k8s.io", ["leases"], has_cluster_scope=False
)
_PROBES: Tree = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
_NODE_HEALTH: Tree = {
    "resourceRules": [
        _rule([_ALL], "", ["nodes", "nodes/status"], has_cluster_scope=True),
        _rule([_ALL], "coordination.k8s.io", ["leases"], has_cluster_scope=False),
    ]
}


def _object(kind: str, name: str, spec: Tree) -> Tree:
    metadata = {"name": name, "annotations": {AUTO_UPDATE: "true"}}
    return {"kind": kind, "apiVersion": str(FLOWCONTROL), "metadata": metadata, "spec": spec}


def _exempt() -> Tree:
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    spec: Tree = {"type": "Exempt", "exempt": exempt}
    return _object("PriorityLevelConfiguration", "exempt", spec)


def _level(name: str, shares: int, lendable: int, queues: int = 0, hand_size: int = 0) -> Tree:
    """Return a level with queues for 50 requests each; without queues it rejects requests."""
    response: Tree = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand_size, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": response,
        "lendablePercent": lendable,
    }
    return _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


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


MANDATORY_LEVELS = (_level("catch-all", 5, 0), _exempt())
SUGGESTED_LEVELS = (
    _level("system", 30, 33, 64, 6),
    _level("node-high", 40, 25, 64, 6),
    _level("leader-election", 10, 0, 16, 4),
    _level("workload-high", 40, 50, 128, 6),
    _level("workload-low", 100, 90, 128, 6),
    _level("global-default", 20, 50, 128, 6),
)
MANDATORY_SCHEMAS = (
    _schema("exempt", "exempt", 1, "", [_group("system:masters")], _EVERYTHING),
    _schema("catch-all", "catch-all", 10000, "ByUser", _EVERYBODY, _EVERYTHING),
)
_NODES = [_group("system:nodes")]
_ACCOUNTS = [_group("system:serviceaccounts")]
_LEADERS = [_MANAGER, _SCHEDULER, _KUBE_SYSTEM]
SUGGESTED_SCHEMAS = (
    _schema("system-nodes", "system", 500, "ByUser", _NODES, _EVERYTHING),
    _schema("system-node-high", "node-high", 400, "ByUser", _NODES, _NODE_HEALTH),
    _schema("probes", "exempt", 2, "", _EVERYBODY, {"nonResourceRules": [_PROBES]}),
    _schema(
        "system-leader-election", "leader-election", 100, "ByUser", _LEADERS,
        {"resourceRules": [_LEASES]},
    ),
    _schema(
        "kube-controller-manager", "workload-high", 800, "ByNamespace", [_MANAGER], _EVERYTHING
    ),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", [_SCHEDULER], _EVERYTHING),
    _schema(
        "kube-system-service-accounts", "workload-high", 900, "ByNamespace", [_KUBE_SYSTEM],
        _EVERYTHING,
    ),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _ACCOUNTS, _EVERYTHING),
    _schema("global-default", "global-default", 9900, "ByUser", _EVERYBODY, _EVERYTHING),
)  # fmt: skip
