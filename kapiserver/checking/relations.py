"""Checks how the objects of the files fit together, which no server says.

What an object refers to may be in the files or in the server, which has what every cluster has and
the objects of a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from kapiserver.api.types import Tree
from kapiserver.checking.finding import WARNING, Problem
from kapiserver.checking.places import describe
from kapiserver.checking.reading.documents import Manifest
from kapiserver.checking.rules.names import truncated_name
from kapiserver.checking.rules.references import Reference, references_of
from kapiserver.checking.rules.selectors import PodIndex, selector_of, undeclared_ports
from kapiserver.checking.rules.values import text_at, texts_at

Key: TypeAlias = tuple[str, str, str, str]
"""Group, kind, namespace and name of an object."""
Found: TypeAlias = tuple[Manifest, Problem]

_IN_EVERY_NAMESPACE = ("", "ConfigMap", "kube-root-ca.crt")
_WITH_DATA = ("ConfigMap", "Secret")


class Cluster(Protocol):
    """The objects that are not in the files."""

    async def find(self, group: str, kind: str, namespace: str, name: str) -> Tree | None:
        """Return an object, None if there is none."""

    async def pods(self, namespace: str) -> Sequence[Tree]:
        """Return the pods of a namespace, and what makes pods there."""


class Relations:
    """The objects of the files by what others refer to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._manifests: list[tuple[Manifest, str]] = []
        """The manifests and their namespaces, "" for those of cluster-scoped kinds."""
        self._data_keys: dict[Key, frozenset[str]] = {}
        """The keys of the data of each object; empty for kinds that have none."""
        self._pods: dict[str, PodIndex] = defaultdict(PodIndex)
        """What makes pods, by namespace."""
        self._other_pods: dict[str, PodIndex] = {}
        """What makes pods in the cluster, by namespace."""
        self._volume_classes: set[str] = set()
        """The classes of PersistentVolumes, for which no StorageClass is needed."""

    def add(self, manifest: Manifest, namespace: str) -> None:
        """Add an object that lives in a namespace, "" for one of a cluster-scoped kind."""
        tree = manifest.tree
        self._manifests.append((manifest, namespace))
        self._data_keys[_key(tree, namespace)] = _keys_of_data(tree)
        self._volume_classes.add(_volume_class(tree))
        self._pods[namespace].add(tree)

    async def problems(self) -> AsyncIterator[Found]:
        """Yield what is wrong between the objects."""
        for manifest, namespace in self._manifests:
            async for problem in self._reference_problems(manifest.tree, namespace):
                yield manifest, problem
            async for problem in self._selector_problems(manifest.tree, namespace):
                yield manifest, problem
        for name_problem in self._name_problems():
            yield name_problem

    async def _reference_problems(self, tree: Tree, namespace: str) -> AsyncIterator[Problem]:
        for reference in references_of(tree, namespace):
            keys = await self._keys(reference)
            if keys is None:
                place = f"{reference.namespace}/" if reference.namespace else ""
                name = f"{reference.kind} {place}{reference.name}"
                text = f"{name} is neither in the files nor in the cluster"
                yield _warning(reference.steps, text, reference.rule)
                continue
            for steps, key in reference.keys:
                if key not in keys:
                    text = f"{reference.kind} {reference.name} has no key {key!r}"
                    yield _warning(steps, text, "missing-key")

    async def _keys(self, reference: Reference) -> frozenset[str] | None:
        """Return the keys of the object that a reference is to; None if there is no object."""
        key = (reference.group, reference.kind, reference.namespace, reference.name)
        if key in self._data_keys:
            return self._data_keys[key]
        if (reference.group, reference.kind, reference.name) == _IN_EVERY_NAMESPACE:
            return frozenset({"ca.crt"})
        if reference.kind == "StorageClass" and reference.name in self._volume_classes:
            return frozenset()
        tree_of_object = await self._cluster.find(*key)
        return None if tree_of_object is None else _keys_of_data(tree_of_object)

    async def _selector_problems(self, tree: Tree, namespace: str) -> AsyncIterator[Problem]:
        selector = selector_of(tree)
        if selector is None:
            return
        pods = self._pods[namespace].matching(selector)
        pods += (await self._cluster_pods(namespace)).matching(selector)
        if not pods:
            text = f"the selector matches no pod of the namespace {namespace}"
            yield _warning(selector.steps, text, "selector-matches-nothing")
        elif tree["kind"] == "Service":
            for problem in undeclared_ports(tree, pods):
                yield problem

    async def _cluster_pods(self, namespace: str) -> PodIndex:
        """Return the pods of a namespace that are not in the files."""
        if namespace not in self._other_pods:
            index = self._other_pods[namespace] = PodIndex()
            for tree in await self._cluster.pods(namespace):
                index.add(tree)
        return self._other_pods[namespace]

    def _name_problems(self) -> Iterator[Found]:
        """Yield the second and later ones of objects whose derived names are equal."""
        first: dict[tuple[str, str, str], Manifest] = {}
        for manifest, namespace in self._manifests:
            derived = truncated_name(manifest.tree)
            if derived is None:
                continue
            other = first.setdefault((derived.of, namespace, derived.text), manifest)
            if _name(other.tree) != _name(manifest.tree):
                text = (
                    f"the {derived.of} of {describe(other.tree)} begin with {derived.text!r}, too"
                )
                yield manifest, _warning(("metadata", "name"), text, "name-collision")


def _warning(steps: tuple[str | int, ...], message: str, rule: str) -> Problem:
    return Problem(steps=steps, severity=WARNING, message=message, rule=rule)


def _key(tree: Tree, namespace: str) -> Key:
    return tree["apiVersion"].rpartition("/")[0], tree["kind"], namespace, _name(tree)


def _name(tree: Tree) -> str:
    return text_at(tree, "metadata", "name")


def _keys_of_data(tree: Tree) -> frozenset[str]:
    if tree["kind"] not in _WITH_DATA:
        return frozenset()
    fields: tuple[Any, ...] = ("data", "binaryData", "stringData")
    return frozenset(key for field in fields for key in texts_at(tree, field))


def _volume_class(tree: Tree) -> str:
    is_volume = tree["kind"] == "PersistentVolume"
    return text_at(tree, "spec", "storageClassName") if is_volume else ""
