"""Strategies of custom objects, from their definition.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource: strategy.go, status_strategy.go
and validator.go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kapiserver.api.accessors import (
    copy_tree,
    finalizers_of,
    generation_of,
    is_larger_than,
    metadata_of,
)
from kapiserver.api.apiextensions.cel import rules
from kapiserver.api.apiextensions.schema import (
    defaulting,
    embedded_resources,
    list_types,
    object_validation,
)
from kapiserver.api.apiextensions.schema.ratcheting import ABSENT
from kapiserver.api.apiextensions.schema.structural import Structural, has_rules
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.go_format import go_type, go_value
from kapiserver.api.metadata_validation import any_finalizers, finalizer_warnings
from kapiserver.api.strategy import Strategy, ValidationTakesLong
from kapiserver.api.types import Tree

MAX_INT32 = 2**31 - 1
MAX_PARTS = 10_000
"""The maximum size of an object that is validated at once: each part takes about a microsecond."""
MAX_STEPS = 100_000
"""The maximum steps of rules that are evaluated at once, 0.1 to 0.3 us each."""
_BLOCKING_ERRORS = ("not supported", "required", "too long", "too many", "type invalid")
_RULES_SKIPPED = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


_SKIPPED = FieldError("invalid", Path("<nil>"), _RULES_SKIPPED, None)


class CustomStrategy(Strategy):
    """The strategy of writes of the object itself.

    fast_only  whether to raise ValidationTakesLong if validation takes more than about 20 ms
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
        """The same strategy without a time limit."""
        return CustomStrategy(
            self._schema, has_status=self._has_status, scale=self._scale, fast_only=False
        )

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        finalizers = finalizers_of(new)
        if not finalizers:
            return []
        added = set(finalizers).difference(finalizers_of(old) if old is not None else ())
        return [text for finalizer in sorted(added) for text in finalizer_warnings(finalizer)]

    def prepare_for_create(self, obj: Tree) -> None:
        if self._has_status:
            obj.pop("status", None)
            status = self._schema.properties.get("status")
            if status is not None and status.default is not None:
                defaulting.apply(obj, self._schema)  # as when it is read from the store
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if self._has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copy_tree(old["status"])
        self.count_generation(new, old)

    def count_generation(self, new: Tree, old: Tree) -> None:
        """Set `metadata.generation` to that of the old object, plus one if the content changes."""
        changed = _content(new) != _content(old)
        metadata_of(new)["generation"] = generation_of(old) + changed

    def validate(self, obj: Tree) -> list[FieldError]:
        return self._check(obj, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self._check(new, old)

    def _check(self, new: Tree, old: Tree | None) -> list[FieldError]:
        self._limit_size(new)
        errors = object_validation.validate(new, self._schema, ABSENT if old is None else old)
        if self._scale is not None:
            errors = [*errors, *_scale_errors(new, self._scale)]
        errors = [*errors, *embedded_resources.check(new, self._schema)]
        return self._with_lists_and_rules(errors, new, old)

    def check_status(self, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a write of the status. Only the status is checked by the schema, but
        lists and rules are those of the whole object."""
        self._limit_size(new)
        errors: list[FieldError] = []
        schema = self._schema.properties.get("status")
        if schema is not None and "status" in new:
            path = Path("status")
            errors = object_validation.validate(
                new["status"], schema, old.get("status", ABSENT), path
            )
        if self._scale is not None:
            errors = [*errors, *_scale_status_errors(new, self._scale)]
        return self._with_lists_and_rules(errors, new, old)

    def _limit_size(self, new: Tree) -> None:
        if self._hurried and is_larger_than(new, MAX_PARTS):
            raise ValidationTakesLong(self.slow_strategy)

    def _with_lists_and_rules(
        self, errors: list[FieldError], new: Tree, old: Tree | None
    ) -> list[FieldError]:
        errors = [*errors, *list_types.check_update(new, old, self._schema)]
        if any(error.type in _BLOCKING_ERRORS for error in errors):
            return [*errors, _SKIPPED] if has_rules(self._schema) else errors
        if not has_rules(self._schema):
            return errors
        return [*errors, *self._rule_errors(new, old)]

    def with_metadata_errors(
        self, metadata_errors: Sequence[FieldError], errors: Sequence[FieldError]
    ) -> Sequence[FieldError]:
        # As with other errors, rules are not checked. Errors of rules name no type of their own.
        is_blocked = any(error.type in _BLOCKING_ERRORS for error in metadata_errors)
        if not is_blocked or not has_rules(self._schema) or _SKIPPED in errors:
            return [*metadata_errors, *errors]
        return [*metadata_errors, *errors, _SKIPPED]

    def _rule_errors(self, new: Tree, old: Tree | None) -> list[FieldError]:
        from kapiserver.api.apiextensions.cel.evaluation import (
            OutOfTime,
        )  # loaded for kinds with rules

        steps = MAX_STEPS if self._hurried else None
        try:
            return rules.validate(new, old, self._schema, steps=steps)
        except OutOfTime:
            raise ValidationTakesLong(self.slow_strategy) from None


class CustomStatusStrategy(Strategy):
    """The strategy of writes of the status, which leave everything else unchanged."""

    allow_unconditional_update = False

    def __init__(self, schema: Structural, kind: CustomStrategy) -> None:
        self._schema = schema
        self._kind = kind
        names = {"apiVersion", "kind", "metadata", "spec", *schema.properties}
        self.reset_fields: dict[str, Any] = {f"f:{name}": {} for name in names - {"status"}}

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        status = {"status": new["status"]} if "status" in new else {}
        managed = metadata_of(new).get("managedFields")
        preserved = copy_tree({name: value for name, value in old.items() if name != "status"})
        new.clear()
        new.update(preserved | status)
        metadata_of(new).pop("managedFields", None)
        if managed is not None:
            metadata_of(new)["managedFields"] = managed

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        try:
            return self._kind.check_status(new, old)
        except ValidationTakesLong:
            raise ValidationTakesLong(
                CustomStatusStrategy(self._schema, self._kind.slow_strategy)
            ) from None


def strategies_of(
    schema: Structural, *, has_status: bool, scale: Tree | None
) -> Mapping[str, Strategy]:
    """Return the strategies of one version, by subresource; `scale` has the paths of its
    replicas."""
    kind = CustomStrategy(schema, has_status=has_status, scale=scale)
    return {"": kind, "status": CustomStatusStrategy(schema, kind), "scale": kind}


def _content(obj: Tree) -> Tree:
    """Return the part of an object whose changes a generation counts."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "apiVersion")}


def path_of(json_path: str) -> tuple[str, ...]:
    """Return the field names of a simple JSONPath."""
    return tuple(json_path.removeprefix(".").split("."))


def _scale_errors(obj: Tree, scale: Tree) -> Iterator[FieldError]:
    yield from _replicas_errors(obj, scale["specReplicasPath"])
    yield from _scale_status_errors(obj, scale)


def _scale_status_errors(obj: Tree, scale: Tree) -> Iterator[FieldError]:
    yield from _replicas_errors(obj, scale["statusReplicasPath"])
    selector_path = scale.get("labelSelectorPath")
    if selector_path:
        selector = _nested(obj, selector_path, str)
        if isinstance(selector, _Misplaced):
            yield invalid(Path(selector_path), "", selector.message)


def _replicas_errors(obj: Tree, text: str) -> Iterator[FieldError]:
    path, replicas = Path(text), _nested(obj, text, int)
    if isinstance(replicas, _Misplaced):
        yield invalid(path, 0, replicas.message)
    elif replicas is None:
        return
    elif replicas < 0:
        yield invalid(path, replicas, "should be a non-negative integer")
    elif replicas > MAX_INT32:
        yield invalid(path, replicas, f"should be less than or equal to {MAX_INT32}")


class _Misplaced(NamedTuple):
    """A value of another type than the path needs."""

    message: str


def _nested(obj: Tree, json_path: str, kind: type) -> Any:
    """Return the value at a simple JSONPath, None if there is none, or a _Misplaced. Mirrors
    NestedInt64 and NestedString of unstructured."""
    value: Any = obj
    names = path_of(json_path)
    for depth, name in enumerate(names, 1):
        if value is None:
            return None
        if not isinstance(value, dict):
            return _misplaced(names[:depth], value, "map[string]interface{}")
        if name not in value:
            return None
        value = value[name]
    return value if type(value) is kind else _misplaced(names, value, go_type(kind()))


def _misplaced(names: Sequence[str], value: Any, expected: str) -> _Misplaced:
    type_name = "<nil>" if value is None else go_type(value)
    return _Misplaced(
        f".{'.'.join(names)} accessor error: {go_value(value)} is of the type {type_name}, "
        f"expected {expected}"
    )
