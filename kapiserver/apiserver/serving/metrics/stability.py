"""Which metrics of Kubernetes 1.37 are stable, and which are in beta (KEP-1209); all others are in
alpha. The text of each metric begins with its level.
"""

from __future__ import annotations

STABLE = frozenset(
    (
        "apiserver_admission_controller_admission_duration_seconds",
        "apiserver_admission_step_admission_duration_seconds",
        "apiserver_admission_webhook_admission_duration_seconds",
        "apiserver_current_inflight_requests",
        "apiserver_longrunning_requests",
        "apiserver_request_duration_seconds",
        "apiserver_request_total",
        "apiserver_requested_deprecated_apis",
        "apiserver_response_sizes",
        "apiserver_storage_size_bytes",
        "kubernetes_healthcheck",
        "kubernetes_healthchecks_total",
    )
)
BETA = frozenset(
    (
        "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
        "apiserver_authentication_config_controller_automatic_reloads_total",
        "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
        "apiserver_authorization_config_controller_automatic_reloads_total",
        "apiserver_flowcontrol_current_executing_requests",
        "apiserver_flowcontrol_current_executing_seats",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_flowcontrol_dispatched_requests_total",
        "apiserver_flowcontrol_nominal_limit_seats",
        "apiserver_flowcontrol_rejected_requests_total",
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "apiserver_storage_events_received_total",
        "apiserver_validating_admission_policy_check_duration_seconds",
        "apiserver_validating_admission_policy_check_total",
        "apiserver_watch_events_sizes",
        "apiserver_watch_events_total",
        "kubernetes_build_info",
        "kubernetes_feature_enabled",
        "serviceaccount_legacy_tokens_total",
        "serviceaccount_stale_tokens_total",
        "serviceaccount_valid_tokens_total",
        "workqueue_adds_total",
        "workqueue_depth",
        "workqueue_longest_running_processor_seconds",
        "workqueue_queue_duration_seconds",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_work_duration_seconds",
    )
)


def stability_of(name: str) -> str:
    """Return the level of a metric: "STABLE", "BETA" or "ALPHA"."""
    if name in STABLE:
        return "STABLE"
    return "BETA" if name in BETA else "ALPHA"
