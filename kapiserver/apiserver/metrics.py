"""The metrics of one server, with the names, labels and buckets of kube-apiserver.

Mirrors metrics.go of endpoints/metrics, endpoints/filters and admission/metrics of
k8s.io/apiserver, and util/workqueue of client-go. Labels are bounded: a request for a resource that
is not served has empty resource labels, and the label of a path is its first segment. The series of
a resource go when the resource is no longer served.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable
from time import perf_counter
from typing import ClassVar, NamedTuple, TypeAlias

from kapiserver.api.group import Resource
from kapiserver.apiserver.authentication.metrics import (
    AUTHENTICATION_SECONDS,
    AuthenticationMetrics,
)
from kapiserver.apiserver.authorization.metrics import AuthorizationMetrics
from kapiserver.apiserver.controller_metrics import ControllerMetrics
from kapiserver.apiserver.peers.metrics import PeerMetrics
from kapiserver.apiserver.webhooks.metrics import ClientMetrics, ConversionMetrics
from kapiserver.metrics import (
    MAX_USER_SERIES,
    Counter,
    Gauge,
    Histogram,
    Observations,
    Reloads,
    TimedGauge,
)
from kapiserver.storage.encryption.metrics import EncryptionMetrics
from kapiserver.storage.wrappers.metered_store import OPERATIONS, Observe

REQUEST_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
    4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
SLI_SECONDS = REQUEST_SECONDS[2:]
REQUEST_BYTES = tuple(map(float, range(50_000, 3_100_000, 100_000)))
RESPONSE_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
ADMISSION_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
WEBHOOK_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
POLICY_SECONDS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
KIND_USE = (0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
WRITE_VERBS = ("create", "update", "patch", "delete", "deletecollection")
OPEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10)
QUEUE_SECONDS = tuple(itertools.accumulate(range(9), lambda bound, _: bound * 10, initial=1e-8))
"""As kube-apiserver multiplies them, so that some are a bit less than a power of ten."""


class RequestLabels(NamedTuple):
    """Labels of a request; besides them, `component` is always "apiserver"."""

    verb: str
    dry_run: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str


class AdmissionLabels(NamedTuple):
    """Labels of a call of an admission plugin; `type` is "admit" or "validate"."""

    name: str
    type: str
    operation: str
    rejected: str


class StepLabels(NamedTuple):
    """Labels of one step of admission, with all its plugins; `type` is "admit" or "validate"."""

    type: str
    operation: str
    rejected: str


class PodSecurityLabels(NamedTuple):
    """Labels of the evaluation of a policy of Pod Security. `decision` is "allow" or "deny",
    `resource` "pod", "controller" or "namespace"."""

    decision: str
    policy_level: str
    policy_version: str
    mode: str
    request_operation: str
    resource: str
    subresource: str


class PodSecurityMetrics:
    """The metrics of the admission plugin PodSecurity."""

    def __init__(self) -> None:
        self.evaluations: Counter[PodSecurityLabels] = Counter()
        self.exemptions: Counter[tuple[str, str, str]] = Counter()
        """Exempt requests by operation, resource and subresource."""
        self.errors: Counter[tuple[str, str, str, str]] = Counter()
        """Errors by whether they refused the request, operation, resource and subresource."""


class WebhookLabels(NamedTuple):
    """Labels of a call of an admission webhook; `type` is "admit" or "validating"."""

    name: str
    type: str
    operation: str
    rejected: str


class MatchConditionLabels(NamedTuple):
    """Labels of match conditions: name and kind of their owner, a webhook or
    a policy."""

    name: str
    kind: str
    type: str
    operation: str


class MatchConditionMetrics:
    """The metrics of match conditions."""

    def __init__(self) -> None:
        self.errors: Counter[MatchConditionLabels] = Counter(limit=MAX_USER_SERIES)
        self.exclusions: Counter[MatchConditionLabels] = Counter(limit=MAX_USER_SERIES)


class WebhookMetrics:
    """The metrics of admission webhooks."""

    def __init__(self) -> None:
        self.seconds: Histogram[WebhookLabels] = Histogram(WEBHOOK_SECONDS, limit=MAX_USER_SERIES)
        self.requests: Counter[tuple[WebhookLabels, int]] = Counter(limit=MAX_USER_SERIES)
        """The requests, by labels and status code."""
        self.rejections: Counter[tuple[WebhookLabels, str, int]] = Counter(limit=MAX_USER_SERIES)
        """The rejections, by labels, type of the error and status code."""
        self.failed_open: Counter[tuple[str, str]] = Counter(limit=MAX_USER_SERIES)
        """Failed calls of webhooks with failurePolicy Ignore, by name and type."""


class PolicyLabels(NamedTuple):
    """Labels of the evaluation of an expression of an admission policy. `error_type` is "no_error",
    "compile_error", "invalid_error" or "out_of_budget"; `enforcement_action` is "allow", "deny",
    "audit" or "warn"."""

    policy: str
    policy_binding: str
    error_type: str
    enforcement_action: str


class MutatingPolicyLabels(NamedTuple):
    """Labels of the evaluation of a mutation of an admission policy."""

    policy: str
    policy_binding: str
    error_type: str


StorageLabels: TypeAlias = tuple[str, str, str]
"""The STORAGE_LABELS of an operation of the store, which has etcd's name."""
STORAGE_LABELS = ("operation", "group", "resource")


