"""How writes of custom objects behave, by what their definition says.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource: strategy.go, status_strategy.go
and validator.go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kapiserver.api.accessors import copy_tree, generation_of, is_larger_than, metadata_of, value_at
from kapiserver.api.apiextensions import (
    cel,
    embedded_resources,
    schema_defaults,
    schema_validation,
)
from kapiserver.api.apiextensions.structural import Structural, has_rules
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.metadata_validation import any_finalizers
from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.api.types import Tree

MAX_INT32 = 2**31 - 1
MOST_PARTS = 10_000
"""Of an object that is checked at once: each takes about a microsecond."""
MOST_STEPS = 100_000
"""Of its rules that are evaluated at once, at 0.1 to 0.3 us each."""
_STOP = ("not supported", "required", "too long", "too many", "type invalid")
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


class CustomStrategy(Strategy):
    """Writes of the object itself.

    hurried  raises TakesLong for what takes more than some 20 ms
    """

    allow_unconditional_update = False

    def __init__(
        self, schema: Structural, *, has_status: bool, scale: Tree | None, fast_only: bool = True
    ) -> None:
        self._schema = schema
        self._has_status = has_status
        self._scale = scale
        self._hurried = fast_only
        self.reset_fields = {"f:status": {}} if has_status else {}

    @functools.cached_property
    def slow_strategy(self) -> CustomStrategy:
        """The same, for when nobody waits."""
        return CustomStrategy(
            self._schema, has_status=self._has_status, scale=self._scale, fast_only=False
        )

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_create(self, obj: Tree) -> None:
        if self._has_status:
            obj.pop("status", None)
            status = self._schema.properties.get("status")
            if status is not None and status.default is not None:
                schema_defaults.apply(obj, self._schema)  # as when it is read from the store
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if self._has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copy_tree(old["status"])
        changed = _content(new) != _content(old)
        metadata_of(new)["generation"] = generation_of(old) + changed

    def validate(self, obj: Tree) -> list[FieldError]:
        return self._check(obj, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self._check(new, old)

    def _check(self, new: Tree, old: Tree | None) -> list[FieldError]:
        if self._hurried and is_larger_than(new, MOST_PARTS):
            raise ValidationTakesLong(self.slow_strategy)
        found = schema_validation.validate(new, self._schema, old)
        if self._scale is not None:
            found = [*found, *_scale_errors(new, self._scale)]
        found = [*found, *embedded_resources.check(new, self._schema)]
        if any(one.type in _STOP for one in found):
            blocked = [*found, FieldError("invalid", Path("<nil>"), _NOT_CHECKED, None)]
            return blocked if has_rules(self._schema) else found
        if not has_rules(self._schema):
            return found
        return [*found, *self._broken_rules(new, old)]

    def _broken_rules(self, new: Tree, old: Tree | None) -> list[FieldError]:
        from kapiserver.api.apiextensions.cel_evaluation import OutOfTime  # for kinds with rules

        steps = MOST_STEPS if self._hurried else None
        try:
            return cel.validate(new, old, self._schema, steps=steps)
        except OutOfTime:
            raise ValidationTakesLong(self.slow_strategy) from None


class CustomStatusStrategy(Strategy):
    """Writes of the status alone: everything else stays as it is stored."""

    allow_unconditional_update = False

    def __init__(self, schema: Structural, kind: CustomStrategy) -> None:
        self._schema = schema
        self._kind = kind
        names = {"apiVersion", "kind", "metadata", "spec", *schema.properties}
        self.reset_fields: dict[str, Any] = {f"f:{one}": {} for one in names - {"status"}}

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        status = {"status": new["status"]} if "status" in new else {}
        managed = metadata_of(new).get("managedFields")
        kept = copy_tree({name: value for name, value in old.items() if name != "status"})
        new.clear()
        new.update(kept | status)
        metadata_of(new).pop("managedFields", None)
        if managed is not None:
            metadata_of(new)["managedFields"] = managed

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        try:
            return self._kind.validate_update(new, old)
        except ValidationTakesLong:
            raise ValidationTakesLong(
                CustomStatusStrategy(self._schema, self._kind.slow_strategy)
            ) from None


def strategies_of(
    schema: Structural, *, has_status: bool, scale: Tree | None
) -> Mapping[str, Strategy]:
    """The strategies of one version, by subresource; `scale` says where its numbers are."""
    kind = CustomStrategy(schema, has_status=has_status, scale=scale)
    return {"": kind, "status": CustomStatusStrategy(schema, kind), "scale": kind}


def _content(obj: Tree) -> Tree:
    """What a generation counts the changes of."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}


def path_of(json_path: str) -> tuple[str, ...]:
    """The names in a path of dots."""
    return tuple(json_path.removeprefix(".").split("."))


def _scale_errors(obj: Tree, scale: Tree) -> Iterator[FieldError]:
    for name in ("specReplicasPath", "statusReplicasPath"):
        text = scale[name]
        path = Path(text)
        replicas = value_at(obj, *path_of(text))
        if replicas is None:
            continue
        if type(replicas) is not int:
            found = f"{_shown(replicas)} is of the type {_go(replicas)}"
            words = f"{text} accessor error: {found}, expected int64"
            yield invalid(path, 0, words)
        elif replicas < 0:
            yield invalid(path, replicas, "should be a non-negative integer")
        elif replicas > MAX_INT32:
            yield invalid(path, replicas, f"should be less than or equal to {MAX_INT32}")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _go(value: Any) -> str:
    names = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
