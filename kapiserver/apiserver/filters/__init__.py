"""What every request passes before its handler, one filter a module.

A filter takes the server and what comes next, and returns what stands in its place. Sizes of the
request line and of headers are bounded before any of them, where bytes are read (`listener.py`).
"""

from __future__ import annotations

from kapiserver.apiserver.context import Filter
from kapiserver.apiserver.filters.access_log import log_access
from kapiserver.apiserver.filters.audit import give_audit_id
from kapiserver.apiserver.filters.authentication import authenticate
from kapiserver.apiserver.filters.authorization import authorize
from kapiserver.apiserver.filters.compression import compress_answers
from kapiserver.apiserver.filters.deadline import end_in_time
from kapiserver.apiserver.filters.headers import add_headers
from kapiserver.apiserver.filters.in_flight import limit_in_flight
from kapiserver.apiserver.filters.recovery import answer_errors

FILTERS: tuple[Filter, ...] = (
    give_audit_id,  # outermost: every answer carries the id and the log names it
    log_access,  # sees what the client sees
    add_headers,  # outside of recovery: a refused request has warnings too
    compress_answers,  # what the client is sent, errors included
    answer_errors,  # around all that may raise
    end_in_time,  # around all that may take long
    authenticate,  # before what depends on the user
    limit_in_flight,  # after it: administrators are never sent away
    authorize,  # last: what is refused must not cost more than a seat
)
"""In the order in which a request meets them."""
