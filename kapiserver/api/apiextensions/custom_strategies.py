"""How writes of custom objects behave, by what their definition says.

Mirrors k8s.io/apiextensions-apiserver/pkg/registry/customresource: strategy.go, status_strategy.go
and validator.go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kapiserver.api.apiextensions import cel, schema_defaults, schema_validation
from kapiserver.api.custom import CustomVersion
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.metadata import any_finalizers
from kapiserver.api.objects import copied, generation_of, metadata_of, outweighs, value_at
from kapiserver.api.strategy import Strategy, TakesLong
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

    def __init__(self, version: CustomVersion, *, hurried: bool = True) -> None:
        self._version = version
        self._hurried = hurried
        self.reset_fields = {"f:status": {}} if version.has_status else {}

    @functools.cached_property
    def unhurried(self) -> CustomStrategy:
        """The same, for when nobody waits."""
        return CustomStrategy(self._version, hurried=False)

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_create(self, obj: Tree) -> None:
        if self._version.has_status:
            obj.pop("status", None)
            schema = self._version.structural
            if "status" in schema.properties and schema.properties["status"].default is not None:
                schema_defaults.apply(obj, schema)  # as when it is read from the store
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if self._version.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copied(old["status"])
        changed = _content(new) != _content(old)
        metadata_of(new)["generation"] = generation_of(old) + changed

    def validate(self, obj: Tree) -> list[FieldError]:
        return self._check(obj, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self._check(new, old)

    def _check(self, new: Tree, old: Tree | None) -> list[FieldError]:
        version = self._version
        if self._hurried and outweighs(new, MOST_PARTS):
            raise TakesLong(self.unhurried)
        schema = version.structural
        found = schema_validation.validate(new, schema, old)
        if version.scale is not None:
            found = [*found, *_scale_errors(new, version.scale)]
        if any(one.type in _STOP for one in found):
            blocked = [*found, FieldError("invalid", Path("<nil>"), _NOT_CHECKED, None)]
            return blocked if cel.has_rules(schema) else found
        if not cel.has_rules(schema):
            return found
        return [*found, *self._broken_rules(new, old)]

    def _broken_rules(self, new: Tree, old: Tree | None) -> list[FieldError]:
        from kapiserver.api.apiextensions.cel_evaluation import OutOfTime  # for kinds with rules

        steps = MOST_STEPS if self._hurried else None
        try:
            return cel.validate(new, old, self._version.structural, steps=steps)
        except OutOfTime:
            raise TakesLong(self.unhurried) from None


class CustomStatusStrategy(Strategy):
    """Writes of the status alone: everything else stays as it is stored."""

    allow_unconditional_update = False

    def __init__(self, version: CustomVersion, kind: CustomStrategy) -> None:
        self._version = version
        self._kind = kind
        names = {"apiVersion", "kind", "metadata", "spec", *version.structural.properties}
        self.reset_fields: dict[str, Any] = {f"f:{one}": {} for one in names - {"status"}}

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        status = {"status": new["status"]} if "status" in new else {}
        managed = metadata_of(new).get("managedFields")
        kept = copied({name: value for name, value in old.items() if name != "status"})
        new.clear()
        new.update(kept | status)
        metadata_of(new).pop("managedFields", None)
        if managed is not None:
            metadata_of(new)["managedFields"] = managed

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        try:
            return self._kind.validate_update(new, old)
        except TakesLong:
            raise TakesLong(CustomStatusStrategy(self._version, self._kind.unhurried)) from None


def strategies_of(version: CustomVersion) -> Mapping[str, Strategy]:
    """The strategies of one version, by subresource."""
    kind = CustomStrategy(version)
    return {"": kind, "status": CustomStatusStrategy(version, kind), "scale": kind}


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
