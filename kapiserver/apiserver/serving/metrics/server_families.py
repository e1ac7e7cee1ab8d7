"""The metrics of one server as families of the exposition, without those of the process.

The names, types, labels and buckets are those of kube-apiserver;
`tests/apiserver/metrics/kubernetes_metrics.py` has the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import Deprecation, GroupVersion, find_deprecation
from kapiserver.api.releases import NEWEST_MINOR
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.metrics import (
    REQUEST_SECONDS,
    RESPONSE_BYTES,
    SLI_SECONDS,
    AdmissionLabels,
    MatchConditionLabels,
    MutatingPolicyLabels,
    PolicyLabels,
    RequestLabels,
    RequestSeries,
    ResourceRequests,
    RPCLabels,
    SharedSeries,
    StorageLabels,
    WebhookLabels,
)
from kapiserver.apiserver.serving.metrics.controller_families import (
    controller_families,
    workqueue_families,
)
from kapiserver.apiserver.serving.metrics.encryption_families import encryption_families
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.flow_control_families import flow_control_families
from kapiserver.apiserver.serving.metrics.peer_families import peer_families
from kapiserver.apiserver.serving.metrics.reload_families import key_fetch_families, reload_families
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.apiserver.version import version_info, versions_of
from kapiserver.metrics import Histogram

_REQUEST_LABELS = (*RequestLabels._fields, "component")
_SHARED_LABELS = tuple(name for name in _REQUEST_LABELS if name != "dry_run")
_COMPONENT = "apiserver"
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

    def __init__(self, server: Server) -> None:
        self._server = server

    def __iter__(self) -> Iterator[Family]:
        yield from self._requests()
        yield from self._deprecated_requests()
        yield self._build()
        yield from self._latencies()
        if self._server.flow_control is not None:
            yield from flow_control_families(
                self._server.flow_control, self._server.metrics.in_flight
            )
        yield from self._authentication()
        yield from self._authenticators()
        yield from self._reloads()
        yield self._versions()
        yield from encryption_families(self._server.metrics.encryption)
        yield from self._admission()
        yield from self._policies()
        yield from self._audit()
        yield from self._storage()
        yield from workqueue_families(self._server.metrics.workqueues)
        yield from controller_families(self._server.metrics.controllers)
        yield from self._api_services()
        if self._server.peers is not None:
            yield from peer_families(self._server.metrics.peers)
        yield from self._rpc()

    def _requests(self) -> Iterator[Family]:
        yield Family(
            name="apiserver_request_total",
            type="counter",
            text="Requests by verb, resource, scope and status.",
            labels=(*_REQUEST_LABELS, "code"),
            series=(
                ((*labels, _COMPONENT, str(status)), count)
                for labels, series in self._series()
                for status, count in list(series.statuses.items())
            ),
        )
        yield Family(
            name="apiserver_request_terminations_total",
            type="counter",
            text="Requests that the server ended in self-defence: they were too many, or took too "
            "long.",
            labels=(*_SHARED_LABELS, "code"),
            series=(
                ((*_shared_labels(labels), str(code)), count)
                for (labels, code), count in list(
                    self._server.metrics.requests.terminations.values.items()
                )
            ),
        )
        yield Family(
            name="apiserver_longrunning_requests",
            type="gauge",
            text="Open watches and other streams.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), value)
                for requests in self._resources()
                for labels, value in list(requests.long_running.values.items())
            ),
        )
        kinds = self._server.metrics.in_flight
        yield Family(
            name="apiserver_current_inflight_requests",
            type="gauge",
            text="Requests in flight, without watches.",
            labels=("request_kind",),
            series=[
                ((kind.kind,), kind.executing.value) for kind in (kinds.mutating, kinds.reading)
            ],
        )

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

    def _deprecated_requests(self) -> Iterator[Family]:
        requested = {
            (labels.group, labels.version, labels.resource, labels.subresource)
            for labels, _ in self._series()
            if labels.resource
        }
        yield Family(
            name="apiserver_requested_deprecated_apis",
            type="gauge",
            text="1 for each deprecated version that was requested.",
            labels=("group", "version", "resource", "subresource", "removed_release"),
            series=(
                ((*labels, f"1.{deprecation.removed_in}" if deprecation.removed_in else ""), 1)
                for labels in sorted(requested)
                if (deprecation := self._deprecation(*labels)) is not None
            ),
        )

    def _deprecation(
        self, group: str, version: str, name: str, subresource: str
    ) -> Deprecation | None:
        """Return the deprecation of a version of a resource; None if it is not deprecated. A
        subresource of another kind has a life cycle of its own."""
        group_version = GroupVersion(group, version)
        try:
            resource = self._server.scheme.resource(group_version, name)
        except NotRegistered:  # its definition is gone
            return None
        if any(each.kind for each in resource.subresources if each.name == subresource):
            return None
        return find_deprecation(resource, group_version)

    def _latencies(self) -> Iterator[Family]:
        yield Family(
            name="apiserver_request_duration_seconds",
            type="histogram",
            text="Seconds from the request's head to the end of its response; no watches.",
            labels=_REQUEST_LABELS,
            series=(
                ((*labels, _COMPONENT), series.seconds)
                for labels, series in self._series()
                if any(series.seconds.counts)
            ),
            bounds=REQUEST_SECONDS,
        )
        yield Family(
            name="apiserver_request_sli_duration_seconds",
            type="histogram",
            text="Seconds of a request without the time in admission webhooks and queues; no "
            "watches.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), shared.sli_seconds)
                for labels, shared in self._shared()
                if any(shared.sli_seconds.counts)
            ),
            bounds=SLI_SECONDS,
        )
        yield Family(
            name="apiserver_response_sizes",
            type="histogram",
            text="Bytes of the bodies that GET and LIST returned.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), shared.body_bytes)
                for labels, shared in self._shared()
                if any(shared.body_bytes.counts)
            ),
            bounds=RESPONSE_BYTES,
        )

    def _resources(self) -> Sequence[ResourceRequests]:
        return [*self._server.metrics.requests.resources.values()]

    def _series(self) -> Iterator[tuple[RequestLabels, RequestSeries]]:
        for requests in self._resources():
            yield from list(requests.series.items())

    def _shared(self) -> Iterator[tuple[RequestLabels, SharedSeries]]:
        for requests in self._resources():
            yield from list(requests.shared.items())

    def _authentication(self) -> Iterator[Family]:
        metrics = self._server.metrics
        yield histogram(
            "authentication_duration_seconds",
            "Seconds that the authentication of a request took, by result.",
            ("result",),
            metrics.authentication_seconds,
        )
        yield counts(
            "authentication_attempts",
            "Authenticated requests by result: success, failure (no credentials) or error.",
            ("result",),
            metrics.authentication_seconds,
        )
        yield numbers(
            "counter",
            "authenticated_user_requests",
            "Authenticated requests by user; only well-known users have a label of their own.",
            ("username",),
            metrics.user_requests,
        )

    def _authenticators(self) -> Iterator[Family]:
        metrics = self._server.metrics.authentication
        for kind, text in (
            ("legacy", "Accepted service account tokens of Secrets."),
            ("stale", "Accepted service account tokens after their expiry before extension."),
            ("valid", "Accepted service account tokens before their expiry before extension."),
        ):
            count = metrics.account_tokens.values.get(kind, 0)
            yield Family(
                name=f"serviceaccount_{kind}_tokens_total",
                type="counter",
                text=text,
                series=[((), count)],
            )
        yield histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Remaining life of the client certificates of requests.",
            (),
            metrics.certificate_seconds,
        )
        yield histogram(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "Seconds that the verification of a token took, by result and hash of its issuer.",
            ("result", "jwt_issuer_hash"),
            metrics.jwt_seconds,
        )
        yield from key_fetch_families(metrics.key_fetches)

    def _reloads(self) -> Iterator[Family]:
        metrics = self._server.metrics
        for purpose, text, reloads in (
            ("authentication", "the authentication configuration", metrics.authentication.reloads),
            ("authorization", "the authorization configuration", metrics.authorization_reloads),
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

    def _admission(self) -> Iterator[Family]:
        yield histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "Seconds that one admission plugin took for one request.",
            AdmissionLabels._fields,
            self._server.metrics.admission_seconds,
        )
        yield from self._webhooks()
        yield from self._match_conditions()

    def _webhooks(self) -> Iterator[Family]:
        metrics = self._server.metrics.webhooks
        prefix = "apiserver_admission_webhook"
        yield histogram(
            f"{prefix}_admission_duration_seconds",
            "Seconds that one call of an admission webhook took.",
            WebhookLabels._fields,
            metrics.seconds,
        )
        yield Family(
            name=f"{prefix}_request_total",
            type="counter",
            text="Calls of admission webhooks by status code.",
            labels=(*WebhookLabels._fields, "code"),
            series=[
                ((*labels, str(code)), count)
                for (labels, code), count in metrics.requests.values.items()
            ],
        )
        yield Family(
            name=f"{prefix}_rejection_count",
            type="counter",
            text="Requests that an admission webhook rejected, or that failed with its call.",
            labels=("name", "type", "operation", "error_type", "rejection_code"),
            series=[
                ((labels.name, labels.type, labels.operation, error_type, str(code)), count)
                for (labels, error_type, code), count in metrics.rejections.values.items()
            ],
        )
        yield numbers(
            "counter",
            f"{prefix}_fail_open_count",
            "Failed calls of admission webhooks whose failurePolicy is Ignore.",
            ("name", "type"),
            metrics.failed_open,
        )

    def _match_conditions(self) -> Iterator[Family]:
        metrics = self._server.metrics.match_conditions
        for name, text, counter in (
            ("evaluation_errors", "Match conditions that failed.", metrics.errors),
            ("exclusions", "Requests that match conditions excluded.", metrics.exclusions),
        ):
            full_name = f"apiserver_admission_match_condition_{name}_total"
            yield numbers("counter", full_name, text, MatchConditionLabels._fields, counter)

    def _policies(self) -> Iterator[Family]:
        metrics = self._server.metrics
        histograms: tuple[tuple[str, Sequence[str], Histogram[Any]], ...] = (
            ("validating", PolicyLabels._fields, metrics.validating_policy_seconds),
            ("mutating", MutatingPolicyLabels._fields, metrics.mutating_policy_seconds),
        )
        for kind, labels, observed in histograms:
            yield counts(
                f"apiserver_{kind}_admission_policy_check_total",
                f"Decisions of expressions of {kind} admission policies, by action taken.",
                labels,
                observed,
            )
            yield histogram(
                f"apiserver_{kind}_admission_policy_check_duration_seconds",
                f"Seconds that an expression of a {kind} admission policy took.",
                labels,
                observed,
            )

    def _storage(self) -> Iterator[Family]:
        yield histogram(
            "etcd_request_duration_seconds",
            "Seconds that one operation of the store took, whichever backend it is.",
            StorageLabels._fields,
            self._server.metrics.storage_seconds,
        )
        yield counts(
            "etcd_requests_total",
            "Operations of the store, whichever backend it is.",
            StorageLabels._fields,
            self._server.metrics.storage_seconds,
        )
        labels = ("group", "resource")
        stores = [
            ((store.resource.group, store.resource.name), store)
            for store in self._server.stores.in_use()
        ]
        yield Family(
            name="apiserver_resource_objects",
            type="gauge",
            text="Objects in the watch cache.",
            labels=labels,
            series=((names, store.cache.count) for names, store in stores),
        )
        yield Family(
            name="apiserver_watch_cache_resource_version",
            type="gauge",
            text="Revision up to which the watch cache has seen the store.",
            labels=labels,
            series=((names, store.cache.revision) for names, store in stores),
        )
        yield Family(
            name="apiserver_watch_cache_events_received_total",
            type="counter",
            text="Changes that the watch cache got from the store.",
            labels=labels,
            series=((names, store.cache.events_received) for names, store in stores),
        )
        yield Family(
            name="apiserver_watch_events_total",
            type="counter",
            text="Events written to watchers.",
            labels=("group", "version", "resource"),
            series=(
                ((version.group, version.version, store.resource.name), count)
                for _, store in stores
                for version, count in list(store.events_sent.items())
            ),
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


def _shared_labels(labels: RequestLabels) -> Sequence[str]:
    return (labels.verb, *labels[2:], _COMPONENT)
