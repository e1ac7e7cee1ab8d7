"""Defaulting of the apps group, besides the defaults that its types declare.

Mirrors pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.apps import v1
from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.embedded_type_meta import add_type_meta
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree, Type

_ROLLING_UPDATE = "RollingUpdate"


def _subtree(obj: Tree, name: str) -> Tree:
    subtree = obj.get(name)
    if not isinstance(subtree, dict):
        subtree = obj[name] = {}
    return subtree


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation that counts the changes of a daemon set's template. Before apps/v1 it was a
field."""


def _default_daemon_set(daemon_set: Tree) -> None:
    metadata = _subtree(daemon_set, "metadata")
    annotations = _subtree(metadata, "annotations")
    fill_missing(annotations, **{TEMPLATE_GENERATION: "0"})
    metadata["annotations"] = dict(sorted(annotations.items()))
    reorder_keys(metadata, ObjectMeta)
    spec = _subtree(daemon_set, "spec")
    fill_missing(spec, revisionHistoryLimit=10)
    strategy = _subtree(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = _ROLLING_UPDATE
    if strategy["type"] == _ROLLING_UPDATE:
        rolling = _subtree(strategy, "rollingUpdate")
        fill_missing(rolling, maxUnavailable=1, maxSurge=0)
        reorder_keys(rolling, v1.RollingUpdateDaemonSet)
    reorder_keys(strategy, v1.DaemonSetUpdateStrategy)
    reorder_keys(spec, v1.DaemonSetSpec)


def _default_deployment(deployment: Tree) -> None:
    spec = _subtree(deployment, "spec")
    fill_missing(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _subtree(spec, "strategy")
    if not strategy.get("type"):
        strategy["type"] = _ROLLING_UPDATE
    if strategy["type"] == _ROLLING_UPDATE:
        rolling = _subtree(strategy, "rollingUpdate")
        fill_missing(rolling, maxUnavailable="25%", maxSurge="25%")
        reorder_keys(rolling, v1.RollingUpdateDeployment)
    reorder_keys(strategy, v1.DeploymentStrategy)
    reorder_keys(spec, v1.DeploymentSpec)


def _default_replica_set(replica_set: Tree) -> None:
    spec = _subtree(replica_set, "spec")
    fill_missing(spec, replicas=1)
    reorder_keys(spec, v1.ReplicaSetSpec)


def _default_stateful_set(stateful_set: Tree) -> None:
    spec = _subtree(stateful_set, "spec")
    fill_missing(spec, replicas=1, revisionHistoryLimit=10)
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = _subtree(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = _ROLLING_UPDATE
        _subtree(strategy, "rollingUpdate")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == _ROLLING_UPDATE and rolling is not None:
        fill_missing(rolling, partition=0, maxUnavailable=1)
        reorder_keys(rolling, v1.RollingUpdateStatefulSetStrategy)
    reorder_keys(strategy, v1.StatefulSetUpdateStrategy)
    retention = _subtree(spec, "persistentVolumeClaimRetentionPolicy")
    for name in ("whenDeleted", "whenScaled"):
        if not retention.get(name):
            retention[name] = "Retain"
    reorder_keys(retention, v1.StatefulSetPersistentVolumeClaimRetentionPolicy)
    reorder_keys(spec, v1.StatefulSetSpec)
    add_type_meta(v1.StatefulSetSpec, spec)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.DaemonSet: _default_daemon_set,
    v1.Deployment: _default_deployment,
    v1.ReplicaSet: _default_replica_set,
    v1.StatefulSet: _default_stateful_set,
}
