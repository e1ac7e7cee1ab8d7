"""The filters that every request passes before its handler, one filter a module.

A filter takes the server and the next handler, and returns a handler that wraps it. A handler that
does nothing with the response is not a coroutine: it returns what the next handler returns, which
saves 1,500 instructions. To act when the response or the stream has ended, a filter calls
`Request.on_complete`. The listener bounds the request line and the headers before the first filter
runs (`serving/http1/connection.py`).
"""

from __future__ import annotations

from kapiserver.apiserver.context import Filter
from kapiserver.apiserver.filters.access_log import log_access
from kapiserver.apiserver.filters.audit import assign_audit_id
from kapiserver.apiserver.filters.audit_events import (
    audit_failed_authentication,
    audit_requests,
)
from kapiserver.apiserver.filters.authentication import authenticate
from kapiserver.apiserver.filters.authorization import authorize
from kapiserver.apiserver.filters.compression import compress_responses
from kapiserver.apiserver.filters.deadline import apply_deadline
from kapiserver.apiserver.filters.faults import inject_faults
from kapiserver.apiserver.filters.flow_control import apply_flow_control
from kapiserver.apiserver.filters.headers import add_headers
from kapiserver.apiserver.filters.impersonation import impersonate
from kapiserver.apiserver.filters.in_flight import limit_in_flight
from kapiserver.apiserver.filters.insecure_port import refuse_web_pages
from kapiserver.apiserver.filters.memory import limit_memory
from kapiserver.apiserver.filters.metrics import record_metrics
from kapiserver.apiserver.filters.page import serve_page
from kapiserver.apiserver.filters.recovery import respond_to_errors
from kapiserver.apiserver.filters.retry_after import send_retry_after
from kapiserver.apiserver.filters.slow_requests import log_slow_requests
from kapiserver.apiserver.filters.tracing import trace_requests

FILTERS: tuple[Filter, ...] = (
    assign_audit_id,  # outermost: the log and every response name the id
    record_metrics,  # around every response, errors included
    log_slow_requests,  # begins the trace: before every filter that opens a span
    log_access,  # logs the status that the client gets
    send_retry_after,  # before add_headers: this response has the audit id alone, as in Kubernetes
    add_headers,  # outside respond_to_errors: an error response has warnings too
    compress_responses,  # compresses error responses too
    respond_to_errors,  # around every filter and handler that may raise
    apply_deadline,  # around every filter and handler that may take long
    refuse_web_pages,  # before authenticate: the insecure port has set the user
    audit_failed_authentication,  # outside authenticate, which raises the error
    serve_page,  # before authenticate: the page needs no credentials, and its cookie names a user
    authenticate,  # before impersonate, which checks what the user may do
    trace_requests,  # after authenticate: it trusts the trace context of administrators alone
    audit_requests,  # before filters that refuse requests: these are recorded too
    impersonate,  # before the filters that read the user
    limit_memory,  # after authenticate: it closes connections on which nobody has authenticated
    limit_in_flight,  # administrators are exempt; only if flow control is off
    apply_flow_control,  # classifies by user, before anything that takes long
    authorize,  # a forbidden request takes its seats, and does no other work
    inject_faults,  # last: a test's faults see the user and the decision
)
"""The filters in the order in which a request passes through them, the outermost first."""