class SharedSeries:
    """The histograms of requests whose labels differ at most in `dry_run`."""

    __slots__ = ("body_bytes", "sli_seconds")

    def __init__(self) -> None:
        self.sli_seconds = Observations(SLI_SECONDS)
        """Without the time that admission webhooks and queues took."""
        self.body_bytes = Observations(RESPONSE_BYTES)


class RequestSeries:
    """The counts and histograms of all requests with the same labels."""

    __slots__ = ("seconds", "shared", "statuses")

    def __init__(self, shared: SharedSeries) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = Observations(REQUEST_SECONDS)
        self.shared = shared


class ResourceRequests:
    """The metrics of the requests for one resource.

    series        the series by all labels
    shared        the series by all labels with an empty `dry_run`
    long_running  open watches and other streams, by all labels with an empty `dry_run`
    """

    def __init__(self) -> None:
        self.series: dict[RequestLabels, RequestSeries] = {}
        self.shared: dict[RequestLabels, SharedSeries] = {}
        self.long_running: Gauge[RequestLabels] = Gauge()

    def with_labels(self, labels: RequestLabels) -> RequestSeries:
        """Return the series with these labels."""
        series = self.series.get(labels)
        if series is None:
            shared = self.shared.setdefault(labels._replace(dry_run=""), SharedSeries())
            series = self.series[labels] = RequestSeries(shared)
        return series

    def retain_versions(self, served: Collection[str]) -> None:
        """Remove the series of all other versions."""
        for values in (self.series, self.shared, self.long_running.values):
            for labels in [labels for labels in values if labels.version not in served]:
                del values[labels]


class AllRequests:
    """The metrics of all requests.

    resources   by group and name of the resource. Requests that are for no resource, or for one
                that is not served, have two empty strings
    by_key      the series of requests by what determines their labels
    """

    def __init__(self) -> None:
        self.resources: dict[tuple[str, str], ResourceRequests] = {}
        self.by_key: dict[Hashable, RequestSeries] = {}
        self.terminations: Counter[tuple[RequestLabels, int]] = Counter()
        """Requests that the server ended in self-defence, by labels and status."""

    def of(self, group: str, resource: str) -> ResourceRequests:
        """Return the metrics of the requests for one resource."""
        requests = self.resources.get((group, resource))
        if requests is None:
            requests = self.resources[group, resource] = ResourceRequests()
        return requests

    def retain_versions(self, group: str, resource: str, served: Collection[str]) -> None:
        """Remove the series of a resource, except those of its served versions. A request that
        still executes counts in the removed series."""
        self.by_key.clear()
        if not served:
            self.resources.pop((group, resource), None)
        elif (requests := self.resources.get((group, resource))) is not None:
            requests.retain_versions(served)

    @property
    def open_streams(self) -> float:
        """How many watches and other streams are open."""
        return sum(
            sum(requests.long_running.values.values()) for requests in self.resources.values()
        )


