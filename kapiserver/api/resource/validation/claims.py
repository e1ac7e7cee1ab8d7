"""Validation of resource claims, claim templates and device classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, not_supported, required
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import IMMUTABLE, validate_annotations
from kapiserver.api.resource.v1 import ResourceClaimTemplateSpec
from kapiserver.api.resource.validation.common import (
    REQUESTS_MAX,
    name_of_item,
    validate_class_name,
    validate_fully_qualified_name,
    validate_items,
    validate_label,
    validate_opaque_config,
    validate_stored_opaque_config,
    validate_tolerations,
)
from kapiserver.api.resource.validation.expressions import (
    ExpressionRule,
    accept_expression,
    rule_for,
    validate_selectors,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_SUBREQUESTS_MAX = 8
_MODES = ("All", "ExactCount")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NO_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)


def validate_claim(obj: Tree) -> Iterator[FieldError]:
    """Validate a new claim."""
    return _validate_claim_spec(obj.get("spec") or {}, _SPEC)


def validate_claim_template(obj: Tree) -> Iterator[FieldError]:
    """Validate a new template of claims."""
    spec = obj.get("spec") or {}
    metadata, metadata_path = spec.get("metadata") or {}, _SPEC / "metadata"
    yield from validate_annotations(metadata.get("annotations"), metadata_path / "annotations")
    yield from validate_labels(metadata.get("labels"), metadata_path / "labels")
    for name, value in metadata.items():
        if value and name not in ("annotations", "labels"):
            yield forbidden(metadata_path / name, "cannot be set")
    yield from _validate_claim_spec(spec.get("spec") or {}, _SPEC / "spec")


def validate_template_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate that the spec of a claim template does not change."""
    spec = new.get("spec") or {}
    if spec != (old.get("spec") or {}):
        yield invalid(_SPEC, as_go_struct(spec, ResourceClaimTemplateSpec), IMMUTABLE)


def _validate_claim_spec(spec: Tree, path: Path) -> Iterator[FieldError]:
    devices, devices_path = spec.get("devices") or {}, path / "devices"
    known_names = request_names(devices)
    check = rule_for(_all_selectors(devices))

    def validate_request(request: Tree, path: Path) -> Iterator[FieldError]:
        return _validate_request(request, check, path)

    def validate_constraint(constraint: Tree, path: Path) -> Iterator[FieldError]:
        return _validate_constraint(constraint, known_names, path)

    def validate_config(config: Tree, path: Path) -> Iterator[FieldError]:
        yield from validate_request_references(config, known_names, path)
        yield from validate_opaque_config(config, path)

    yield from validate_items(
        devices.get("requests"),
        REQUESTS_MAX,
        validate_request,
        devices_path / "requests",
        key=name_of_item,
    )
    yield from validate_items(
        devices.get("constraints"), REQUESTS_MAX, validate_constraint, devices_path / "constraints"
    )
    yield from validate_items(
        devices.get("config"), REQUESTS_MAX, validate_config, devices_path / "config"
    )


def _all_selectors(devices: Tree) -> Iterable[Tree]:
    for request in devices.get("requests") or ():
        for exact_request in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            yield from exact_request.get("selectors") or ()


def request_names(devices: Tree) -> set[str]:
    """Return the names that constraints, configs and results can refer to: requests and
    subrequests."""
    result = set()
    for request in devices.get("requests") or ():
        result.add(name_of_item(request))
        result.update(
            f"{name_of_item(request)}/{name_of_item(subrequest)}"
            for subrequest in request.get("firstAvailable") or ()
        )
    return result


def validate_request_references(
    obj: Tree, known_names: set[str], path: Path
) -> Iterator[FieldError]:
    """Validate the `requests` of a constraint or of a config."""

    def validate_name(name: str, path: Path) -> Iterator[FieldError]:
        return validate_request_reference(name, known_names, path)

    requests, requests_path = obj.get("requests"), path / "requests"
    yield from validate_items(requests, REQUESTS_MAX, validate_name, requests_path, key=str)


def validate_request_reference(
    name: str, known_names: set[str], path: Path
) -> Iterator[FieldError]:
    """Validate the name of a request or of a subrequest."""
    parts = name.split("/")
    for part in parts if len(parts) <= 2 else ():
        yield from validate_format(names.dns1123_label, part, path)
    if name not in known_names:
        yield invalid(path, name, _NOT_A_REQUEST)


def _validate_request(request: Tree, check: ExpressionRule, path: Path) -> Iterator[FieldError]:
    yield from validate_label(request, "name", path)
    exactly, subrequests = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not subrequests:
        yield required(path, _ONE_OF)
    elif exactly is not None and subrequests:
        yield invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
    elif exactly is not None:
        yield from _validate_exact_request(exactly, check, path / "exactly")
    else:

        def validate_subrequest(subrequest: Tree, path: Path) -> Iterator[FieldError]:
            yield from validate_label(subrequest, "name", path)
            yield from _validate_exact_request(subrequest, check, path)

        first_available_path = path / "firstAvailable"
        yield from validate_items(
            subrequests,
            _SUBREQUESTS_MAX,
            validate_subrequest,
            first_available_path,
            key=name_of_item,
        )


def _validate_exact_request(
    request: Tree, check: ExpressionRule, path: Path
) -> Iterator[FieldError]:
    yield from validate_class_name(request, path)
    yield from validate_selectors(request.get("selectors"), check, path / "selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield invalid(path / "count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield invalid(path / "count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield not_supported(path / "allocationMode", mode, _MODES)
    yield from validate_tolerations(request.get("tolerations"), path / "tolerations")


def _validate_constraint(
    constraint: Tree, known_names: set[str], path: Path
) -> Iterator[FieldError]:
    yield from validate_request_references(constraint, known_names, path)
    fields = ("matchAttribute", "distinctAttribute")
    members = [name for name in fields if constraint.get(name) is not None]
    for name in members:
        yield from validate_fully_qualified_name(constraint[name], path / name)
    if not members:
        yield required(path, _NO_ATTRIBUTE)


# Device classes.


def validate_device_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new class."""
    return validate_device_class_update(obj, {})


def validate_device_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated class. Unchanged selectors and configs are not validated again."""
    spec, old_spec = new.get("spec") or {}, old.get("spec")
    selectors, config = spec.get("selectors"), spec.get("config")
    check, config_rule = rule_for(selectors or ()), validate_opaque_config
    if old_spec is not None and selectors == old_spec.get("selectors"):
        check = accept_expression
    if old_spec is not None and config == old_spec.get("config"):
        config_rule = validate_stored_opaque_config
    yield from validate_selectors(selectors, check, _SPEC / "selectors")
    yield from validate_items(config, REQUESTS_MAX, config_rule, _SPEC / "config")


def extended_resource_name_problems(name: str) -> list[str]:
    """Return the messages about the extended resource name of a device class."""
    messages = []
    if "/" not in name:
        messages.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        messages.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        messages.append('must not have "requests." prefix')
    return [*messages, *names.qualified_name(f"requests.{name}")]
