"""Random changes to trees and bytes, repeatable by the seed of their random numbers."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.fuzz.leaves import LEAVES

Value: TypeAlias = Any
Slot: TypeAlias = tuple[dict[str, Value] | list[Value], str | int]
"""A value within a tree: the object or list that holds it, and its key or index."""

TEXTS = tuple(
    dict.fromkeys(
        seed[:2000] for leaf in LEAVES.values() for seed in leaf.seeds if "\0" not in seed
    )
)
"""The texts that parsers of leaves begin with."""
SCALARS: tuple[Value, ...] = (
    "", "a", "one", " ", "A" * 300, "\u00e9", "\u2028", "\0", "\ud7ff", "a/b/c", "0", "-1", "true",
    "null", 0, 1, -1, 2, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**64, 0.5, -0.0, 1e300,
    True, False, None, [], {}, [None], [[]], [{}], {"": ""}, {"a": None}, [""], ["a", "a"],
)  # fmt: skip
ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration", "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/behavior", "autoscaling.alpha.kubernetes.io/conditions",
    "scheduler.alpha.kubernetes.io/tolerations", "controller.kubernetes.io/pod-deletion-cost",
    "seccomp.security.alpha.kubernetes.io/pod", "kubernetes.io/config.mirror",
    "container.apparmor.security.beta.kubernetes.io/c", "kubernetes.io/enforce-mountable-secrets",
    "volume.beta.kubernetes.io/storage-class", "kubernetes.io/ingress.class",
    "deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision",
    "service.kubernetes.io/topology-mode", "batch.kubernetes.io/job-tracking",
    "api-approved.kubernetes.io", "endpoints.kubernetes.io/over-capacity",
    "kubernetes.io/limit-ranger",
)  # fmt: skip
"""Annotations that the server reads."""


def slots(tree: Value) -> Iterator[Slot]:
    """Yield every value within a tree."""
    items: Any = ()
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    for key, value in items:
        yield tree, key
        yield from slots(value)


def mutated(rng: random.Random, tree: Value, other: Value) -> Value:
    """Return a copy of a tree with one to three changes; `other` is a tree to take parts from."""
    result = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(slots(result))
        if not places:
            return result
        rng.choice(_CHANGES)(rng, result, rng.choice(places), other)
    return result


def _set_text(rng: random.Random, _tree: Value, slot: Slot, _other: Value) -> None:
    holder, key = slot
    holder[key] = rng.choice(TEXTS)


def _set_scalar(rng: random.Random, _tree: Value, slot: Slot, _other: Value) -> None:
    holder, key = slot
    holder[key] = copy.deepcopy(rng.choice(SCALARS))


def _remove(_rng: random.Random, _tree: Value, slot: Slot, _other: Value) -> None:
    holder, key = slot
    del holder[key]


def _repeat(rng: random.Random, _tree: Value, slot: Slot, _other: Value) -> None:
    holder, key = slot
    if isinstance(holder, list):
        holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 2, 20))))
    else:
        holder[rng.choice(TEXTS)] = copy.deepcopy(holder[key])


def _transplant(rng: random.Random, _tree: Value, slot: Slot, other: Value) -> None:
    holder, key = slot
    source_holder, source_key = rng.choice(list(slots(other)))
    value = copy.deepcopy(source_holder[source_key])
    if isinstance(holder, dict) and isinstance(source_key, str) and rng.random() < 0.5:
        key = source_key
    holder[key] = value


def _add_fields(rng: random.Random, tree: Value, _slot: Slot, other: Value) -> None:
    """Add fields of `other` below the same path: those of the kind that the object does not set."""
    while isinstance(tree, dict) and isinstance(other, dict):
        missing = [name for name in other if name not in tree and other[name] is not None]
        common = [name for name in other if name in tree]
        if missing and (not common or rng.random() < 0.4):
            name = rng.choice(missing)
            tree[name] = copy.deepcopy(other[name])
            return
        if not common:
            return
        name = rng.choice(common)
        tree, other = tree[name], other[name]
        if isinstance(tree, list) and isinstance(other, list) and tree and other:
            tree, other = tree[0], other[0]


def _change_metadata(rng: random.Random, tree: Value, _slot: Slot, _other: Value) -> None:
    if not isinstance(tree, dict) or not isinstance(tree.get("metadata"), dict):
        return
    metadata = tree["metadata"]
    text = rng.choice(TEXTS)
    fields = {"f:metadata": {"f:labels": {"f:a": {}}, ".": {}}}
    name, value = rng.choice(
        (
            ("annotations", {rng.choice(ANNOTATIONS): text}),
            ("labels", {text: "a", "b": rng.choice(TEXTS)}),
            ("finalizers", [text, "example.com/a"]),
            ("ownerReferences", [{"apiVersion": text, "kind": "Pod", "name": "one", "uid": text}]),
            ("managedFields", [{"manager": "m", "operation": "Update", "apiVersion": text,
                                "fieldsType": "FieldsV1", "fieldsV1": {text: {}, **fields}}]),
            ("generateName", text),
            ("resourceVersion", text),
            ("uid", text),
            ("creationTimestamp", text),
            ("deletionTimestamp", text),
            ("deletionGracePeriodSeconds", rng.choice((0, -1, 2**63 - 1))),
            ("generation", rng.choice((0, -1, 2**63 - 1))),
            ("namespace", text),
            ("name", text),
        )
    )  # fmt: skip
    metadata[name] = value


_CHANGES = (
    _set_text, _set_text, _set_text, _set_scalar, _set_scalar, _remove, _repeat, _transplant,
    _add_fields, _add_fields, _add_fields, _change_metadata, _change_metadata,
)  # fmt: skip


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        end = min(len(changed), at + rng.randint(0, 8))
        part = rng.choice(
            (bytes((rng.randrange(256),)), b"", bytes(changed[at:end]) * 2, b"\xff" * 9)
        )
        changed[at:end] = part
    return bytes(changed)
