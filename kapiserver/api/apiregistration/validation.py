"""Validation of API services.

Mirrors pkg/apis/apiregistration/validation of k8s.io/kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.common import validate_format, validate_required
from kapiserver.api.errors import FieldError, Path, invalid, not_supported_in_order, required
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_STATUSES = ("True", "False", "Unknown")


def validate_api_service(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated API service."""
    spec = obj.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    expected_name = f"{version}.{group}"
    for part in ("generateName", "name"):
        name = obj["metadata"].get(part) or ""
        if name and name != expected_name and not names.path_segment(name):
            detail = f'must be `spec.version+"."+spec.group`: "{expected_name}"'
            yield invalid(Path("metadata") / part, name, detail)
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        yield required(_SPEC / "group", detail)
    if group:
        for message in names.dns1123_subdomain(group)[:1]:
            yield invalid(_SPEC / "group", group, message)
    yield from validate_format(names.dns1035_label, version, _SPEC / "version")
    for field, maximum in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field) or 0
        if not 0 < value <= maximum:
            yield invalid(_SPEC / field, value, f"must be positive and less than {maximum}")
    yield from _validate_server(spec)


def _validate_server(spec: Tree) -> Iterator[FieldError]:
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure, verify_path = bool(spec.get("insecureSkipTLSVerify")), _SPEC / "insecureSkipTLSVerify"
    if service is None:
        if bundle:
            size = f"{len(bundle.rstrip('=')) * 3 // 4} bytes"
            yield invalid(_SPEC / "caBundle", size, "local APIServices may not have a caBundle")
        if insecure:
            yield invalid(
                verify_path, insecure, "local APIServices may not have insecureSkipTLSVerify"
            )
        return
    for field in ("namespace", "name"):
        yield from validate_required(service, field, _SPEC / "service")
    port = service.get("port")
    if port is not None and (messages := names.port_number(port)):
        detail = f"port is not valid: {', '.join(messages)}"
        yield invalid(_SPEC / "service" / "port", port, detail)
    if insecure and bundle:
        yield invalid(verify_path, insecure, "may not be true if caBundle is present")


def validate_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of an API service."""
    for index, condition in enumerate(value_at(new, "status", "conditions") or ()):
        if condition.get("status") not in _STATUSES:
            status_path = (Path("status") / "conditions")[index] / "status"
            yield not_supported_in_order(status_path, condition.get("status") or "", _STATUSES)
