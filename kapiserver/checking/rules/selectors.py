"""Selectors that match no pod, and named ports that no container declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kapiserver.api.errors import APIError
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.checking.finding import WARNING, Problem, Steps
from kapiserver.checking.rules.pod_templates import containers_of, pod_of
from kapiserver.checking.rules.values import items_at, text_at, texts_at, value_at

_SELECTORS: Mapping[str, tuple[str, ...]] = {
    "PodDisruptionBudget": ("spec", "selector"),
    "NetworkPolicy": ("spec", "podSelector"),
}
"""The way to a LabelSelector of pods, by kind."""


class Pods(Struct, frozen=True):
    """The pods that an object makes: their labels, and the names of their containers' ports."""

    labels: Mapping[str, str]
    ports: frozenset[str]


def pods_of(tree: Tree) -> Pods | None:
    """Return the pods that an object is or makes; None if it makes none."""
    pod = pod_of(tree)
    if pod is None:
        return None
    ports = {
        text_at(port, "name")
        for _, container in containers_of(pod)
        for _, port in items_at(container, "ports")
    }
    return Pods(texts_at(pod, "metadata", "labels"), frozenset(ports))


class PodSelector(Struct, frozen=True):
    """The selector of pods that an object has.

    steps       lead to it
    equal       labels that the pods have, which `selection` requires too
    """

    steps: Steps
    equal: Mapping[str, str]
    selection: Selection


def selector_of(tree: Tree) -> PodSelector | None:
    """Return the selector of an object; None for an object without one, and for a selector that is
    empty or malformed."""
    if tree["kind"] == "Service" and tree["apiVersion"] == "v1":
        steps: tuple[str, ...] = ("spec", "selector")
        selector: Any = {"matchLabels": texts_at(tree, *steps)}
        if text_at(tree, "spec", "type") == "ExternalName" or not selector["matchLabels"]:
            return None
    elif tree["kind"] in _SELECTORS:
        steps = _SELECTORS[tree["kind"]]
        selector = value_at(tree, *steps)
    else:
        return None
    if not isinstance(selector, dict) or not any(selector.values()):
        return None
    try:
        selection = selection_of(selector)
    except (APIError, AttributeError, KeyError, TypeError):  # the server has refused it
        return None
    equal = texts_at(selector, "matchLabels")
    return None if selection is None else PodSelector(steps, equal, selection)


class PodIndex:
    """The pods of a namespace. A selector is compared only with the pods that have the rarest of
    the labels it names."""

    def __init__(self) -> None:
        self._all: list[Pods] = []
        self._by_label: dict[tuple[str, str], list[Pods]] = defaultdict(list)

    def add(self, tree: Tree) -> None:
        """Add the pods that an object makes, if it makes any."""
        pods = pods_of(tree)
        if pods is not None:
            self._all.append(pods)
            for label in pods.labels.items():
                self._by_label[label].append(pods)

    def matching(self, selector: PodSelector) -> list[Pods]:
        """Return the pods that a selector matches."""
        by_label = [self._by_label.get(label, []) for label in selector.equal.items()]
        candidates = min(by_label, key=len, default=self._all)
        return [
            candidate
            for candidate in candidates
            if selector.selection.matches(candidate.labels, {})
        ]


def undeclared_ports(tree: Tree, pods: Sequence[Pods]) -> Iterator[Problem]:
    """Yield a problem for each named target port of a Service that none of its pods declares."""
    declared = frozenset[str]().union(*(pod.ports for pod in pods))
    for steps, port in items_at(tree, "spec", "ports"):
        name = text_at(port, "targetPort")
        if name and name not in declared:
            yield Problem(
                steps=(*steps, "targetPort"),
                severity=WARNING,
                message=f"no container of the selected pods declares the port {name!r}",
                rule="undeclared-port",
            )
