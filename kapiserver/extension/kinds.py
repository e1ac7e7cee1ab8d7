"""Declared kinds: a Resource as a custom kind without a CustomResourceDefinition in the store.

Everything that custom kinds have is derived from the definition that the classes give: decoding,
defaults, validation, tables, OpenAPI, server-side apply. This module adds the functions of a
resource and the conversion between its versions. Knows no HTTP and no store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from kapiserver.api.accessors import metadata_of
from kapiserver.api.apiextensions.custom_strategies import CustomStatusStrategy, CustomStrategy
from kapiserver.api.custom_kinds import (
    VERBS,
    CustomKind,
    CustomKinds,
    CustomList,
    CustomVersion,
    Definition,
    TypeOfLists,
    TypeOfObjects,
    subclass_of,
)
from kapiserver.api.errors import ConversionFailed, FieldError, NotRegistered, Path
from kapiserver.api.group import GroupVersion, Subresource
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree, Type
from kapiserver.extension.messages import list_message, object_message
from kapiserver.extension.models import field_errors, has_models
from kapiserver.extension.objects import Object, apply_changes, read, write
from kapiserver.extension.resources import Functions, Resource, Version

_NOT_IN_HUB = ("apiVersion", "kind", "metadata")
_CONVERTED_METADATA = ("labels", "annotations")
_WRITES = {
    "create": "create",
    "update": "update",
    "patch": "update",
    "delete": "delete",
    "deletecollection": "delete",
}
"""The method of a source that each verb needs."""


def declared_kinds(resources: Iterable[Resource[Any]]) -> CustomKinds:
    """Return the kinds of resources. Raises ValueError for a definition that kube-apiserver would
    refuse, and UnusableType for numbers of Protobuf fields that do not fit together."""
    return CustomKinds(DeclaredKind(resource) for resource in resources)


class DeclaredKind(Definition):
    """The kind of one resource."""

    def __init__(self, declared: Resource[Any]) -> None:
        self.declared = declared
        definition = _checked(declared)
        names = definition["spec"]["names"]
        summary = {
            **definition,
            "metadata": {**definition["metadata"], "uid": "declared", "generation": 1},
            "status": {"acceptedNames": names},
        }
        super().__init__(summary, lambda: definition)
        self.versions  # noqa: B018 - raises UnusableType for numbers of fields

    @functools.cached_property
    def versions(self) -> Mapping[str, DeclaredVersion]:
        """The versions by name."""
        return {version["name"]: DeclaredVersion(self, version) for version in self._versions}


def _checked(declared: Resource[Any]) -> Tree:
    from kapiserver.api.apiextensions.schema.structural_rules import check

    for version in declared.definition["spec"]["versions"]:
        path = Path(f"{declared.name} {version['name']}")
        errors = check(version["schema"]["openAPIV3Schema"], path)
        if errors:
            raise ValueError("; ".join(map(str, errors)))
    return declared.definition


class DeclaredVersion(CustomVersion):
    """One version of a declared kind."""

    definition: DeclaredKind

    def __init__(self, definition: DeclaredKind, summary: Tree) -> None:
        super().__init__(definition, summary)
        self._message = object_message(definition.declared.type_of(self.name))
        self.has_protobuf = self._message is not None
        self.has_models = has_models(definition.declared.type_of(self.name))
        source = definition.declared.source
        if definition.declared.functions.answer is not None:
            self.verbs = ("create",)
        elif source is not None:
            self.verbs = tuple(
                verb for verb in VERBS if verb not in _WRITES or source.has(_WRITES[verb])
            )

    @property
    def declared(self) -> Resource[Any]:
        """The resource."""
        return self.definition.declared

    @property
    def functions(self) -> Functions:
        """The functions of the resource."""
        return self.declared.functions

    @functools.cached_property
    def type(self) -> TypeOfObjects:
        """The kind as a type."""
        type_: TypeOfObjects = subclass_of(CustomKind, self.definition.kind, self)
        return _with_message(type_, self._message)

    @functools.cached_property
    def list_type(self) -> TypeOfLists:
        """The list kind as a type."""
        message = None if self._message is None else list_message(self._message)
        type_: TypeOfLists = subclass_of(CustomList, self.definition.list_kind, self)
        return _with_message(type_, message)

    def _subresources(self) -> Iterator[Subresource]:
        yield from super()._subresources()
        for name, connect in self.functions.connects.items():
            yield Subresource(name=name, verbs=connect.verbs)

    def has_same_schema(self, other: CustomVersion) -> bool:
        """Report whether another version needs no conversion."""
        first, second = (self.declared.type_of(version.name) for version in (self, other))
        return first is second

    def default(self, obj: Tree) -> None:
        """Set the defaults of the classes and those of the function, in place. An object that does
        not fit the class gets those of the classes only: validation refuses it."""
        super().default(obj)
        if self.functions.default is not None:
            self.change(self.functions.default, obj)

    def convert(self, obj: Tree, version: GroupVersion) -> Tree:
        """Return the object in another version. Raises NotRegistered, ConversionFailed."""
        target = self.definition.versions.get(version.version)
        if target is None or version.group != self.definition.group:
            raise NotRegistered.of_kind(version.with_kind(self.definition.kind))
        if self.has_same_schema(target):
            return {**obj, "apiVersion": str(version)}
        try:
            converted = _from_hub(target.declared, target.name, self.hub_object(obj))
        except msgspec.ValidationError as error:
            raise ConversionFailed(f"{self.definition.name}: {error}") from None
        return _with_identity(converted, obj, version)

    def hub_object(self, obj: Tree) -> Object:
        """Return the object of the internal version. Raises msgspec.ValidationError."""
        converted = read(obj, self.declared.type_of(self.name))
        to_hub = self.declared.versions[self.name].to_hub
        if to_hub is None:
            return converted
        hub: Object = to_hub(converted)
        if hub.metadata == _NO_METADATA:
            hub.metadata = converted.metadata
        return hub

    def tree_of(self, hub: Object) -> Tree:
        """Return the tree in this version of an object of the internal version."""
        tree = _from_hub(self.declared, self.name, hub)
        return {**tree, "apiVersion": str(self.group_version), "kind": self.definition.kind}

    def change(self, function: Callable[..., None], obj: Tree, *others: Tree) -> None:
        """Call a function with the object, and others, in the internal version, and write what it
        changes into the object. Nothing changes if they do not fit the class."""
        try:
            hub, *other_hubs = map(self.hub_object, (obj, *others))
        except msgspec.ValidationError:
            return
        before = _from_hub(self.declared, self.name, hub)
        function(hub, *other_hubs)
        apply_changes(obj, before, _from_hub(self.declared, self.name, hub))

    @functools.cached_property
    def strategies(self) -> Mapping[str, Strategy]:
        """The strategies, by subresource."""
        kind = self.kind_strategy
        status = CustomStatusStrategy(self.structural, kind)
        connects: Mapping[str, Strategy] = dict.fromkeys(self.functions.connects, kind)
        return {**connects, "": kind, "status": status, "scale": kind}

    @functools.cached_property
    def kind_strategy(self) -> DeclaredStrategy:
        """The strategy of the objects."""
        return DeclaredStrategy(self)


AnyType = TypeVar("AnyType", bound=type[Type])


def _with_message(type_: AnyType, message: type[Type] | None) -> AnyType:
    """Let the Protobuf message of a type be that of another one; None: it has none."""
    if message is not None:
        type_.wire = True
        type_.message_type = classmethod(lambda _: message)  # type: ignore[assignment, method-assign]
    return type_


_NO_METADATA = Object().metadata


def _from_hub(declared: Resource[Any], name: str, hub: Object) -> Tree:
    """Return the tree of an object of the internal version in a version. It has the metadata of
    the object, unless the conversion sets other metadata."""
    version: Version = declared.versions[name]
    if version.from_hub is None:
        return write(hub)
    converted: Object = version.from_hub(hub)
    if converted.metadata == _NO_METADATA:
        converted.metadata = hub.metadata
    return write(converted)


def _with_identity(converted: Tree, obj: Tree, version: GroupVersion) -> Tree:
    """Return a converted object with the metadata of the original, except labels and annotations
    that the conversion has set."""
    metadata = dict(metadata_of(obj))
    changed = converted.get("metadata") or {}
    metadata |= {name: changed[name] for name in _CONVERTED_METADATA if name in changed}
    content = {name: value for name, value in converted.items() if name not in _NOT_IN_HUB}
    return {"apiVersion": str(version), "kind": obj["kind"], "metadata": metadata, **content}


def _accept(_new: Object, _old: Object | None) -> Iterable[FieldError]:
    """Yield no errors, for models: reading the object has validated it."""
    return ()


class DeclaredStrategy(CustomStrategy):
    """The strategy of a declared kind: that of its schema, and its functions.

    fast_only   as in CustomStrategy
    """

    def __init__(self, version: DeclaredVersion, *, fast_only: bool = True) -> None:
        super().__init__(
            version.structural,
            has_status=version.has_status,
            scale=version.scale,
            fast_only=fast_only,
        )
        self._version = version

    @functools.cached_property
    def slow_strategy(self) -> CustomStrategy:
        """The same strategy without a time limit."""
        return DeclaredStrategy(self._version, fast_only=False)

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        prepare = self._version.functions.prepare_for_create
        if prepare is not None:
            self._version.change(prepare, obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        prepare = self._version.functions.prepare_for_update
        if prepare is not None:
            self._version.change(prepare, new, old)
            self.count_generation(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return self._with_function(super().validate(obj), obj, None)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return self._with_function(super().validate_update(new, old), new, old)

    def check_status(self, new: Tree, old: Tree) -> list[FieldError]:
        errors = super().check_status(new, old)
        check = self._version.functions.validate_status
        return errors if errors or check is None else self._errors(check, new, old)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        warn = self._version.functions.warn
        if warn is None:
            return []
        try:
            return list(warn(*self._hubs(new, old)))
        except msgspec.ValidationError:
            return []

    def _with_function(
        self, errors: list[FieldError], new: Tree, old: Tree | None
    ) -> list[FieldError]:
        """Return the errors of the schema, or those of the function if there are none."""
        check = self._version.functions.validate
        if errors or (check is None and not self._version.has_models):
            return errors
        return self._errors(check or _accept, new, old)

    def _errors(
        self, check: Callable[[Any, Any], Iterable[FieldError]], new: Tree, old: Tree | None
    ) -> list[FieldError]:
        try:
            return list(check(*self._hubs(new, old)))
        except msgspec.ValidationError as error:
            return field_errors(error)

    def _hubs(self, new: Tree, old: Tree | None) -> tuple[Object, Object | None]:
        read_object = self._version.hub_object
        return read_object(new), None if old is None else read_object(old)
