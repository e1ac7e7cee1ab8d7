"""LimitRanger: what the LimitRanges of a namespace say about pods and claims in it.

Fills in requests and limits, then sees that they are within the bounds. Mirrors
plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from kapiserver.api.accessors import metadata_of, value_at
from kapiserver.api.core import v1
from kapiserver.api.group import CORE
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.quantity import Amount, add, parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.query import ListQuery

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts: TypeAlias = Mapping[str, Amount]


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Fill in what a pod does not say."""
    new_pod = attributes.operation == "CREATE" and attributes.target.resource.name == "pods"
    if new is None or not new_pod or attributes.target.subresource:
        return
    for limit_range in await _ranges(server, attributes):
        _fill(new, limit_range)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None:
        return
    target = attributes.target
    pod = target.resource.name == "pods"
    if pod and attributes.operation == "UPDATE" and target.subresource != "resize":
        return  # nothing that counts can change
    for limit_range in await _ranges(server, attributes):
        limits: Sequence[Tree] = value_at(limit_range, "spec", "limits") or ()
        rules = _pod_rules(new, limits) if pod else _claim_rules(new, limits)
        broken = list(dict.fromkeys(rules))
        if broken:
            message = broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]"
            raise attributes.forbidden(message)


async def _ranges(server: Server, attributes: Attributes) -> list[Tree]:
    store = server.stores.by_name(CORE, "limitranges")
    query = ListQuery(namespace=attributes.target.key.namespace, resource_version="0")
    return [entry.tree() for entry in (await store.list(query)).entries]


# Defaults.


def _fill(pod: Tree, limit_range: Tree) -> None:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for limit in value_at(limit_range, "spec", "limits") or ():
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            limits.update(limit.get("default") or {})
    if not requests and not limits:
        return
    said: list[str] = []
    spec = pod.get("spec") or {}
    for kind, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(kind) or ():
            resources = container.setdefault("resources", {})
            given = _merge(resources, "requests", requests)
            bounded = _merge(resources, "limits", limits)
            reorder_keys(resources, v1.ResourceRequirements)
            reorder_keys(container, v1.Container)
            for names, word in ((given, "request"), (bounded, "limit")):
                if names:
                    said.append(f"{', '.join(names)} {word} for {what} {container.get('name')}")
    if said:
        metadata = metadata_of(pod)
        text = f"LimitRanger plugin set: {'; '.join(said)}"
        annotations = {**(metadata.get("annotations") or {}), ANNOTATION: text}
        metadata["annotations"] = dict(sorted(annotations.items()))
        reorder_keys(metadata, ObjectMeta)


def _merge(resources: Tree, part: str, defaults: Mapping[str, str]) -> list[str]:
    found = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in found)
    if missing:
        added = {name: defaults[name] for name in missing}
        resources[part] = dict(sorted({**found, **added}.items()))
    return missing


# Bounds.


def _pod_rules(pod: Tree, limits: Sequence[Tree]) -> Iterator[str]:
    spec = pod.get("spec") or {}
    containers = spec.get("containers") or ()
    starters = spec.get("initContainers") or ()
    for limit in limits:
        if limit.get("type") == "Container":
            for container in (*containers, *starters):
                resources = container.get("resources") or {}
                yield from _rules(limit, resources.get("requests"), resources.get("limits"))
        elif limit.get("type") == "Pod":
            yield from _rules(
                limit,
                _total(containers, starters, "requests"),
                _total(containers, starters, "limits"),
            )


def _claim_rules(claim: Tree, limits: Sequence[Tree]) -> Iterator[str]:
    requests = value_at(claim, "spec", "resources", "requests") or {}
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for word, bounds in (("minimum", limit.get("min")), ("maximum", limit.get("max"))):
            for name, bound in sorted((bounds or {}).items()):
                begins = f"{word} {name} usage per PersistentVolumeClaim is {bound}"
                if name not in requests:
                    yield f"{begins}.  No request is specified"
                elif _beyond(word, requests[name], bound):
                    yield f"{begins}, but request is {requests[name]}"


def _beyond(word: str, value: str, bound: str) -> bool:
    found, allowed = parse(value).decimal, parse(bound).decimal
    return found < allowed if word == "minimum" else found > allowed


def _rules(
    limit: Tree, requests: Mapping[str, str] | None, limits: Mapping[str, str] | None
) -> Iterator[str]:
    kind, requests, limits = limit.get("type"), requests or {}, limits or {}
    # A minimum is asked of the request first, a maximum of the limit first.
    for word, first, second in (
        ("minimum", ("request", requests), ("limit", limits)),
        ("maximum", ("limit", limits), ("request", requests)),
    ):
        for name, bound in sorted((limit.get(word[:3]) or {}).items()):
            begins = f"{word} {name} usage per {kind} is {bound}"
            if name not in first[1]:
                yield f"{begins}.  No {first[0]} is specified"
                continue
            for what, amounts in (first, second):
                if name in amounts and _beyond(word, amounts[name], bound):
                    yield f"{begins}, but {what} is {amounts[name]}"
                    break
    for name, bound in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _ratio(f"{name} max limit to request ratio per {kind} is {bound}", bound,
                          requests.get(name), limits.get(name))  # fmt: skip


def _ratio(begins: str, bound: str, request: str | None, limit: str | None) -> Iterator[str]:
    asked = parse(request).decimal if request else Decimal(0)
    allowed = parse(limit).decimal if limit else Decimal(0)
    if not asked:
        yield f"{begins}, but no request is specified or request is 0"
    elif not allowed:
        yield f"{begins}, but no limit is specified or limit is 0"
    elif allowed / asked > parse(bound).decimal:
        yield f"{begins}, but provided ratio is {float(allowed / asked):f}"


def _total(containers: Iterable[Tree], starters: Iterable[Tree], part: str) -> dict[str, str]:
    """What a pod takes: all containers at once, or the hungriest of those that run before."""
    always = [one for one in starters if one.get("restartPolicy") == "Always"]
    running = [_parsed(one, part) for one in (*containers, *always)]
    names = set.intersection(*(set(one) for one in running)) if running else set()
    found = {name: _sum([one[name] for one in running]) for name in sorted(names)}
    for starter in starters:
        if starter.get("restartPolicy") != "Always":
            for name, amount in _parsed(starter, part).items():
                if name in found and amount.decimal > found[name].decimal:
                    found[name] = amount
    return {name: str(amount) for name, amount in found.items()}


def _parsed(container: Tree, part: str) -> Amounts:
    return {
        name: parse(text) for name, text in (value_at(container, "resources", part) or {}).items()
    }


def _sum(amounts: Sequence[Amount]) -> Amount:
    return functools.reduce(add, amounts)
