"""Serves /metrics in the Prometheus text format or in OpenMetrics.

The only module that knows prometheus-client; it is loaded at the first scrape.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import MethodNotAllowed
from kapiserver.apiserver.metrics import (
    AdmissionLabels,
    MatchConditionLabels,
    MutatingPolicyLabels,
    PolicyLabels,
    RequestLabels,
    RPCLabels,
    StorageLabels,
    WebhookLabels,
)
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse, Response, page_not_found
from kapiserver.metrics import Observations

_REQUEST_LABELS = (*RequestLabels._fields, "component")
_SLI_LABELS = tuple(name for name in _REQUEST_LABELS if name != "dry_run")
_COMPONENT = "apiserver"
_RPC_LABELS = tuple(f"grpc_{name}" for name in RPCLabels._fields)


async def serve_metrics(server: Server, request: Request) -> AnyResponse:
    """Return the response to a scrape. Raises MethodNotAllowed."""
    if request.path.strip("/") != "metrics":
        return page_not_found()
    if request.method != "GET":
        raise MethodNotAllowed
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(ServerCollector(server))
    encode, content_type = choose_encoder(request.header("Accept"))
    # A server with 2,000 series of requests needs 2 s of CPU time for the text.
    body = await server.stores.offloader.run_in_thread(encode, registry)
    return Response(media_type=content_type, body=body)


class ServerCollector(Collector):
    """Reads the metrics of one server, in a thread: requests may add series meanwhile, so it copies
    each dict before it iterates."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._latencies()
        yield from self._authentication()
        yield from self._authenticators()
        yield from self._admission()
        yield from self._policies()
        yield from self._audit()
        yield from self._storage()
        yield from self._workqueues()
        yield from self._rpc()

    def _requests(self) -> Iterator[Metric]:
        metrics = self._server.metrics
        # Several keys may have the same labels; PATCH requests have keys of their own.
        counts: dict[Sequence[str], float] = {}
        for series in metrics.requests.copy().values():
            for status, count in series.statuses.copy().items():
                labels = (*series.labels, _COMPONENT, str(status))
                counts[labels] = counts.get(labels, 0) + count
        yield _counter(
            "apiserver_request",
            "Requests by verb, resource, scope and status.",
            (*_REQUEST_LABELS, "code"),
            counts,
        )
        yield _gauge(
            "apiserver_longrunning_requests",
            "Open watches and other streams.",
            _REQUEST_LABELS,
            {
                (*labels, _COMPONENT): value
                for labels, value in metrics.long_running.values.copy().items()
            },
        )
        yield _gauge(
            "apiserver_current_inflight_requests",
            "Requests in flight, without watches.",
            ("request_kind",),
            {(kind,): value for kind, value in metrics.in_flight.values.copy().items()},
        )

    def _latencies(self) -> Iterator[Metric]:
        finite = [
            series
            for series in self._server.metrics.requests.copy().values()
            if sum(series.seconds.counts)
        ]
        yield _histogram(
            "apiserver_request_duration_seconds",
            "Seconds from the request's head to the end of its response; no watches.",
            _REQUEST_LABELS,
            _merged([((*series.labels, _COMPONENT), series.seconds) for series in finite]),
        )
        yield _histogram(
            "apiserver_request_sli_duration_seconds",
            "Seconds of a request without the time in admission webhooks and queues; no watches.",
            _SLI_LABELS,
            _merged([(_sli_labels(series.labels), series.sli_seconds) for series in finite]),
        )
        reads = [series for series in finite if series.labels.verb in ("GET", "LIST")]
        yield _histogram(
            "apiserver_response_sizes",
            "Bytes of the bodies that GET and LIST returned.",
            _REQUEST_LABELS,
            _merged([((*series.labels, _COMPONENT), series.body_bytes) for series in reads]),
        )

    def _authentication(self) -> Iterator[Metric]:
        metrics = self._server.metrics
        results = metrics.authentication_seconds.values.copy()
        yield _histogram(
            "authentication_duration_seconds",
            "Seconds that the authentication of a request took, by result.",
            ("result",),
            [((result,), observations) for result, observations in results.items()],
        )
        yield _untyped(
            "authentication_attempts",
            "Authenticated requests by result: success, failure (no credentials) or error.",
            ("result",),
            {(result,): sum(observations.counts) for result, observations in results.items()},
        )
        yield _untyped(
            "authenticated_user_requests",
            "Authenticated requests by user; only well-known users have a label of their own.",
            ("username",),
            {(name,): count for name, count in metrics.user_requests.values.copy().items()},
        )

    def _authenticators(self) -> Iterator[Metric]:
        metrics = self._server.metrics.authentication
        tokens = metrics.account_tokens.values.copy()
        for kind, text in (
            ("legacy", "Accepted service account tokens of Secrets."),
            ("stale", "Accepted service account tokens after their expiry before extension."),
            ("valid", "Accepted service account tokens before their expiry before extension."),
        ):
            yield _counter(f"serviceaccount_{kind}_tokens", text, (), {(): tokens.get(kind, 0)})
        yield _histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Remaining life of the client certificates of requests.",
            (),
            [((), each) for each in metrics.certificate_seconds.values.copy().values()],
        )
        yield _histogram(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "Seconds that the verification of a token took, by result and hash of its issuer.",
            ("result", "jwt_issuer_hash"),
            metrics.jwt_seconds.values.copy().items(),
        )
        yield _counter(
            "apiserver_authentication_config_controller_automatic_reloads",
            "Reloads of a changed authentication configuration, by status.",
            ("status",),
            _by_name(metrics.configuration_reloads.values.copy()),
        )

    def _audit(self) -> Iterator[Metric]:
        metrics = self._server.metrics
        yield _counter(
            "apiserver_audit_event",
            "Audit events by backend.",
            ("plugin",),
            {(name,): count for name, count in metrics.audit_events.values.items()},
        )
        yield _counter(
            "apiserver_audit_error",
            "Audit events that were dropped or not written, by backend.",
            ("plugin",),
            {(name,): count for name, count in metrics.audit_errors.values.items()},
        )
        yield _counter(
            "apiserver_audit_level",
            "Audit events by level.",
            ("level",),
            {(name,): count for name, count in metrics.audit_levels.values.items()},
        )
        yield _counter(
            "apiserver_audit_requests_rejected",
            "Requests that failed because their audit event was lost.",
            (),
            {(): metrics.audit_rejections},
        )

    def _admission(self) -> Iterator[Metric]:
        yield _histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "Seconds that one admission plugin took for one request.",
            AdmissionLabels._fields,
            self._server.metrics.admission_seconds.values.copy().items(),
        )
        yield from self._webhooks()
        yield from self._static_manifests()
        yield from self._match_conditions()

    def _webhooks(self) -> Iterator[Metric]:
        metrics = self._server.metrics.webhooks
        yield _histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Seconds that one call of an admission webhook took.",
            WebhookLabels._fields,
            metrics.seconds.values.copy().items(),
        )
        yield _counter(
            "apiserver_admission_webhook_request",
            "Calls of admission webhooks by status code.",
            (*WebhookLabels._fields, "code"),
            {
                (*labels, str(code)): count
                for (labels, code), count in metrics.requests.values.copy().items()
            },
        )
        yield _untyped(
            "apiserver_admission_webhook_rejection_count",
            "Requests that an admission webhook rejected, or that failed with its call.",
            ("name", "type", "operation", "error_type", "rejection_code"),
            {
                (labels.name, labels.type, labels.operation, error_type, str(code)): count
                for (labels, error_type, code), count in metrics.rejections.values.copy().items()
            },
        )
        yield _untyped(
            "apiserver_admission_webhook_fail_open_count",
            "Failed calls of admission webhooks whose failurePolicy is Ignore.",
            ("name", "type"),
            dict(metrics.failed_open.values.copy().items()),
        )

    def _static_manifests(self) -> Iterator[Metric]:
        prefix = "apiserver_manifest_admission_config_controller"
        metrics, labels = self._server.metrics, ("status", "plugin")
        yield _counter(
            f"{prefix}_automatic_reloads",
            "Reads of static admission manifests, by status and plugin.",
            labels,
            dict(metrics.manifest_reloads.values.copy().items()),
        )
        yield _gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            "When static admission manifests were last read, by status and plugin.",
            labels,
            dict(metrics.manifest_reload_times.values.copy().items()),
        )

    def _policies(self) -> Iterator[Metric]:
        metrics = self._server.metrics
        for kind, fields, series in (
            ("validating", PolicyLabels._fields, metrics.validating_policy_seconds.values.copy()),
            (
                "mutating",
                MutatingPolicyLabels._fields,
                metrics.mutating_policy_seconds.values.copy(),
            ),
        ):
            yield _counter(
                f"apiserver_{kind}_admission_policy_check",
                f"Decisions of expressions of {kind} admission policies, by action taken.",
                fields,
                {labels: sum(observations.counts) for labels, observations in series.items()},
            )
            yield _histogram(
                f"apiserver_{kind}_admission_policy_check_duration_seconds",
                f"Seconds that an expression of a {kind} admission policy took.",
                fields,
                series.items(),
            )

    def _match_conditions(self) -> Iterator[Metric]:
        metrics = self._server.metrics.match_conditions
        for name, text, counter in (
            ("evaluation_errors", "Match conditions that failed.", metrics.errors),
            ("exclusions", "Requests that match conditions excluded.", metrics.exclusions),
        ):
            yield _counter(
                f"apiserver_admission_match_condition_{name}",
                text,
                MatchConditionLabels._fields,
                {tuple(labels): count for labels, count in counter.values.copy().items()},
            )

    def _storage(self) -> Iterator[Metric]:
        yield _histogram(
            "etcd_request_duration_seconds",
            "Seconds that one operation of the store took, whichever backend it is.",
            StorageLabels._fields,
            self._server.metrics.storage_seconds.values.copy().items(),
        )
        objects: dict[Sequence[str], float] = {}
        revisions: dict[Sequence[str], float] = {}
        watchers: dict[Sequence[str], float] = {}
        received: dict[Sequence[str], float] = {}
        sent: dict[Sequence[str], float] = {}
        for store in self._server.stores.in_use():
            labels = (store.resource.group, store.resource.name)
            objects[labels] = store.cache.count
            revisions[labels] = store.cache.revision
            watchers[labels] = store.watcher_count
            received[labels] = store.cache.events_received
            sent[labels] = store.events_sent
        names = ("group", "resource")
        yield _gauge("apiserver_resource_objects", "Objects in the watch cache.", names, objects)
        yield _gauge(
            "apiserver_watch_cache_resource_version",
            "Revision up to which the watch cache has seen the store.",
            names,
            revisions,
        )
        yield _gauge("apiserver_registered_watchers", "Open watches.", names, watchers)
        yield _counter(
            "apiserver_watch_cache_events_received",
            "Changes that the watch cache got from the store.",
            names,
            received,
        )
        yield _counter("apiserver_watch_events", "Events written to watchers.", names, sent)

    def _workqueues(self) -> Iterator[Metric]:
        metrics = self._server.metrics.workqueues
        for name, text, counter in (
            ("workqueue_adds", "Items added.", metrics.adds),
            ("workqueue_retries", "Items added again after an error.", metrics.retries),
        ):
            yield _counter(name, text, ("name",), _by_name(counter.values.copy()))
        yield _gauge(
            "workqueue_depth",
            "Items that wait.",
            ("name",),
            _by_name(metrics.depth.values.copy()),
        )
        for name, text, histogram in (
            (
                "workqueue_queue_duration_seconds",
                "Seconds that an item waited.",
                metrics.wait_seconds,
            ),
            (
                "workqueue_work_duration_seconds",
                "Seconds that a reconcile took.",
                metrics.work_seconds,
            ),
        ):
            values = [((queue,), each) for queue, each in histogram.values.copy().items()]
            yield _histogram(name, text, ("name",), values)

    def _rpc(self) -> Iterator[Metric]:
        metrics = self._server.metrics.rpc
        handled = metrics.handled.values.copy()
        yield _counter(
            "grpc_server_started",
            "RPCs that clients began.",
            _RPC_LABELS[:-1],
            {labels[:-1]: count for labels, count in metrics.started.values.copy().items()},
        )
        yield _counter(
            "grpc_server_handled",
            "RPCs that ended, by code.",
            _RPC_LABELS,
            {labels: sum(seconds.counts) for labels, seconds in handled.items()},
        )
        yield _histogram(
            "grpc_server_handling_seconds",
            "Seconds that an RPC took.",
            _RPC_LABELS,
            handled.items(),
        )


