"""LimitRanger: applies the LimitRanges of a namespace to its pods and claims.

Sets default requests and limits of containers, then checks minimum, maximum and ratio. Mirrors
plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from kapiserver.api.accessors import metadata_of, value_at
from kapiserver.api.core import v1
from kapiserver.api.go_format import join_errors
from kapiserver.api.group import CORE
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.quantity import Amount, add, parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

_MILLI_MAX = (2**63 - 1) // 1000
ANNOTATION = "kubernetes.io/limit-ranger"
Amounts: TypeAlias = Mapping[str, Amount]


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the default requests and limits of a new pod's containers."""
    new_pod = attributes.operation == "CREATE" and attributes.target.resource.name == "pods"
    if new is None or not new_pod or attributes.target.subresource:
        return
    for limit_range in await _limit_ranges(server, attributes):
        cost = pod_cost(new.get("spec") or {})
        await server.offloader.run(cost, _set_defaults, new, limit_range)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden for a pod or claim outside the limits."""
    if new is None:
        return
    target = attributes.target
    is_pod = target.resource.name == "pods"
    if is_pod and attributes.operation == "UPDATE" and target.subresource != "resize":
        return  # resources of a pod change through pods/resize only
    for limit_range in await _limit_ranges(server, attributes):
        limits: Sequence[Tree] = value_at(limit_range, "spec", "limits") or ()
        cost = pod_cost(new.get("spec") or {})
        messages = await server.offloader.run(cost, _messages, new, limits, is_pod)
        if messages:
            raise attributes.forbidden(join_errors(messages))


def _messages(obj: Tree, limits: Sequence[Tree], is_pod: bool) -> list[str]:
    """Return the messages about a pod or claim outside the limits, each once."""
    violations = _pod_violations(obj, limits) if is_pod else _claim_violations(obj, limits)
    return list(dict.fromkeys(violations))


async def _limit_ranges(server: Server, attributes: Attributes) -> list[Tree]:
    store = server.stores.by_name(CORE, "limitranges")
    entries = await store.cached_entries(attributes.target.key.namespace)
    return [entry.tree() for entry in entries]


# Defaults.


def _set_defaults(pod: Tree, limit_range: Tree) -> None:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for limit in value_at(limit_range, "spec", "limits") or ():
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            limits.update(limit.get("default") or {})
    if not requests and not limits:
        return
    descriptions: list[str] = []
    spec = pod.get("spec") or {}
    for kind, description in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(kind) or ():
            resources = container.setdefault("resources", {})
            request_names = _merge_defaults(resources, "requests", requests)
            limit_names = _merge_defaults(resources, "limits", limits)
            reorder_keys(resources, v1.ResourceRequirements)
            reorder_keys(container, v1.Container)
            for names, noun in ((request_names, "request"), (limit_names, "limit")):
                if names:
                    descriptions.append(
                        f"{', '.join(names)} {noun} for {description} {container.get('name')}"
                    )
    if descriptions:
        metadata = metadata_of(pod)
        text = f"LimitRanger plugin set: {'; '.join(descriptions)}"
        annotations = {**(metadata.get("annotations") or {}), ANNOTATION: text}
        metadata["annotations"] = dict(sorted(annotations.items()))
        reorder_keys(metadata, ObjectMeta)


def _merge_defaults(resources: Tree, part: str, defaults: Mapping[str, str]) -> list[str]:
    amounts = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in amounts)
    if missing:
        added = {name: defaults[name] for name in missing}
        resources[part] = dict(sorted({**amounts, **added}.items()))
    return missing


# Bounds.


def _pod_violations(pod: Tree, limits: Sequence[Tree]) -> Iterator[str]:
    spec = pod.get("spec") or {}
    containers = spec.get("containers") or ()
    init_containers = spec.get("initContainers") or ()
    for limit in limits:
        if limit.get("type") == "Container":
            for container in (*containers, *init_containers):
                resources = container.get("resources") or {}
                yield from _resource_violations(
                    limit, resources.get("requests"), resources.get("limits")
                )
        elif limit.get("type") == "Pod":
            yield from _resource_violations(
                limit,
                _pod_total(containers, init_containers, "requests"),
                _pod_total(containers, init_containers, "limits"),
            )


def _claim_violations(claim: Tree, limits: Sequence[Tree]) -> Iterator[str]:
    requests = value_at(claim, "spec", "resources", "requests") or {}
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for bound_kind, bounds in (("minimum", limit.get("min")), ("maximum", limit.get("max"))):
            for name, bound in sorted((bounds or {}).items()):
                prefix = f"{bound_kind} {name} usage per PersistentVolumeClaim is {bound}"
                if name not in requests:
                    yield f"{prefix}.  No request is specified"
                elif _is_out_of_bounds(bound_kind, requests[name], bound):
                    yield f"{prefix}, but request is {requests[name]}"


def _is_out_of_bounds(bound_kind: str, value: str, bound: str) -> bool:
    amount, allowed = parse(value).decimal, parse(bound).decimal
    return amount < allowed if bound_kind == "minimum" else amount > allowed


def _resource_violations(
    limit: Tree, requests: Mapping[str, str] | None, limits: Mapping[str, str] | None
) -> Iterator[str]:
    kind, requests, limits = limit.get("type"), requests or {}, limits or {}
    # A minimum is compared with the request first, a maximum with the limit first.
    for bound_kind, first, second in (
        ("minimum", ("request", requests), ("limit", limits)),
        ("maximum", ("limit", limits), ("request", requests)),
    ):
        for name, bound in sorted((limit.get(bound_kind[:3]) or {}).items()):
            prefix = f"{bound_kind} {name} usage per {kind} is {bound}"
            if name not in first[1]:
                yield f"{prefix}.  No {first[0]} is specified"
                continue
            for noun, amounts in (first, second):
                if name in amounts and _is_out_of_bounds(bound_kind, amounts[name], bound):
                    yield f"{prefix}, but {noun} is {amounts[name]}"
                    break
    for name, bound in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        prefix = f"{name} max limit to request ratio per {kind} is {bound}"
        yield from _ratio_violations(prefix, bound, requests.get(name), limits.get(name))


def _ratio_violations(
    prefix: str, bound: str, request: str | None, limit: str | None
) -> Iterator[str]:
    amounts = (parse(request or "0"), parse(limit or "0"), parse(bound))
    is_small = max(amount.scaled(0) for amount in amounts) <= _MILLI_MAX
    request_value, limit_value, bound_value = (
        amount.scaled(-3 if is_small else 0) for amount in amounts
    )
    if not request_value:
        yield f"{prefix}, but no request is specified or request is 0"
    elif not limit_value:
        yield f"{prefix}, but no limit is specified or limit is 0"
    elif limit_value / request_value > bound_value / (1000 if is_small else 1):
        yield f"{prefix}, but provided ratio is {limit_value / request_value:f}"


def _pod_total(
    containers: Iterable[Tree], init_containers: Iterable[Tree], part: str
) -> dict[str, str]:
    """Return the amounts of a pod: the sum of the containers that run at the same time, or the
    largest init container where that is more."""
    sidecars = [
        container for container in init_containers if container.get("restartPolicy") == "Always"
    ]
    concurrent = [_amounts(container, part) for container in (*containers, *sidecars)]
    names = set.intersection(*(set(amounts) for amounts in concurrent)) if concurrent else set()
    totals = {name: _sum([amounts[name] for amounts in concurrent]) for name in sorted(names)}
    for init_container in init_containers:
        if init_container.get("restartPolicy") != "Always":
            for name, amount in _amounts(init_container, part).items():
                if name in totals and amount.decimal > totals[name].decimal:
                    totals[name] = amount
    return {name: str(amount) for name, amount in totals.items()}


def _amounts(container: Tree, part: str) -> Amounts:
    return {
        name: parse(text) for name, text in (value_at(container, "resources", part) or {}).items()
    }


def _sum(amounts: Sequence[Amount]) -> Amount:
    return functools.reduce(add, amounts)
