"""Evaluation of one mutating policy: apply configurations and JSON patches.

Knows no binding. Mirrors pkg/admission/plugin/policy/mutating/patch of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kapiserver.api.accessors import copy_tree
from kapiserver.api.apply import typed_values
from kapiserver.api.apply.merge_schema import ListNode, MapNode, Node, deduce, schema_of
from kapiserver.api.apply.structured_merge import merge
from kapiserver.api.errors import PatchFailed, PatchTestFailed, PatchTooLong
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.patches import json_patch
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.admission.expressions import (
    Activation,
    Budget,
    Expression,
)
from kapiserver.apiserver.admission.policies.composition import Composition
from kapiserver.apiserver.metrics import MatchConditionLabels


class MutationFailed(Exception):
    """A mutation cannot be applied to an object."""


class Mutation(Struct, frozen=True):
    """One compiled mutation: an apply configuration or a JSON patch."""

    expression: Expression
    is_apply_configuration: bool

    async def evaluate(self, activation: Activation) -> Any:
        """Return the value of the expression. Raises ExpressionFailed and OutOfBudget."""
        return await activation.evaluate(self.expression, Budget())

    def apply(self, scheme: Scheme, obj: Tree, kind: GroupVersionKind, value: Any) -> Value:
        """Return a changed copy of an object. Raises MutationFailed."""
        if self.is_apply_configuration:
            return _apply_configuration(scheme, obj, kind, value)
        return _apply_patch(obj, value)


class MutatingEvaluator:
    """The compiled expressions of a mutating policy."""

    def __init__(self, spec: Tree) -> None:
        self._composition = Composition(spec)
        self.mutations = tuple(map(self._compile, spec.get("mutations") or ()))
        expressions = [mutation.expression for mutation in self.mutations]
        self.names = self._composition.names(expressions)
        """The variables that the expressions use."""

    def _compile(self, mutation: Tree) -> Mutation:
        from kapiserver.api.admissionregistration import expression_types as e

        is_apply = mutation.get("patchType") == "ApplyConfiguration"
        name, result = (
            ("applyConfiguration", e.APPLY_CONFIGURATION) if is_apply else ("jsonPatch", e.PATCHES)
        )
        text = (mutation.get(name) or {}).get("expression") or ""
        expression = self._composition.compile(text, (result,), mutation=True)
        return Mutation(expression, is_apply)

    async def matches(
        self, activation: Activation, params: Tree | None, labels: MatchConditionLabels
    ) -> bool:
        """Return whether the match conditions are true, and count failures under the labels. Raises
        ExpressionFailed and OutOfBudget."""
        return await self._composition.matches(activation, params, labels)

    def with_variables(self, activation: Activation, params: Tree | None) -> Activation:
        """Return the activation of a mutation, with variables that are not evaluated yet."""
        return activation.with_params(params, self._composition.variables)


def _apply_configuration(scheme: Scheme, obj: Tree, kind: GroupVersionKind, value: Any) -> Value:
    """Merge a configuration as server-side apply does, without its ownership of fields."""
    from kapiserver.api.cel.json_values import type_name_errors
    from kapiserver.api.cel.values import StructValue

    if not isinstance(value, StructValue):
        raise MutationFailed("unsupported return type from ApplyConfiguration expression")
    if errors := list(type_name_errors(value)):
        raise MutationFailed("type mismatch: " + "\n".join(errors))
    config = _to_json(value)
    config |= {"apiVersion": kind.api_version, "kind": kind.kind}
    node = schema_of(scheme.type_of(kind))
    _check_typed(node, config, "patch")
    if atomics := list(_atomic_paths(node, config, "")):
        raise MutationFailed(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps "
            f"or structs: {', '.join(atomics)}"
        )
    _check_typed(node, obj, "original")
    return copy_tree(merge(node, obj, config))


def _check_typed(node: Node, obj: Tree, which: str) -> None:
    """Check that the patch or the original object fits the schema. Raises MutationFailed."""
    try:
        typed_values.check(node, obj)
    except typed_values.SchemaMismatch as error:
        raise MutationFailed(
            f"error applying patch: failed to convert {which} object to typed object: {error}"
        ) from None


def _atomic_paths(node: Node, value: Value, path: str) -> Iterator[str]:
    """Yield the paths of atomic lists and maps in a configuration."""
    node = deduce(node, value)
    if isinstance(value, dict) and isinstance(node, MapNode):
        if node.atomic:
            yield path
        for name, item in value.items():
            child = node.fields.get(name)
            if child is not None:
                yield from _atomic_paths(child, item, f"{path}.{name}")
    elif isinstance(value, list) and isinstance(node, ListNode):
        if node.atomic:
            yield path
        for index, item in enumerate(value):
            yield from _atomic_paths(node.item, item, f"{path}[{index}]")


def _apply_patch(obj: Tree, value: Any) -> Value:
    """Apply a list of JSONPatch values. A failed test leaves the object unchanged."""
    if not isinstance(value, list):
        raise MutationFailed("type mismatch: JSONPatchType.expression should evaluate to array")
    operations = []
    for operation in value:
        if getattr(operation, "type_name", "") != "JSONPatch":
            raise MutationFailed(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
            )
        operations.append(_operation(operation))
    try:
        return json_patch.apply(obj, json_patch.read(operations))
    except PatchTestFailed:
        return copy_tree(obj)
    except (PatchFailed, PatchTooLong) as error:
        raise MutationFailed(f"JSON Patch: {error}") from None


def _operation(value: Any) -> Tree:
    from kapiserver.api.cel.json_values import type_name_errors
    from kapiserver.api.cel.values import StructValue

    operation: Tree = {name: value.get(name, "") for name in ("op", "path")}
    if value.get("from"):
        operation["from"] = value["from"]
    if "value" in value:
        if isinstance(value["value"], StructValue) and (
            errors := list(type_name_errors(value["value"]))
        ):
            raise MutationFailed("type mismatch: " + "\n".join(errors))
        operation["value"] = _to_json(value["value"])
    return operation


def _to_json(value: Any) -> Any:
    from kapiserver.api.cel.json_values import to_json
    from kapiserver.api.cel.values import EvaluationError

    try:
        return to_json(value)
    except EvaluationError as error:
        raise MutationFailed(
            f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        ) from None
