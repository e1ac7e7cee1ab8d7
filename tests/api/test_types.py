"""The declaration form, and the declarations of all groups read as one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import HUB, GroupVersion, GroupVersionKind
from kapiserver.api.meta.lists import list_type
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import (
    STRING,
    Kind,
    ListOf,
    MapOf,
    Message,
    Scalar,
    Type,
    double,
    field,
    int32,
    int64,
)

CORE, APPS = GroupVersion("", "v1"), GroupVersion("apps", "v1")


class Part(Type):
    """A part."""

    size: int32 = field(1)


class Whole(Type):
    """Every form an annotation can have."""

    text: str = field(1)
    raw: bytes = field(2)
    free: Any = field(3)
    big: int64 | None = field(4)
    ratio: double = field(5)
    part: Part = field(6)
    parts: list[Part] = field(7)
    by_name: dict[str, list[str]] = field(8)
    from_: bool = field(9)
    ref: str = field(10, json="$ref", proto="ref")
    inner: Part = field(11, inline=True)
    itself: Whole | None = field(12)


SHAPES = [
    ("text", STRING, False),
    ("raw", Scalar("bytes"), False),
    ("free", Scalar("any"), False),
    ("big", Scalar("int64"), True),
    ("ratio", Scalar("double"), False),
    ("part", Message(Part), False),
    ("parts", ListOf(Message(Part)), False),
    ("by_name", MapOf(ListOf(STRING)), False),
    ("from", Scalar("bool"), False),
    ("$ref", STRING, False),
    ("inner", Message(Part), False),
    ("itself", Message(Whole), True),
]


def test_annotations_become_shapes() -> None:
    """Each annotation is read as a shape, and `| None` as a pointer, in declared order."""
    assert [(f.name, f.shape, f.pointer) for f in Whole.fields()] == SHAPES


def test_embedded_structs_open_in_flat_fields() -> None:
    """JSON shows the fields of an embedded struct in its place."""
    flat = [(one.field.name, [f.name for f in one.through]) for one in Whole.flat_fields()]
    assert flat[-2:] == [("size", ["inner"]), ("itself", [])]


def test_subclass_has_the_fields_of_its_base() -> None:
    """A hub type that adds nothing has the fields of the version it stands for."""

    class Hub(Whole):
        """The same."""

    assert [f.name for f in Hub.fields()] == [f.name for f in Whole.fields()]


def test_unknown_annotation_is_an_error_with_its_place() -> None:
    """A field that no shape fits is named in the error."""

    class Wrong(Type):
        """Wrong."""

        value: set[str] = field(1)

    with pytest.raises(TypeError, match=r"Wrong\.value"):
        Wrong.fields()


def _types(type_: type[Type], seen: set[type[Type]]) -> set[type[Type]]:
    if type_ not in seen:
        seen.add(type_)
        for one in type_.fields():
            shape: Any = one.shape
            while isinstance(shape, ListOf | MapOf):
                shape = shape.item if isinstance(shape, ListOf) else shape.value
            if isinstance(shape, Message):
                _types(shape.type, seen)
    return seen


ALL: set[type[Type]] = set()
for _group in Scheme().declared_groups:
    for _version in _group.declared_versions:
        for _kind in Scheme().kinds(GroupVersion(_group.name, _version)):
            _types(_kind, ALL)


@pytest.mark.parametrize("type_", sorted(ALL, key=str), ids=lambda one: one.__name__)
def test_every_declaration_is_sound(type_: type[Type]) -> None:
    """Each reachable type has a docstring, unique names and unique tags above zero."""
    assert (type_.__doc__ or "").strip().endswith(".")
    names = [one.field.name for one in type_.flat_fields()]
    assert len(names) == len(set(names))
    numbers = [one.number for one in type_.fields() if one.number is not None]
    assert len(numbers) == len(set(numbers))
    assert 0 not in numbers
    for one in type_.fields():
        if one.declaration.keys:
            assert isinstance(one.shape, ListOf)
            assert isinstance(one.shape.item, Message)
            keyed = {flat.field.name for flat in one.shape.item.type.flat_fields()}
            assert set(one.declaration.keys) <= keyed


KINDS = [
    (CORE, "Pod", True),
    (CORE, "PodList", True),
    (CORE, "Binding", True),
    (CORE, "PodLogOptions", True),
    (CORE, "Status", True),
    (CORE, "List", True),
    (APPS, "Deployment", True),
    (APPS, "DeleteOptions", True),
    (GroupVersion("autoscaling", "v1"), "Scale", True),
    (GroupVersion("autoscaling", HUB), "HorizontalPodAutoscaler", True),
    (GroupVersion("autoscaling", HUB), "HorizontalPodAutoscalerList", True),
    (GroupVersion("apidiscovery.k8s.io", "v2"), "APIGroupDiscoveryList", True),
    (GroupVersion("apidiscovery.k8s.io", "v2beta1"), "APIGroupDiscovery", True),
    (GroupVersion("meta.k8s.io", "v1"), "Table", True),
    (GroupVersion("meta.k8s.io", "v1beta1"), "Table", True),
    (GroupVersion("meta.k8s.io", "v1beta1"), "PartialObjectMetadataList", True),
    (GroupVersion("apps", "v1beta1"), "DeploymentList", True),
    (GroupVersion("admission.k8s.io", "v1"), "AdmissionReview", True),
    (GroupVersion("admission.k8s.io", "v1"), "AdmissionReviewList", False),
    (GroupVersion("rbac.authorization.k8s.io", "v1"), "Role", True),
    (GroupVersion("batch", "v1beta1"), "CronJob", True),
    (GroupVersion("batch", "v1beta1"), "Job", False),
    (GroupVersion("batch", "v2"), "Job", False),
    (CORE, "BindingList", False),
    (CORE, "PodListList", False),
    (CORE, "ObjectMeta", False),
    (APPS, "Pod", False),
    (APPS, "PersistentVolumeClaim", False),
    (GroupVersion("autoscaling", "v2"), "Scale", False),
    (GroupVersion("apps", "v9"), "Deployment", False),
    (GroupVersion("nowhere", "v1"), "Thing", False),
]


@pytest.mark.parametrize(("version", "name", "known"), KINDS)
def test_scheme_finds_kinds(version: GroupVersion, name: str, known: bool) -> None:
    """Kinds, their lists and the kinds of meta are found by name; all else is NotRegistered."""
    kind = GroupVersionKind(*version, name)
    if known:
        assert Scheme().type_of(kind).__name__ == name
    else:
        with pytest.raises(NotRegistered):
            Scheme().type_of(kind)


def test_list_kind_has_metadata_and_items() -> None:
    """A list kind shows kind, apiVersion, metadata and items, the last even when nil."""
    pods = list_type(Scheme().type_of(CORE.with_kind("Pod")))
    assert issubclass(pods, Kind)
    assert [one.name for one in pods.fields()] == ["kind", "apiVersion", "metadata", "items"]
    assert pods.fields()[-1].declaration.always


def test_scheme_loads_no_types_until_asked() -> None:
    """Making a Scheme imports no group's package, and asking for one kind only what it needs."""
    code = """
import sys
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme

def packages():
    return sorted({name.split(".")[2] for name in sys.modules if name.startswith(API) and
                   hasattr(sys.modules[name], "__path__")})

API = "kapiserver.api."
scheme = Scheme()
before = packages()
scheme.type_of(GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role")).fields()
print(before, packages())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['meta'] ['meta', 'rbac']"
