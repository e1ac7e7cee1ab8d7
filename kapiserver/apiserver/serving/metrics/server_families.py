"""The metrics of one server as families of the exposition, without those of the process.

The names, types, labels and buckets are those of kube-apiserver;
`tests/apiserver/metrics/kubernetes_metrics.py` has the list.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.releases import NEWEST_MINOR
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.feature_gates import GATES
from kapiserver.apiserver.metrics import RPCLabels
from kapiserver.apiserver.serving.metrics.access_families import access_families
from kapiserver.apiserver.serving.metrics.admission_families import admission_families
from kapiserver.apiserver.serving.metrics.client_families import (
    client_families,
    conversion_families,
)
from kapiserver.apiserver.serving.metrics.cluster_families import cluster_families
from kapiserver.apiserver.serving.metrics.controller_families import (
    controller_families,
    workqueue_families,
)
from kapiserver.apiserver.serving.metrics.encryption_families import encryption_families
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.flow_control_families import flow_control_families
from kapiserver.apiserver.serving.metrics.peer_families import peer_families
from kapiserver.apiserver.serving.metrics.reload_families import reload_families
from kapiserver.apiserver.serving.metrics.request_families import RequestFamilies
from kapiserver.apiserver.serving.metrics.storage_families import storage_families
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.apiserver.version import version_info, versions_of

_BUILD_LABELS = {
    "build_date": "buildDate",
    "compiler": "compiler",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "git_version": "gitVersion",
    "go_version": "goVersion",
    "major": "major",
    "minor": "minor",
    "platform": "platform",
}
"""The fields of /version by the names of their labels."""
_RPC_LABELS = tuple(f"grpc_{name}" for name in RPCLabels._fields)


class ServerFamilies:
    """Iterates over the metrics of one server. Requests add series while a scrape is written, so
    each dict is copied before it is iterated over."""

    def __init__(self, server: Server, storage_size: int | None = None) -> None:
        """`storage_size` is the size of the store in bytes, None if it is not known."""
        self._server = server
        self._storage_size = storage_size

    def __iter__(self) -> Iterator[Family]:
        yield from RequestFamilies(self._server)
        yield self._build()
        if self._server.flow_control is not None:
            yield from flow_control_families(
                self._server.flow_control, self._server.metrics.in_flight
            )
        yield from access_families(self._server.metrics)
        yield from self._reloads()
        yield self._versions()
        yield self._feature_gates()
        yield from encryption_families(self._server.metrics.encryption)
        yield from admission_families(self._server.metrics)
        yield from client_families(self._server.metrics.client)
        yield from conversion_families(self._server.metrics.conversions)
        yield from self._audit()
        yield from storage_families(self._server, self._storage_size)
        yield from workqueue_families(self._server.metrics.workqueues)
        yield from controller_families(self._server.metrics.controllers)
        yield from self._api_services()
        if self._server.config.logical_clusters.enable_logical_clusters:
            yield from cluster_families(self._server.metrics.clusters)
        if self._server.peers is not None:
            yield from peer_families(self._server.metrics.peers)
        yield from self._rpc()

    def _build(self) -> Family:
        features = self._server.config.features
        version = version_info(
            versions_of(features.emulated_version, features.min_compatibility_version)
        )
        return Family(
            name="kubernetes_build_info",
            type="gauge",
            text="1, with the fields of /version.",
            labels=tuple(_BUILD_LABELS),
            series=[([version[field] for field in _BUILD_LABELS.values()], 1)],
        )

    def _reloads(self) -> Iterator[Family]:
        metrics = self._server.metrics
        for purpose, text, reloads in (
            ("authentication", "the authentication configuration", metrics.authentication.reloads),
            ("authorization", "the authorization configuration", metrics.authorization.reloads),
            ("encryption", "the encryption configuration", metrics.encryption_reloads),
        ):
            prefix = f"apiserver_{purpose}_config_controller"
            yield from reload_families(prefix, text, (), {(): reloads})
        yield from reload_families(
            "apiserver_manifest_admission_config_controller",
            "the static admission manifests of a plugin",
            ("plugin",),
            {(plugin,): reloads for plugin, reloads in metrics.manifest_reloads.items()},
        )

    def _versions(self) -> Family:
        features = self._server.config.features
        versions = versions_of(features.emulated_version, features.min_compatibility_version)
        emulated, compatible = (f"1.{minor}" for minor in versions)
        return Family(
            name="version_info",
            type="gauge",
            text="1, with the releases that the server is, emulates and stays compatible with.",
            labels=("component", "binary", "emulation", "min_compat"),
            series=[(("kube", f"1.{NEWEST_MINOR}.0", emulated, compatible), 1)],
        )

    def _feature_gates(self) -> Family:
        on = self._server.config.features.feature_gates
        return Family(
            name="kubernetes_feature_enabled",
            type="gauge",
            text="1 for each feature gate that is on, 0 for the others.",
            labels=("name", "stage"),
            series=[
                ((name, "" if gate.stage == "GA" else gate.stage), int(name in on))
                for name, gate in sorted(GATES.items())
            ],
        )

    def _audit(self) -> Iterator[Family]:
        metrics = self._server.metrics
        for name, text, label, counter in (
            ("event", "Audit events by backend.", "plugin", metrics.audit_events),
            (
                "error",
                "Audit events that were dropped or not written, by backend.",
                "plugin",
                metrics.audit_errors,
            ),
            ("level", "Audit events by level.", "level", metrics.audit_levels),
        ):
            yield numbers("counter", f"apiserver_audit_{name}_total", text, (label,), counter)
        yield Family(
            name="apiserver_audit_requests_rejected_total",
            type="counter",
            text="Requests that failed because their audit event was lost.",
            series=[((), metrics.audit_rejections)],
        )

    def _api_services(self) -> Iterator[Family]:
        metrics = self._server.metrics
        yield numbers(
            "gauge",
            "aggregator_unavailable_apiservice",
            "1 for each APIService that is not available, else 0.",
            ("name",),
            metrics.unavailable_api_services,
        )
        yield numbers(
            "counter",
            "aggregator_unavailable_apiservice_total",
            "How often an APIService became unavailable, by name and reason.",
            ("name", "reason"),
            metrics.lost_api_services,
        )

    def _rpc(self) -> Iterator[Family]:
        metrics = self._server.metrics.rpc
        yield Family(
            name="grpc_server_started_total",
            type="counter",
            text="RPCs that clients began.",
            labels=_RPC_LABELS[:-1],
            series=[(labels[:-1], count) for labels, count in metrics.started.values.items()],
        )
        yield counts(
            "grpc_server_handled_total",
            "RPCs that ended, by code.",
            _RPC_LABELS,
            metrics.handled,
        )
        yield histogram(
            "grpc_server_handling_seconds",
            "Seconds that an RPC took.",
            _RPC_LABELS,
            metrics.handled,
        )
