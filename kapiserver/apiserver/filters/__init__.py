"""What every request passes before its handler, one filter a module.

A filter takes the server and what comes next, and returns what stands in its place.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Filter
from kapiserver.apiserver.filters.audit import give_audit_id
from kapiserver.apiserver.filters.recovery import answer_errors

FILTERS: tuple[Filter, ...] = (
    give_audit_id,  # outermost: every answer carries the id, errors too
    answer_errors,  # around all that may raise
)
"""In the order in which a request meets them."""
