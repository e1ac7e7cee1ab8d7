"""The metrics of kube-apiserver that this server has: their types and labels."""

from __future__ import annotations

FLOW_CONTROL = {
    "apiserver_flowcontrol_nominal_limit_seats": ("gauge", "priority_level"),
    "apiserver_flowcontrol_lower_limit_seats": ("gauge", "priority_level"),
    "apiserver_flowcontrol_upper_limit_seats": ("gauge", "priority_level"),
    "apiserver_flowcontrol_current_limit_seats": ("gauge", "priority_level"),
    "apiserver_flowcontrol_target_seats": ("gauge", "priority_level"),
    "apiserver_flowcontrol_demand_seats_high_watermark": ("gauge", "priority_level"),
    "apiserver_flowcontrol_demand_seats_average": ("gauge", "priority_level"),
    "apiserver_flowcontrol_demand_seats_stdev": ("gauge", "priority_level"),
    "apiserver_flowcontrol_demand_seats_smoothed": ("gauge", "priority_level"),
    "apiserver_flowcontrol_current_r": ("gauge", "priority_level"),
    "apiserver_flowcontrol_dispatch_r": ("gauge", "priority_level"),
    "apiserver_flowcontrol_latest_s": ("gauge", "priority_level"),
    "apiserver_flowcontrol_next_s_bounds": ("gauge", "priority_level bound"),
    "apiserver_flowcontrol_next_discounted_s_bounds": ("gauge", "priority_level bound"),
    "apiserver_flowcontrol_seat_fair_frac": ("gauge", ""),
    "apiserver_flowcontrol_dispatched_requests_total": ("counter", "priority_level flow_schema"),
    "apiserver_flowcontrol_current_executing_requests": ("gauge", "priority_level flow_schema"),
    "apiserver_flowcontrol_current_executing_seats": ("gauge", "priority_level flow_schema"),
    "apiserver_current_inqueue_requests": ("gauge", "request_kind"),
    "apiserver_flowcontrol_current_inqueue_requests": ("gauge", "priority_level flow_schema"),
    "apiserver_flowcontrol_current_inqueue_seats": ("gauge", "priority_level flow_schema"),
    "apiserver_flowcontrol_work_estimated_seats": ("histogram", "priority_level flow_schema"),
    "apiserver_flowcontrol_watch_count_samples": ("histogram", "priority_level flow_schema"),
    "apiserver_flowcontrol_priority_level_seat_utilization": ("histogram", "phase priority_level"),
    "apiserver_flowcontrol_demand_seats": ("histogram", "priority_level"),
    "apiserver_flowcontrol_read_vs_write_current_requests": ("histogram", "phase request_kind"),
}
REQUEST = "verb dry_run group version resource subresource scope component"
SHARED = "verb group version resource subresource scope component"
WEBHOOK = "name type operation rejected"
KEY_USE = "transformation_type provider_name key_id_hash apiserver_id_hash"
KUBERNETES = FLOW_CONTROL | {
    "apiserver_storage_data_key_generation_duration_seconds": ("histogram", ""),
    "apiserver_storage_envelope_transformation_cache_misses_total": ("counter", ""),
    "aggregator_unavailable_apiservice": ("gauge", "name"),
    "aggregator_unavailable_apiservice_total": ("counter", "name reason"),
    "apiserver_storage_transformation_operations_total": (
        "counter",
        "resource transformation_type transformer_prefix status",
    ),
    "apiserver_storage_transformation_duration_seconds": (
        "histogram",
        "transformation_type transformer_prefix",
    ),
    "apiserver_storage_data_key_generation_failures_total": ("counter", ""),
    "version_info": ("gauge", "component binary emulation min_compat"),
    "kubernetes_feature_enabled": ("gauge", "name stage"),
    "apiserver_envelope_encryption_dek_source_cache_size": ("gauge", "provider_name"),
    "apiserver_envelope_encryption_invalid_key_id_from_status_total": (
        "counter",
        "provider_name error",
    ),
    "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds": ("gauge", KEY_USE),
    "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds": (
        "gauge",
        "provider_name key_id_hash apiserver_id_hash",
    ),
    "apiserver_envelope_encryption_key_id_hash_total": ("counter", KEY_USE),
    "apiserver_envelope_encryption_kms_operations_latency_seconds": (
        "histogram",
        "provider_name method_name grpc_status_code",
    ),
    "apiserver_request_total": ("counter", f"{REQUEST} code"),
    "apiserver_request_terminations_total": ("counter", f"{SHARED} code"),
    "kubernetes_build_info": (
        "gauge",
        "build_date compiler git_commit git_tree_state git_version go_version major minor platform",
    ),
    "apiserver_requested_deprecated_apis": (
        "gauge",
        "group version resource subresource removed_release",
    ),
    "apiserver_longrunning_requests": ("gauge", SHARED),
    "apiserver_current_inflight_requests": ("gauge", "request_kind"),
    "apiserver_flowcontrol_request_dispatch_no_accommodation_total": (
        "counter",
        "priority_level flow_schema",
    ),
    "apiserver_flowcontrol_rejected_requests_total": (
        "counter",
        "priority_level flow_schema reason",
    ),
    "apiserver_flowcontrol_request_execution_seconds": (
        "histogram",
        "priority_level flow_schema type",
    ),
    "apiserver_flowcontrol_request_wait_duration_seconds": (
        "histogram",
        "priority_level flow_schema execute",
    ),
    "apiserver_flowcontrol_request_queue_length_after_enqueue": (
        "histogram",
        "priority_level flow_schema",
    ),
    "apiserver_flowcontrol_priority_level_request_utilization": (
        "histogram",
        "phase priority_level",
    ),
    "apiserver_request_duration_seconds": ("histogram", REQUEST),
    "apiserver_request_sli_duration_seconds": ("histogram", SHARED),
    "apiserver_response_sizes": ("histogram", SHARED),
    "authentication_duration_seconds": ("histogram", "result"),
    "authentication_attempts": ("counter", "result"),
    "authenticated_user_requests": ("counter", "username"),
    "serviceaccount_legacy_tokens_total": ("counter", ""),
    "serviceaccount_stale_tokens_total": ("counter", ""),
    "serviceaccount_valid_tokens_total": ("counter", ""),
    "apiserver_client_certificate_expiration_seconds": ("histogram", ""),
    "apiserver_authentication_jwt_authenticator_latency_seconds": (
        "histogram",
        "result jwt_issuer_hash",
    ),
    "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds": (
        "gauge",
        "result jwt_issuer_hash apiserver_id_hash",
    ),
    "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info": (
        "gauge",
        "jwt_issuer_hash apiserver_id_hash hash",
    ),
    "apiserver_audit_event_total": ("counter", "plugin"),
    "apiserver_audit_error_total": ("counter", "plugin"),
    "apiserver_audit_level_total": ("counter", "level"),
    "apiserver_audit_requests_rejected_total": ("counter", ""),
    "apiserver_admission_controller_admission_duration_seconds": ("histogram", WEBHOOK),
    "apiserver_admission_webhook_admission_duration_seconds": ("histogram", WEBHOOK),
    "apiserver_admission_webhook_request_total": ("counter", f"{WEBHOOK} code"),
    "apiserver_admission_webhook_rejection_count": (
        "counter",
        "name type operation error_type rejection_code",
    ),
    "apiserver_admission_webhook_fail_open_count": ("counter", "name type"),
    "apiserver_admission_match_condition_evaluation_errors_total": (
        "counter",
        "name kind type operation",
    ),
    "apiserver_admission_match_condition_exclusions_total": (
        "counter",
        "name kind type operation",
    ),
    "apiserver_validating_admission_policy_check_total": (
        "counter",
        "policy policy_binding error_type enforcement_action",
    ),
    "apiserver_validating_admission_policy_check_duration_seconds": (
        "histogram",
        "policy policy_binding error_type enforcement_action",
    ),
    "apiserver_mutating_admission_policy_check_total": (
        "counter",
        "policy policy_binding error_type",
    ),
    "apiserver_mutating_admission_policy_check_duration_seconds": (
        "histogram",
        "policy policy_binding error_type",
    ),
    "etcd_request_duration_seconds": ("histogram", "operation group resource"),
    "etcd_requests_total": ("counter", "operation group resource"),
    "apiserver_resource_objects": ("gauge", "group resource"),
    "apiserver_watch_cache_resource_version": ("gauge", "group resource"),
    "apiserver_watch_cache_events_received_total": ("counter", "group resource"),
    "apiserver_watch_events_total": ("counter", "group version resource"),
    "workqueue_adds_total": ("counter", "name"),
    "workqueue_retries_total": ("counter", "name"),
    "workqueue_depth": ("gauge", "name"),
    "workqueue_queue_duration_seconds": ("histogram", "name"),
    "workqueue_work_duration_seconds": ("histogram", "name"),
    "ttl_after_finished_controller_job_deletion_duration_seconds": ("histogram", ""),
    "pod_gc_collector_force_delete_pods_total": ("counter", "namespace reason"),
    "job_controller_job_sync_duration_seconds": ("histogram", "completion_mode result action"),
    "job_controller_job_syncs_total": ("counter", "completion_mode result action"),
    "job_controller_jobs_finished_total": ("counter", "completion_mode result reason"),
    "job_controller_job_pods_finished_total": ("counter", "completion_mode result"),
    "job_controller_job_finished_indexes_total": ("counter", "status backoffLimit"),
    "job_controller_job_pods_creation_total": ("counter", "reason status"),
    "job_controller_pod_failures_handled_by_failure_policy_total": ("counter", "action"),
    "job_controller_terminated_pods_tracking_finalizer_total": ("counter", "event"),
    "job_controller_jobs_by_external_controller_total": ("counter", "controller_name"),
    "cronjob_controller_job_creation_skew_duration_seconds": ("histogram", ""),
    "horizontal_pod_autoscaler_controller_reconciliations_total": ("counter", "action error"),
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds": (
        "histogram",
        "action error",
    ),
    "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers": ("gauge", ""),
    "horizontal_pod_autoscaler_controller_desired_replicas": ("gauge", "namespace hpa_name"),
    "node_collector_zone_health": ("gauge", "zone"),
    "node_collector_zone_size": ("gauge", "zone"),
    "node_collector_unhealthy_nodes_in_zone": ("gauge", "zone"),
    "node_collector_evictions_total": ("counter", "zone"),
    "node_collector_update_node_health_duration_seconds": ("histogram", ""),
    "taint_eviction_controller_pod_deletions_total": ("counter", ""),
    "taint_eviction_controller_pod_deletion_duration_seconds": ("histogram", ""),
    **{
        f"apiserver_{file}_{name}": (type, f"{labels}{' plugin' * (file[0] == 'm')}")
        for file in (
            "authentication_config_controller",
            "authorization_config_controller",
            "encryption_config_controller",
            "manifest_admission_config_controller",
        )
        for name, type, labels in (
            ("automatic_reloads_total", "counter", "status apiserver_id_hash"),
            ("automatic_reload_last_timestamp_seconds", "gauge", "status apiserver_id_hash"),
            ("last_config_info", "gauge", "apiserver_id_hash hash"),
        )
    },
}
"""Type and labels of each metric in kube-apiserver 1.37."""
