"""Rules for where pods run: affinity, tolerations, spread, gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.v1 import Taint
from kapiserver.api.core.validation.common import validate_enum, validate_format
from kapiserver.api.core.validation.difference import as_go_struct
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_among,
    not_supported,
    required,
)
from kapiserver.api.label_selectors import validate_label_key, validate_label_selector
from kapiserver.api.types import Tree

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Tree | None, path: Path) -> Iterator[FieldError]:
    """Affinity to nodes and to other pods."""
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
        # Odd label values are no error here: they just match no node.
        term = preferred.get("preference") or {}
        yield from _validate_node_selector_term(
            term, preferred_path / "preference", check=_no_check
        )


def validate_node_selector(node_selector: Tree, path: Path) -> Iterator[FieldError]:
    """Nodes that match one of several terms."""
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
    """Keys of the pod's own labels, which become conditions of the selector; of an affinity's
    term or of a constraint to spread, which has no `mismatchLabelKeys`."""
    selector = term.get("labelSelector")
    matching, other = (term.get(name) or [] for name in ("matchLabelKeys", "mismatchLabelKeys"))
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", other)):
        if keys and selector is None:
            yield forbidden(path / name, "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            yield from validate_label_key(key, (path / name)[index])
    first = {key: index for index, key in reversed(list(enumerate(matching)))}
    others = set(other)
    seen = set((selector or {}).get("matchLabels") or ())
    for condition in (selector or {}).get("matchExpressions") or ():
        key = condition.get("key") or ""
        if key in seen and key in first:
            # One condition on it is the key's own, a second one is the client's.
            detail = "exists in both matchLabelKeys and labelSelector"
            yield invalid(path[first[key]], key, detail)
        seen.add(key)
    for index, key in enumerate(matching):
        if key in others:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid((path / "matchLabelKeys")[index], key, detail)


def validate_tolerations(tolerations: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Which taints a pod bears."""
    for index, one in enumerate(tolerations or ()):
        item_path = path[index]
        key, operator = one.get("key") or "", one.get("operator") or ""
        value, effect = one.get("value") or "", one.get("effect") or ""
        if key:
            yield from validate_label_key(key, item_path / "key")
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"'
            )
            yield invalid(item_path / "operator", operator, detail)
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(item_path / "effect", effect, detail)
        if operator in ("", "Equal"):
            messages = names.label_value(value)
            if messages:
                yield invalid(item_path / "operator", value, ";".join(messages))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield invalid(item_path / "operator", value, detail)
        else:
            yield not_among(item_path / "operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield not_among(item_path / "effect", effect, _EFFECTS)


def validate_topology_spread_constraints(
    topology_spread_constraints: Sequence[Tree] | None, path: Path
) -> Iterator[FieldError]:
    """How evenly pods spread."""
    pairs = [_topology_key_and_action(one) for one in topology_spread_constraints or ()]
    for index, one in enumerate(topology_spread_constraints or ()):
        item_path = path[index]
        skew, action = one.get("maxSkew") or 0, one.get("whenUnsatisfiable") or ""
        if skew <= 0:
            yield invalid(item_path / "maxSkew", skew, "must be greater than zero")
        if not one.get("topologyKey"):
            yield required(item_path / "topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(item_path / "whenUnsatisfiable", action, _ACTIONS)
        if pairs[index] in pairs[index + 1 :]:
            yield duplicate(item_path / "{topologyKey, whenUnsatisfiable}", pairs[index])
        domains = one.get("minDomains")
        if domains is not None:
            if domains <= 0:
                yield invalid(item_path / "minDomains", domains, "must be greater than zero")
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield invalid(item_path / "minDomains", domains, detail)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from validate_enum(
                one.get(name), ("Honor", "Ignore"), item_path / name, optional=True
            )
        yield from _validate_match_label_keys(one, item_path)
        yield from validate_label_selector(one.get("labelSelector"), item_path / "labelSelector")


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _topology_key_and_action(action: Tree) -> str:
    return f"{{{action.get('topologyKey') or ''}, {action.get('whenUnsatisfiable') or ''}}}"


def validate_scheduling_gates(gates: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """What must be cleared before a pod is scheduled."""
    seen: set[str] = set()
    for index, gate in enumerate(gates or ()):
        name = gate.get("name") or ""
        yield from validate_format(names.qualified_name, name, path[index])
        if name in seen:
            yield duplicate(path[index], name)
        seen.add(name)


def validate_readiness_gates(gates: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """Conditions that must be true before a pod counts as ready."""
    for index, gate in enumerate(gates or ()):
        name = gate.get("conditionType") or ""
        yield from validate_format(names.qualified_name, name, path[index] / "conditionType")


def validate_taints(taints: Sequence[Tree] | None, path: Path) -> Iterator[FieldError]:
    """The taints of a node."""
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
            yield not_among(taint_path / "effect", effect, _EFFECTS)
        if (key, effect) in seen:
            detail = "taints must be unique by key and effect pair"
            yield FieldError("duplicate", taint_path, detail, as_go_struct(taint, Taint))
        seen.add((key, effect))
