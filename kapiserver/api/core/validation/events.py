"""Validation of events."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import namespace_of, value_at
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.types import Tree

_FIELD_MAX = 128
_MESSAGE_MAX = 1024


def validate_event(obj: Tree, reporter: str = "reportingComponent") -> Iterator[FieldError]:
    """Validate that an event is in the namespace of its object. Events with an `eventTime` may be
    in any namespace; those about cluster-scoped objects must be in `default` or `kube-system`.
    `reporter` is the name of the reporting controller's field in the version of the request."""
    namespace = namespace_of(obj)
    object_namespace = value_at(obj, "involvedObject", "namespace") or ""
    is_new = bool(obj.get("eventTime"))
    if object_namespace:
        matches = is_new or namespace == object_namespace
    else:
        matches = namespace in (("default", "kube-system") if is_new else ("", "default"))
    if not matches:
        detail = "does not match event.namespace"
        yield invalid(Path("involvedObject") / "namespace", object_namespace, detail)
    if is_new:
        yield from _validate_new_style(obj, Path(reporter))
    yield from validate_format(names.dns1123_subdomain, namespace, Path("namespace"))


def _validate_new_style(obj: Tree, path: Path) -> Iterator[FieldError]:
    controller = obj.get("reportingComponent") or ""
    if not controller:
        yield required(path)
    yield from validate_format(names.qualified_name, controller, path)
    for name in ("reportingInstance", "action", "reason"):
        value = obj.get(name) or ""
        if not value:
            yield required(Path(name))
        if names.byte_length(value) > _FIELD_MAX:
            yield invalid(Path(name), "", f"can have at most {_FIELD_MAX} characters")
    if names.byte_length(obj.get("message") or "") > _MESSAGE_MAX:
        yield invalid(Path("message"), "", f"can have at most {_MESSAGE_MAX} characters")
