"""Validation of storage classes, CSI drivers, CSI nodes, attachments and capacities.

Mirrors pkg/apis/storage/validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.service_account_token import validate_token_expiration
from kapiserver.api.core.validation.common import (
    INT32_MAX,
    validate_format,
    validate_nonnegative_field,
    validate_range,
)
from kapiserver.api.core.validation.persistent_volumes import validate_inline_volume
from kapiserver.api.core.validation.resources import amount
from kapiserver.api.core.validation.volume_plugins import validate_driver_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.label_selectors import validate_label_key, validate_label_selector
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_KEYS_MAX = 512
_PARAMETERS_MAX = 256 * 1024
_MESSAGE_MAX = 1024
_NODE_ID_MAX = 256
_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")


def validate_storage_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated storage class."""
    yield from _validate_provisioner(obj.get("provisioner") or "", Path("provisioner"))
    yield from _validate_parameters(obj.get("parameters") or {}, Path("parameters"))
    policy = obj.get("reclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:
        yield not_supported(Path("reclaimPolicy"), policy, _RECLAIM_POLICIES)
    mode = obj.get("volumeBindingMode")
    if mode is None:
        yield required(Path("volumeBindingMode"))
    elif mode not in _BINDING_MODES:
        yield not_supported(Path("volumeBindingMode"), mode, _BINDING_MODES)
    yield from _validate_topologies(obj.get("allowedTopologies") or (), Path("allowedTopologies"))


def _validate_unchanged(new: Tree, old: Tree, *fields: str) -> Iterator[FieldError]:
    for name in fields:
        if (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(Path(name), f"updates to {name} are forbidden.")


def _validate_provisioner(name: str, path: Path) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    else:
        yield from validate_format(names.qualified_name, name.lower(), path)


def _validate_parameters(parameters: Mapping[str, str], path: Path) -> Iterator[FieldError]:
    if len(parameters) > _KEYS_MAX:
        yield too_long(path, _KEYS_MAX)
        return
    if "" in parameters:
        yield invalid(path, "", "field can not be empty.")
    if _size(parameters) > _PARAMETERS_MAX:
        yield too_long(path, _PARAMETERS_MAX)


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(f"{key}{value}".encode("utf-8", "replace")) for key, value in texts.items())


def _validate_topologies(terms: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    # kube-apiserver starts with as many empty terms as there are terms. Its results are kept.
    seen_terms: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        expressions_path = path[index] / "matchLabelExpressions"
        term_values: dict[str, set[str]] = {}
        expressions = term.get("matchLabelExpressions") or ()
        if not expressions:
            yield required(expressions_path)
        for position, expression in enumerate(expressions):
            key = expression.get("key") or ""
            values = expression.get("values") or []
            expression_path = expressions_path[position]
            yield from _validate_topology_values(values, expression_path / "values")
            yield from validate_label_key(key, expression_path / "key")
            if key in term_values:
                yield duplicate(expression_path / "key", key)
            term_values[key] = set(values)
        for _ in range(seen_terms.count(term_values)):
            yield duplicate(expressions_path, "")
        seen_terms.append(term_values)


def _validate_topology_values(values: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    for index, value in enumerate(values):
        if value in values[:index]:
            yield duplicate(path[index], value)


def validate_attributes_class(obj: Tree) -> Iterator[FieldError]:
    """Validate a new volume attributes class."""
    yield from _validate_provisioner(obj.get("driverName") or "", Path("driverName"))
    yield from _validate_parameters(obj.get("parameters") or {}, Path("parameters"))
    if not obj.get("parameters"):
        yield required(Path("parameters"), "must contain at least one key/value pair")


def validate_attributes_class_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated volume attributes class. Only metadata may change."""
    yield from _validate_unchanged(new, old, "driverName", "parameters")
    yield from validate_attributes_class(new)


def validate_attachment(obj: Tree) -> Iterator[FieldError]:
    """Validate a new attachment. The rules for the attacher's name are declarative."""
    yield from _validate_attachment_fields(obj)
    volume = value_at(obj, "spec", "source", "persistentVolumeName")
    if volume is not None:
        name_path = _SPEC / "source" / "persistentVolumeName"
        yield from validate_format(names.dns1123_subdomain, volume, name_path)


def _validate_attachment_fields(obj: Tree) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    if not spec.get("attacher"):
        yield required(_SPEC / "attacher")
    yield from _validate_source(spec.get("source") or {}, _SPEC / "source")
    yield from validate_format(
        names.dns1123_subdomain, spec.get("nodeName") or "", _SPEC / "nodeName"
    )
    status, path = obj.get("status") or {}, Path("status")
    if _size(status.get("attachmentMetadata") or {}) > _PARAMETERS_MAX:
        yield too_long(path / "attachmentMetadata", _PARAMETERS_MAX)
    for name in ("attachError", "detachError"):
        error, field_path = status.get(name) or {}, path / name
        if len((error.get("message") or "").encode("utf-8", "replace")) > _MESSAGE_MAX:
            yield too_long(field_path / "message", _PARAMETERS_MAX)
        yield from validate_range(error.get("errorCode"), 0, INT32_MAX, field_path / "errorCode")


def _validate_source(source: Tree, path: Path) -> Iterator[FieldError]:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        yield required(path, detail)
    elif volume is not None and inline is not None:
        yield forbidden(path, detail)
    elif inline is not None:
        yield from validate_inline_volume(inline, path / "inlineVolumeSpec")
    elif not volume:
        name_path = path / "persistentVolumeName"
        yield required(name_path, "must specify non empty persistentVolumeName")


def validate_attachment_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate an updated attachment. Declarative validation checks that the spec does not
    change."""
    yield from _validate_attachment_fields(new)


def validate_csi_node(obj: Tree) -> Iterator[FieldError]:
    """Validate the drivers of a CSI node."""
    seen: set[str] = set()
    for index, driver in enumerate(value_at(obj, "spec", "drivers") or ()):
        driver_path, name = (_SPEC / "drivers")[index], driver.get("name") or ""
        yield from validate_driver_name(name, driver_path / "name")
        node_id = driver.get("nodeID") or ""
        if not node_id:
            yield required(driver_path / "nodeID")
        if len(node_id) > _NODE_ID_MAX:
            yield invalid(
                driver_path / "nodeID", node_id, f"must be {_NODE_ID_MAX} characters or less"
            )
        yield from validate_nonnegative_field(
            driver.get("allocatable") or {}, "count", driver_path / "allocatable"
        )
        if name in seen:
            yield duplicate(driver_path / "name", name)
        seen.add(name)
        keys = driver.get("topologyKeys") or []
        for position, key in enumerate(keys):
            if not key:
                yield required(driver_path)
            if key in keys[:position]:
                yield duplicate(driver_path, key)
            yield from validate_format(names.qualified_name, key, driver_path)


def validate_csi_node_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated CSI node. Of a driver, only `allocatable` may change."""
    yield from validate_csi_node(new)

    def immutable_part(driver: Tree) -> Tree:
        return {name: value for name, value in driver.items() if name != "allocatable"}

    old_drivers = {driver.get("name"): driver for driver in value_at(old, "spec", "drivers") or ()}
    for driver in value_at(new, "spec", "drivers") or ():
        old_driver = old_drivers.get(driver.get("name"))
        if old_driver is not None:
            yield from immutable(
                immutable_part(driver), immutable_part(old_driver), _SPEC / "drivers"
            )


def validate_csi_driver(obj: Tree) -> Iterator[FieldError]:
    """Validate a new CSI driver."""
    spec = obj.get("spec") or {}
    if spec.get("attachRequired") is None:
        yield required(_SPEC / "attachedRequired")
    for name in ("podInfoOnMount", "storageCapacity"):
        if spec.get(name) is None:
            yield required(_SPEC / name)
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        yield not_supported(_SPEC / "fsGroupPolicy", policy, _GROUP_POLICIES)
    yield from _validate_tokens(spec.get("tokenRequests") or (), _SPEC / "tokenRequests")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLE_MODES:
            yield not_supported_in_order(_SPEC / "volumeLifecycleModes", mode, _LIFECYCLE_MODES)
    if spec.get("seLinuxMount") is None:
        yield required(_SPEC / "seLinuxMount")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        seconds_path = _SPEC / "nodeAllocatableUpdatePeriodSeconds"
        yield invalid(seconds_path, period, "must be greater than or equal to 10 seconds")
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid(_SPEC / "serviceAccountTokenInSecrets", in_secrets, detail)


def _validate_tokens(tokens: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, token in enumerate(tokens):
        audience, seconds = token.get("audience") or "", token.get("expirationSeconds")
        if audience in seen:
            yield duplicate(path[index] / "audience", audience)
            continue
        seen.add(audience)
        if seconds is not None:
            yield from validate_token_expiration(seconds, path[index] / "expirationSeconds")


def validate_csi_driver_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated CSI driver."""
    yield from validate_csi_driver(new)
    fields = (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2)
    for name, path_name in fields:
        old_value: Any = value_at(old, "spec", name)
        yield from immutable(value_at(new, "spec", name), old_value, _SPEC / path_name)


def validate_storage_capacity(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated storage capacity. Labels of the old topology need not be valid."""
    topology, old_node_topology = obj.get("nodeTopology"), (old or {}).get("nodeTopology")
    yield from validate_label_selector(topology, Path("nodeTopology"), before=old_node_topology)
    name = obj.get("storageClassName") or ""
    yield from validate_format(names.dns1123_subdomain, name, Path("storageClassName"))
    size = obj.get("capacity")
    if size is not None and amount(size) < 0:
        yield invalid(Path("capacity"), size, "must be greater than or equal to 0")


def validate_storage_capacity_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated storage capacity. Topology and storage class are immutable."""
    yield from validate_storage_capacity(new, old)
    for name in ("nodeTopology", "storageClassName"):
        yield from immutable(new.get(name), old.get(name), Path(name))