def _by_name(values: Mapping[str, float]) -> dict[Sequence[str], float]:
    return {(name,): value for name, value in values.items()}


def _numbers(
    family_class: type[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily],
    name: str,
    text: str,
    labels: Iterable[str],
    values: Mapping[Sequence[str], float],
) -> Metric:
    family = family_class(name, text, labels=list(labels))
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


_counter = functools.partial(_numbers, CounterMetricFamily)
_gauge = functools.partial(_numbers, GaugeMetricFamily)
# A counter without a type, because prometheus-client would append `_total` to its name.
_untyped = functools.partial(_numbers, UnknownMetricFamily)


def _sli_labels(labels: RequestLabels) -> Sequence[str]:
    return (labels.verb, *labels[2:], _COMPONENT)


def _merged(
    values: Iterable[tuple[Sequence[str], Observations]],
) -> Iterable[tuple[Sequence[str], Observations]]:
    """Add up the observations with the same labels."""
    merged: dict[Sequence[str], Observations] = {}
    for labels, observations in values:
        if labels not in merged:
            merged[labels] = Observations(observations.bounds)
        merged[labels].add(observations)
    return merged.items()


def _histogram(
    name: str,
    text: str,
    labels: Iterable[str],
    values: Iterable[tuple[Sequence[str], Observations]],
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=list(labels))
    for label_values, observations in values:
        bounds = [*(f"{bound:g}" for bound in observations.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(observations.counts), strict=True))
        family.add_metric(label_values, buckets, observations.total)
    return family
