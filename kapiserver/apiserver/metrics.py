"""The metrics of one server, with the names, labels and buckets of kube-apiserver.

Mirrors metrics.go of endpoints/metrics, endpoints/filters and admission/metrics of
k8s.io/apiserver, and util/workqueue of client-go. Labels are bounded: a request for a resource that
is not served has empty resource labels, and the label of a path is its first segment.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kapiserver.apiserver.authentication.metrics import (
    AUTHENTICATION_SECONDS,
    AuthenticationMetrics,
)
from kapiserver.apiserver.request import LATENCY
from kapiserver.metrics import Counter, Gauge, Histogram, Observations

REQUEST_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
    4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
SLI_SECONDS = REQUEST_SECONDS[2:]
RESPONSE_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
ADMISSION_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
WEBHOOK_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
POLICY_SECONDS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
STORAGE_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
    4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
QUEUE_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


class RequestLabels(NamedTuple):
    """Labels of a request; beside them, `component` is always "apiserver"."""

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
        self.errors: Counter[MatchConditionLabels] = Counter()
        self.exclusions: Counter[MatchConditionLabels] = Counter()


class WebhookMetrics:
    """The metrics of admission webhooks."""

    def __init__(self) -> None:
        self.seconds: Histogram[WebhookLabels] = Histogram(WEBHOOK_SECONDS)
        self.requests: Counter[tuple[WebhookLabels, int]] = Counter()
        """By labels and status code."""
        self.rejections: Counter[tuple[WebhookLabels, str, int]] = Counter()
        """By labels, type of the error and status code."""
        self.failed_open: Counter[tuple[str, str]] = Counter()
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


class StorageLabels(NamedTuple):
    """Labels of an operation of the store; `operation` has etcd's name, `type` is a resource."""

    operation: str
    type: str


class RequestSeries:
    """The counts and histograms of all requests with the same labels."""

    __slots__ = ("body_bytes", "labels", "seconds", "sli_seconds", "statuses")

    def __init__(self, labels: RequestLabels) -> None:
        self.labels = labels
        self.statuses: dict[int, int] = {}
        self.seconds = Observations(REQUEST_SECONDS)
        self.sli_seconds = Observations(SLI_SECONDS)
        """Without the time that admission webhooks and queues took."""
        self.body_bytes = Observations(RESPONSE_BYTES)


class WorkQueueMetrics:
    """The metrics of work queues, by the queue's name."""

    def __init__(self) -> None:
        self.adds: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.depth: Gauge[str] = Gauge()
        self.wait_seconds: Histogram[str] = Histogram(QUEUE_SECONDS)
        self.work_seconds: Histogram[str] = Histogram(QUEUE_SECONDS)


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


class Metrics:
    """The metrics of one server; filters and stores update them, `exposition.py` reads them."""

    def __init__(self) -> None:
        self.requests: dict[Hashable, RequestSeries] = {}
        """By the parts of a request that determine its labels (`filters/metrics.py`)."""
        self.long_running: Gauge[RequestLabels] = Gauge()
        self.in_flight: Gauge[str] = Gauge()
        """By request kind: "readOnly" or "mutating"."""
        self.authentication_seconds: Histogram[str] = Histogram(AUTHENTICATION_SECONDS)
        """By result: "success", "failure" without credentials, or "error"."""
        self.authentication = AuthenticationMetrics()
        self.user_requests: Counter[str] = Counter()
        """Authenticated requests by `username_label`."""
        self.audit_events: Counter[str] = Counter()
        self.audit_errors: Counter[str] = Counter()
        """By audit backend."""
        self.audit_levels: Counter[str] = Counter()
        self.audit_rejections = 0
        """Requests that failed because their event was lost."""
        self.admission_seconds: Histogram[AdmissionLabels] = Histogram(ADMISSION_SECONDS)
        self.webhooks = WebhookMetrics()
        self.manifest_reloads: Counter[tuple[str, str]] = Counter()
        """Reads of changed static manifests, by status ("success" or "failure") and plugin."""
        self.manifest_reload_times: Gauge[tuple[str, str]] = Gauge()
        """The time of the last read, in seconds since the epoch."""
        self.match_conditions = MatchConditionMetrics()
        self.validating_policy_seconds: Histogram[PolicyLabels] = Histogram(POLICY_SECONDS)
        self.mutating_policy_seconds: Histogram[MutatingPolicyLabels] = Histogram(POLICY_SECONDS)
        self.storage_seconds: Histogram[StorageLabels] = Histogram(STORAGE_SECONDS)
        self.workqueues = WorkQueueMetrics()
        self.rpc = RPCMetrics()

    def observe_webhook(
        self, labels: WebhookLabels, seconds: float, code: int, *, error_type: str
    ) -> None:
        """Count one call of a webhook, and add it to the running request's latency. `error_type`
        says why the webhook rejected the request, "" if it did not."""
        self.webhooks.seconds.observe(labels, seconds)
        self.webhooks.requests.add((labels, code))
        if error_type:
            self.webhooks.rejections.add((labels, error_type, code))
        add_latency("mutating-webhook" if labels.type == "admit" else "validating-webhook", seconds)

    def observe_storage(self, operation: str, resource: str, seconds: float) -> None:
        """Count one operation of the store, and add it to the running request's latency."""
        self.storage_seconds.observe(StorageLabels(operation, resource), seconds)
        add_latency("storage", seconds)


def username_label(name: str) -> str:
    """Return the label of a user; only well-known users have one of their own."""
    if name in _WELL_KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"


_WELL_KNOWN_USERS = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)


def add_latency(part: str, seconds: float) -> None:
    """Add seconds to a part of the running request's latency."""
    latency = LATENCY.get()
    if latency is not None:
        latency[part] = latency.get(part, 0.0) + seconds