class WorkQueueMetrics:
    """The metrics of work queues, by the queue's name."""

    def __init__(self) -> None:
        self.adds: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.depth: Gauge[str] = Gauge()
        self.wait_seconds: Histogram[str] = Histogram(QUEUE_SECONDS)
        self.work_seconds: Histogram[str] = Histogram(QUEUE_SECONDS)
        self.running: dict[str, dict[object, float]] = {}
        """When the item that a worker has now was taken, in seconds of `time.perf_counter`, by the
        queue's name and the worker."""


class RPCLabels(NamedTuple):
    """Labels of an RPC, as grpc-ecosystem names them; `code` is the name of its status code."""

    type: str
    service: str
    method: str
    code: str


class RPCMetrics:
    """The metrics of RPCs; labels are names that the server registered."""

    def __init__(self) -> None:
        self.started: Counter[RPCLabels] = Counter()
        """The label `code` is empty."""
        self.handled: Histogram[RPCLabels] = Histogram(REQUEST_SECONDS)


class RequestsOfKind:
    """The requests that read, or those that change something.

    kind                        "readOnly" or "mutating"
    executing, waiting          their numbers; of long-running requests, watches that start count
    executing_use, waiting_use  for how long they used each share of their limits
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.executing, self.waiting = TimedGauge(perf_counter()), TimedGauge(perf_counter())
        self.executing_use = Observations(KIND_USE)
        self.waiting_use = Observations(KIND_USE)

    def flush(self, now: float, executing_limit: float, waiting_limit: float) -> None:
        """Add the times since the last call to the histograms."""
        for gauge, use, limit in (
            (self.executing, self.executing_use, executing_limit),
            (self.waiting, self.waiting_use, waiting_limit),
        ):
            for value, seconds in enumerate(gauge.take_times(now)):
                if seconds:
                    use.observe_for(value / limit, seconds)


class RequestKinds:
    """The requests in flight by kind."""

    READ_VERBS: ClassVar[frozenset[str]] = frozenset(("get", "list", "watch"))

    def __init__(self) -> None:
        self.reading = RequestsOfKind("readOnly")
        self.mutating = RequestsOfKind("mutating")

    def of(self, verb: str) -> RequestsOfKind:
        """Return the requests of the kind of a verb."""
        return self.reading if verb in self.READ_VERBS else self.mutating

    @property
    def executing(self) -> int:
        """How many requests are in flight."""
        return self.reading.executing.value + self.mutating.executing.value


class ClusterMetrics:
    """The metrics of the logical clusters of one process.

    open            how many are open
    open_seconds    seconds that opening one took, by result: "success" or "error"
    closes          how many were closed, by reason: "idle", "room" for another one, "changed"
                    settings, "deleted" or "shutdown"
    """

    def __init__(self) -> None:
        self.open = 0
        self.open_seconds: Histogram[str] = Histogram(OPEN_SECONDS)
        self.closes: Counter[str] = Counter()


class Metrics:
    """The metrics of one server: filters and stores update them, `ServerFamilies` reads them."""

    def __init__(self) -> None:
        self.requests = AllRequests()
        self.request_bytes: Histogram[tuple[str, str, str]] = Histogram(
            REQUEST_BYTES, limit=MAX_USER_SERIES
        )
        """Bytes of bodies by group, resource and verb."""
        self.in_flight = RequestKinds()
        self.authentication_seconds: Histogram[str] = Histogram(AUTHENTICATION_SECONDS)
        """Seconds by result: "success", "failure" without credentials, or "error"."""
        self.client = ClientMetrics()
        """The server's own requests to webhooks."""
        self.authentication = AuthenticationMetrics(self.client)
        self.user_requests: Counter[str] = Counter()
        """Authenticated requests by `username_label`."""
        self.audit_events: Counter[str] = Counter()
        self.audit_errors: Counter[str] = Counter()
        """The errors, by audit backend."""
        self.audit_levels: Counter[str] = Counter()
        self.audit_rejections = 0
        """Requests that failed because their event was lost."""
        self.admission_seconds: Histogram[AdmissionLabels] = Histogram(ADMISSION_SECONDS)
        self.admission_step_seconds: Histogram[StepLabels] = Histogram(ADMISSION_SECONDS)
        self.pod_security = PodSecurityMetrics()
        self.webhooks = WebhookMetrics()
        self.conversions = ConversionMetrics(self.client)
        self.authorization = AuthorizationMetrics(self.client)
        self.encryption_reloads = Reloads()
        self.encryption = EncryptionMetrics()
        self.manifest_reloads: dict[str, Reloads] = {}
        """The reloads of the static manifests, by admission plugin."""
        self.match_conditions = MatchConditionMetrics()
        self.validating_policy_seconds: Histogram[PolicyLabels] = Histogram(
            POLICY_SECONDS, limit=MAX_USER_SERIES
        )
        self.mutating_policy_seconds: Histogram[MutatingPolicyLabels] = Histogram(
            POLICY_SECONDS, limit=MAX_USER_SERIES
        )
        self.storage_seconds: Histogram[StorageLabels] = Histogram(REQUEST_SECONDS)
        self.storage_errors: Counter[StorageLabels] = Counter()
        self.storage_operations = 0
        """How many operations of the store have ended since the start."""
        self.workqueues = WorkQueueMetrics()
        self.controllers = ControllerMetrics()
        self.unavailable_api_services: Gauge[str] = Gauge(limit=MAX_USER_SERIES)
        """1 for each APIService that is not available, 0 for the others, by name."""
        self.lost_api_services: Counter[tuple[str, str]] = Counter(limit=MAX_USER_SERIES)
        """How often an APIService became unavailable, by name and reason."""
        self.rpc = RPCMetrics()
        self.peers = PeerMetrics()
        self.clusters = ClusterMetrics()

    def observe_webhook(
        self, labels: WebhookLabels, seconds: float, code: int, *, error_type: str
    ) -> None:
        """Count one call of a webhook. `error_type` says why the webhook rejected the request; it
        is "" if the webhook did not."""
        self.webhooks.seconds.observe(labels, seconds)
        self.webhooks.requests.add((labels, code))
        if error_type:
            self.webhooks.rejections.add((labels, error_type, code))

    def storage_observer(self, resource_at: Callable[[str], Resource | None]) -> Observe:
        """Return a function that counts an operation of the store under the resource of its key.
        Keys of the server's own, and those of definitions that are gone, count together."""

        def observe(operation: str, path: str, seconds: float, failed: bool) -> None:
            resource = resource_at(path)
            group, name = (resource.group, resource.name) if resource is not None else ("", "")
            labels = operation, group, name
            self.storage_operations += 1
            self.storage_seconds.observe(labels, seconds)
            if failed:
                self.storage_errors.add(labels)

        return observe

    def retain_versions(self, group: str, resource: str, served: Collection[str]) -> None:
        """Remove the series of a resource, except those of its served versions. Remove those of its
        storage if no version is served."""
        self.requests.retain_versions(group, resource, served)
        if not served:
            for verb in WRITE_VERBS:
                self.request_bytes.values.pop((group, resource, verb), None)
            for operation in OPERATIONS:
                labels = operation, group, resource
                self.storage_seconds.values.pop(labels, None)
                self.storage_errors.values.pop(labels, None)


def username_label(name: str) -> str:
    """Return the label of a user; only well-known users have one of their own."""
    if name in _WELL_KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"


_WELL_KNOWN_USERS = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
