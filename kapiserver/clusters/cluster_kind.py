"""The kind Cluster: its definition, and what other modules read of its objects."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec import Struct

from kapiserver.api.accessors import finalizers_of, is_terminating, name_of, uid_of, value_at
from kapiserver.api.conditions import condition
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree

CLUSTERS = GroupVersion("clusters.kapiserver.dev", "v1")
RESOURCE = "clusters"
KIND = "Cluster"
DEFINITION = f"{RESOURCE}.{CLUSTERS.group}"
FINALIZER = f"{CLUSTERS.group}/objects"
"""Keeps a deleted Cluster until the objects in it are deleted."""
READY = "Ready"
"""A phase, and the condition that says the same."""
USERS = "UsersConfigured"
"""The condition that says whether `spec.authentication` is valid."""
TERMINATING = "Terminating"

_LABEL = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
NAME = rf"{_LABEL}(?:\.{_LABEL}){{0,7}}"
"""The names of clusters: DNS labels, up to eight levels. `payments.acme` is below `acme`."""
_MAX_NAME = 253
MAX_ISSUERS = 16
MAX_NODES = 1000


class ClusterRecord(Struct, frozen=True, kw_only=True):
    """What a Cluster object says.

    phase       "" before it is prepared, then READY, and TERMINATING
    template    the template whose objects it shares; "" before it is prepared
    max_objects its quota; None: no limit
    issuers     the JWTAuthenticators of its users; see `end_users.py`
    nodes       how many simulated nodes it has; None: it does not simulate
    has_user_condition  whether its status says whether `issuers` are valid
    wake_time   when a controller in it has work next; None: never
    changed_at  when the phase changed, in seconds since the epoch; 0 if that is not known
    """

    name: str
    uid: str
    phase: str
    template: str
    is_terminating: bool
    has_finalizer: bool
    max_objects: int | None
    issuers: list[Tree]
    nodes: int | None
    has_user_condition: bool
    wake_time: str | None
    changed_at: float

    @property
    def is_open_to_requests(self) -> bool:
        """Whether it is prepared, and not being deleted."""
        return self.phase == READY and not self.is_terminating

    @property
    def settings(self) -> object:
        """What an open cluster was opened with: it is opened again when this has changed."""
        return self.issuers, self.nodes

    def key_root(self, root: str) -> str:
        """Return the prefix of its keys, without a slash at its end; `root` is that of the keys of
        all clusters."""
        return f"{root}/{self.uid}"


def record_of(tree: Tree) -> ClusterRecord:
    """Return the record of an object."""
    status: Tree = tree.get("status") or {}
    return ClusterRecord(
        name=name_of(tree),
        uid=uid_of(tree),
        phase=status.get("phase", ""),
        template=status.get("template", ""),
        is_terminating=is_terminating(tree),
        has_finalizer=FINALIZER in finalizers_of(tree),
        max_objects=value_at(tree, "spec", "quota", "objects"),
        issuers=value_at(tree, "spec", "authentication", "jwt") or [],
        nodes=_nodes(tree),
        has_user_condition=condition(tree, USERS) is not None,
        wake_time=status.get("wakeTime"),
        changed_at=_changed_at(tree),
    )


def _nodes(tree: Tree) -> int | None:
    simulation: Tree | None = value_at(tree, "spec", "simulation")
    return None if simulation is None else simulation.get("nodes", 1)


def _changed_at(tree: Tree) -> float:
    ready = condition(tree, READY)
    with suppress(ValueError):  # somebody else has written the status
        return datetime.fromisoformat(ready["lastTransitionTime"]).timestamp() if ready else 0.0
    return 0.0


def cluster(
    name: str,
    *,
    max_objects: int | None = None,
    issuers: Sequence[Tree] = (),
    nodes: int | None = None,
) -> Tree:
    """Return a new object; see ClusterRecord."""
    spec: Tree = {}
    if max_objects is not None:
        spec["quota"] = {"objects": max_objects}
    if issuers:
        spec["authentication"] = {"jwt": list(issuers)}
    if nodes is not None:
        spec["simulation"] = {"nodes": nodes}
    return {
        "apiVersion": str(CLUSTERS),
        "kind": KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def definition() -> Tree:
    """Return the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": CLUSTERS.group,
            "scope": "Cluster",
            "names": {
                "plural": RESOURCE,
                "singular": "cluster",
                "kind": KIND,
                "listKind": "ClusterList",
            },
            "versions": [
                {
                    "name": CLUSTERS.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        _column("Phase", "string", ".status.phase"),
                        _column("URL", "string", ".status.url"),
                        _column("Age", "date", ".metadata.creationTimestamp"),
                    ],
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _column(name: str, type_: str, path: str) -> Tree:
    return {"name": name, "type": type_, "jsonPath": path}


def _schema() -> Tree:
    name = {"type": "string", "pattern": f"^{NAME}$", "maxLength": _MAX_NAME}
    return _object(
        "A logical cluster: an API with objects, definitions, roles and users of its own.",
        metadata={"type": "object", "properties": {"name": name}},
        spec=_object(
            "What the cluster may have.",
            quota=_object(
                "Limits of the cluster.",
                objects={
                    "description": "The number of objects that the cluster may have, those that "
                    "every cluster has not counted. Without it there is no limit.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            ),
            authentication=_object(
                "Who the users of the cluster are, besides its administrator and its service "
                "accounts.",
                jwt={
                    "description": "Issuers of JSON Web Tokens, as the field jwt of an "
                    "AuthenticationConfiguration (apiserver.config.k8s.io/v1).",
                    "type": "array",
                    "maxItems": MAX_ISSUERS,
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            ),
            simulation=_object(
                "Lets pods run in the cluster on simulated nodes, as --simulate does.",
                nodes={
                    "description": "The number of nodes that the cluster has from the start.",
                    "type": "integer",
                    "format": "int32",
                    "minimum": 0,
                    "maximum": MAX_NODES,
                    "default": 1,
                },
            ),
        ),
        status=_status_schema(),
    )


def _status_schema() -> Tree:
    item = _object(
        "One aspect of the state.",
        **{
            field: {"type": "string"}
            for field in ("type", "status", "reason", "message", "lastTransitionTime")
        },
    )
    item["required"] = ["type", "status", "lastTransitionTime", "reason", "message"]
    return _object(
        "The state of the cluster, which the server writes.",
        phase=_text("Ready: it answers requests. Terminating: its objects are being deleted."),
        url=_text("The URL of its API, as the server that prepared it is reached."),
        template=_text("The template of the objects that every cluster has from the start."),
        wakeTime=_text("When a controller in the cluster has work next, while it is closed."),
        conditions={
            "description": "Ready: whether the cluster answers requests. UsersConfigured: whether "
            "spec.authentication is valid; while it is not, it names no users.",
            "type": "array",
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )


def _object(description: str, **properties: Any) -> Tree:
    return {"description": description, "type": "object", "properties": properties}


def _text(description: str) -> Tree:
    return {"description": description, "type": "string"}
