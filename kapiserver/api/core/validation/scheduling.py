"""Validation of scheduling constraints: affinity, tolerations, topology spread, gates, taints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.v1 import Taint
from kapiserver.api.core.validation.common import validate_enum, validate_format
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import validate_label_key, validate_label_selector
from kapiserver.api.types import Tree

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Tree | None, path: Path) -> Iterator[FieldError]:
    """Validate node affinity, pod affinity and pod anti-affinity."""
    if not affinity:
        return
    if affinity.get("nodeAffinity") is not None:
        yield from _validate_node_affinity(affinity["nodeAffinity"], path / "nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind) is not None:
            yield from _validate_pod_affinity(affinity[kind], path / kind)


def _validate_node_affinity(node_affinity: Tree, path: Path) -> Iterator[FieldError]:
    if node_affinity.get(_REQUIRED) is not None:
        yield from validate_node_selector(node_affinity[_REQUIRED], path / _REQUIRED)
    for index, preferred in enumerate(node_affinity.get(_PREFERRED) or ()):
        preferred_path = (path / _PREFERRED)[index]
        yield from _validate_weight(preferred, preferred_path)
        # As in kube-apiserver, label values of preferred terms are not checked.
        term = preferred.get("preference") or {}
        yield from _validate_node_selector_term(
            term, preferred_path / "preference", check=_no_check
        )


def validate_node_selector(node_selector: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the terms of a node selector."""
    terms, terms_path = node_selector.get("nodeSelectorTerms") or (), path / "nodeSelectorTerms"
    if not terms:
        yield required(terms_path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _validate_node_selector_term(term, terms_path[index])


def _validate_weight(preferred: Tree, path: Path) -> Iterator[FieldError]:
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(path / "weight", weight, "must be in the range 1-100")


def _no_check(_: str) -> list[str]:
    return []


def _validate_node_selector_term(
    term: Tree, path: Path, *, check: names.Check = names.label_value
) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _validate_label_requirement(
            requirement, (path / "matchExpressions")[index], check
        )
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _validate_field_requirement(requirement, (path / "matchFields")[index])


def _validate_label_requirement(
    requirement: Tree, path: Path, check: names.Check
) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    values_path = path / "values"
    if operator in ("In", "NotIn"):
        if not values:
            yield required(values_path, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(values_path, detail)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(
                values_path, "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        yield invalid(path / "operator", operator, "not a valid selector operator")
    yield from validate_label_key(requirement.get("key") or "", path / "key")
    for index, value in enumerate(values):
        yield from validate_format(check, value, values_path[index])


def _validate_field_requirement(requirement: Tree, path: Path) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        yield invalid(path / "operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(path / "values", detail)
    if requirement.get("key") != "metadata.name":
        yield invalid(path / "key", requirement.get("key") or "", "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from validate_format(names.dns1123_subdomain, value, (path / "values")[index])


def _validate_pod_affinity(pod_affinity: Tree, path: Path) -> Iterator[FieldError]:
    for index, term in enumerate(pod_affinity.get(_REQUIRED) or ()):
        yield from _validate_pod_affinity_term(term, (path / _REQUIRED)[index])
    for index, preferred in enumerate(pod_affinity.get(_PREFERRED) or ()):
        preferred_path = (path / _PREFERRED)[index]
        yield from _validate_weight(preferred, preferred_path)
        yield from _validate_pod_affinity_term(
            preferred.get("podAffinityTerm") or {}, preferred_path / "podAffinityTerm"
        )


def _validate_pod_affinity_term(term: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from validate_label_selector(term.get(name), path / name)
    for namespace in term.get("namespaces") or ():
        for message in names.dns1123_label(namespace):
            yield invalid(path / "namespace", namespace, message)
    yield from _validate_match_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(path / "topologyKey", "can not be empty")
    yield from validate_label_key(key, path / "topologyKey")


def _validate_match_label_keys(term: Tree, path: Path) -> Iterator[FieldError]:
    """Validate `matchLabelKeys` and `mismatchLabelKeys` of a pod affinity term, or `matchLabelKeys`
    of a topology spread constraint. kube-apiserver merges both into the label selector."""
    selector = term.get("labelSelector")
    match_keys, mismatch_keys = (
        term.get(name) or [] for name in ("matchLabelKeys", "mismatchLabelKeys")
    )
    for name, keys in (("matchLabelKeys", match_keys), ("mismatchLabelKeys", mismatch_keys)):
        if keys and selector is None:
            yield forbidden(path / name, "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from validate_label_key(key, (path / name)[index])
    first_index = {key: index for index, key in reversed(list(enumerate(match_keys)))}
    mismatch_key_set = set(mismatch_keys)
    selector_keys = set((selector or {}).get("matchLabels") or ())
    for condition in (selector or {}).get("matchExpressions") or ():
        key = condition.get("key") or ""
        if key in selector_keys and key in first_index:
            # The first requirement was merged from matchLabelKeys, the second is the client's.
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(path[first_index[key]], key, detail)
        selector_keys.add(key)
    for index, key in enumerate(match_keys):
        if key in mismatch_key_set:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid((path / "matchLabelKeys")[index], key, detail)


def validate_tolerations(tolerations: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the tolerations of a pod."""
    for index, toleration in enumerate(tolerations or ()):
        toleration_path = path[index]
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            yield from validate_label_key(key, toleration_path / "key")
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"'
            )
            yield invalid(toleration_path / "operator", operator, detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(toleration_path / "effect", effect, detail)
        if operator in ("", "Equal"):
            messages = names.label_value(value)
            if messages:
                yield invalid(toleration_path / "operator", value, ";".join(messages))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield invalid(toleration_path / "operator", value, detail)
        else:
            yield not_supported_in_order(
                toleration_path / "operator", operator, ("Equal", "Exists")
            )
        if effect and effect not in _EFFECTS:
            yield not_supported_in_order(toleration_path / "effect", effect, _EFFECTS)


def validate_topology_spread_constraints(
    constraints: Sequence[Tree] | None, path: Path
) -> Iterator[FieldError]:
    """Validate the topology spread constraints of a pod."""
    keys_and_actions = [_topology_key_and_action(constraint) for constraint in constraints or ()]
    for index, constraint in enumerate(constraints or ()):
        constraint_path = path[index]
        max_skew, action = constraint.get("maxSkew") or 0, constraint.get("whenUnsatisfiable") or ""
        if max_skew <= 0:
            yield invalid(constraint_path / "maxSkew", max_skew, "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield required(constraint_path / "topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE_ACTIONS:
            yield not_supported(
                constraint_path / "whenUnsatisfiable", action, _UNSATISFIABLE_ACTIONS
            )
        if keys_and_actions[index] in keys_and_actions[index + 1 :]:
            yield duplicate(
                constraint_path / "{topologyKey, whenUnsatisfiable}", keys_and_actions[index]
            )
        min_domains = constraint.get("minDomains")
        if min_domains is not None:
            if min_domains <= 0:
                yield invalid(
                    constraint_path / "minDomains", min_domains, "must be greater than zero"
                )
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield invalid(constraint_path / "minDomains", min_domains, detail)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from validate_enum(
                constraint.get(name), ("Honor", "Ignore"), constraint_path / name, optional=True
            )
        yield from _validate_match_label_keys(constraint, constraint_path)
        yield from validate_label_selector(
            constraint.get("labelSelector"), constraint_path / "labelSelector"
        )


_UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _topology_key_and_action(action: Tree) -> str:
    return f"{{{action.get('topologyKey') or ''}, {action.get('whenUnsatisfiable') or ''}}}"


def validate_scheduling_gates(gates: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the scheduling gates of a pod."""
    seen: set[str] = set()
    for index, gate in enumerate(gates or ()):
        name = gate.get("name") or ""
        yield from validate_format(names.qualified_name, name, path[index])
        if name in seen:
            yield duplicate(path[index], name)
        seen.add(name)


def validate_readiness_gates(gates: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the readiness gates of a pod."""
    for index, gate in enumerate(gates or ()):
        name = gate.get("conditionType") or ""
        yield from validate_format(names.qualified_name, name, path[index] / "conditionType")


def validate_taints(taints: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Validate the taints of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints or ()):
        taint_path, key, effect = path[index], taint.get("key") or "", taint.get("effect") or ""
        yield from validate_label_key(key, taint_path / "key")
        messages = names.label_value(taint.get("value") or "")
        if messages:
            yield invalid(taint_path / "value", taint["value"], ";".join(messages))
        if not effect:
            yield required(taint_path / "effect")
        elif effect not in _EFFECTS:
            yield not_supported_in_order(taint_path / "effect", effect, _EFFECTS)
        if (key, effect) in seen:
            detail = "taints must be unique by key and effect pair"
            yield FieldError("duplicate", taint_path, detail, as_go_struct(taint, Taint))
        seen.add((key, effect))
