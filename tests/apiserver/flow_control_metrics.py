"""The metrics of priority and fairness in kube-apiserver: their types and labels."""

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
    "apiserver_flowcontrol_current_inqueue_requests": ("gauge", "priority_level flow_schema"),
    "apiserver_flowcontrol_current_inqueue_seats": ("gauge", "priority_level flow_schema"),
    "apiserver_flowcontrol_work_estimated_seats": ("histogram", "priority_level flow_schema"),
    "apiserver_flowcontrol_watch_count_samples": ("histogram", "priority_level flow_schema"),
    "apiserver_flowcontrol_priority_level_seat_utilization": ("histogram", "phase priority_level"),
    "apiserver_flowcontrol_demand_seats": ("histogram", "priority_level"),
    "apiserver_flowcontrol_read_vs_write_current_requests": ("histogram", "phase request_kind"),
}
