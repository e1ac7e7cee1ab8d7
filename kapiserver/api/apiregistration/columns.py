"""Table columns of the apiregistration group."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, Column, Columns
from kapiserver.api.types import Tree


def _service(api_service: Tree) -> str:
    service = value_at(api_service, "spec", "service")
    if service is None:
        return "Local"
    return f"{service.get('namespace') or ''}/{service.get('name') or ''}"


def _available(api_service: Tree) -> str:
    for condition in value_at(api_service, "status", "conditions") or ():
        if condition.get("type") == "Available":
            status = condition.get("status") or ""
            return status if status == "True" else f"{status} ({condition.get('reason') or ''})"
    return "Unknown"


COLUMNS: dict[str, Columns] = {
    "APIService": Columns(
        (
            NAME,
            Column(
                "Service",
                _service,
                "Service in front of the server, or Local for the API server itself.",
            ),
            Column(
                "Available", _available, "Whether the server is available, with the reason if not."
            ),
            AGE,
        )
    ),
}
