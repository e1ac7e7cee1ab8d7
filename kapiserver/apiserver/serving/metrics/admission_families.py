"""The metrics of admission: plugins, webhooks, their match conditions, and policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kapiserver.apiserver.metrics import (
    AdmissionLabels,
    MatchConditionLabels,
    MatchConditionMetrics,
    Metrics,
    MutatingPolicyLabels,
    PodSecurityLabels,
    PodSecurityMetrics,
    PolicyLabels,
    StepLabels,
    WebhookLabels,
    WebhookMetrics,
)
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Histogram


def admission_families(metrics: Metrics) -> Iterator[Family]:
    """Yield the families of plugins, webhooks, match conditions and policies."""
    yield histogram(
        "apiserver_admission_controller_admission_duration_seconds",
        "Seconds that one admission plugin took for one request.",
        AdmissionLabels._fields,
        metrics.admission_seconds,
    )
    yield histogram(
        "apiserver_admission_step_admission_duration_seconds",
        "Seconds that all admission plugins of one step took for one request.",
        StepLabels._fields,
        metrics.admission_step_seconds,
    )
    yield from _pod_security(metrics.pod_security)
    yield from _webhooks(metrics.webhooks)
    yield from _match_conditions(metrics.match_conditions)
    yield from _policies(metrics)


def _pod_security(metrics: PodSecurityMetrics) -> Iterator[Family]:
    labels = ("request_operation", "resource", "subresource")
    yield numbers(
        "counter",
        "pod_security_evaluations_total",
        "Evaluations of policies of Pod Security.",
        PodSecurityLabels._fields,
        metrics.evaluations,
    )
    yield numbers(
        "counter",
        "pod_security_exemptions_total",
        "Writes that are exempt from Pod Security.",
        labels,
        metrics.exemptions,
    )
    yield numbers(
        "counter",
        "pod_security_errors_total",
        "Errors in the labels of namespaces, by whether they refused the write.",
        ("fatal", *labels),
        metrics.errors,
    )


def _webhooks(metrics: WebhookMetrics) -> Iterator[Family]:
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


def _match_conditions(metrics: MatchConditionMetrics) -> Iterator[Family]:
    for name, text, counter in (
        ("evaluation_errors", "Match conditions that failed.", metrics.errors),
        ("exclusions", "Requests that match conditions excluded.", metrics.exclusions),
    ):
        full_name = f"apiserver_admission_match_condition_{name}_total"
        yield numbers("counter", full_name, text, MatchConditionLabels._fields, counter)


def _policies(metrics: Metrics) -> Iterator[Family]:
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
