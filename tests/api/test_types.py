"""The declaration of types, and the declarations of all groups."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import HUB, Group, GroupVersion, GroupVersionKind
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
    annotation,
    double,
    field,
    inherit_types,
    int32,
    int64,
    override_field,
    remove_field,
)

CORE, APPS = GroupVersion("", "v1"), GroupVersion("apps", "v1")


class Part(Type):
    """A part."""

    size: int32 = field(1)


class Whole(Type):
    """A type with every annotation."""

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
    """Each annotation becomes a shape, and `| None` a pointer, in declared order."""
    assert [(f.name, f.shape, f.pointer) for f in Whole.fields()] == SHAPES


def test_embedded_structs_open_in_flat_fields() -> None:
    """The flat fields have the fields of an embedded struct in its place."""
    flat = [
        (flat_field.field.name, [f.name for f in flat_field.embedded_in])
        for flat_field in Whole.flat_fields()
    ]
    assert flat[-2:] == [("size", ["inner"]), ("itself", [])]


def test_subclass_has_the_fields_of_its_base() -> None:
    """A hub type without fields of its own has the fields of its base."""

    class Hub(Whole):
        """A hub type without fields of its own."""

    assert [f.name for f in Hub.fields()] == [f.name for f in Whole.fields()]


def test_unknown_annotation_is_an_error() -> None:
    """An annotation without a shape raises an error that names the field."""

    class Wrong(Type):
        """Wrong."""

        value: set[str] = field(1)

    with pytest.raises(TypeError, match=r"Wrong\.value"):
        Wrong.fields()


STABLE = """
from kapiserver.api.types import Kind, Type, field, int32

class Part(Type):
    \"\"\"A part.\"\"\"
    size: int32 = field(1, required=True, doc="How big it is.")

class Shared(Type):
    \"\"\"A type that the beta version has not.\"\"\"

class Whole(Kind):
    \"\"\"A whole.\"\"\"
    listed = False
    part: Part | None = field(1)
    parts: dict[str, Part] = field(2)
    shared: list[Shared] = field(3)
    text: str = field(4)
"""
BETA = """
from tests.versions import v1
from kapiserver.api.types import (
    Type, field, inherit_types, int64, override_field, remove_field
)

inherit_types(__name__, v1, without=("Shared",))

class Part(v1.Part):
    size = override_field(required=False, number=7)
    weight: int64 = field(8)
    name: str = field(9, before="size")

class Whole(v1.Whole):
    parts: list[Part] = field(2)
    text = remove_field()
"""


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The modules v1, and v1beta1 that inherits its types."""
    group = ModuleType("tests.versions")
    monkeypatch.setitem(sys.modules, group.__name__, group)
    for version, source in (("v1", STABLE), ("v1beta1", BETA)):
        module = ModuleType(f"{group.__name__}.{version}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        setattr(group, version, module)
        exec(f"from __future__ import annotations\n{source}", vars(module))
    return group.v1, group.v1beta1


def test_inherited_types_are_those_of_their_own_version(versions: Any) -> None:
    """Nested types are this version's own if it declares them, else those of the other version."""
    v1, beta = versions
    assert [(f.name, f.shape) for f in beta.Whole.fields()] == [
        ("kind", STRING),
        ("apiVersion", STRING),
        ("part", Message(beta.Part)),
        ("parts", ListOf(Message(beta.Part))),
        ("shared", ListOf(Message(v1.Shared))),
    ]
    assert [f.shape for f in v1.Whole.fields()][2:4] == [Message(v1.Part), MapOf(Message(v1.Part))]
    assert not hasattr(beta, "Shared")


def test_inherited_fields_keep_their_place(versions: Any) -> None:
    """Changed and inherited fields have the order of the base class. New fields follow, or precede
    the field that they name."""
    v1, beta = versions
    assert [f.name for f in beta.Part.fields()] == ["name", "size", "weight"]
    size, before = beta.Part.fields()[1], v1.Part.fields()[0]
    assert (size.number, size.options.required, size.pointer) == (7, False, False)
    assert (before.number, before.options.required) == (1, True)
    assert size.options.doc == "How big it is."


def test_inherited_docstrings(versions: Any) -> None:
    """An inherited type has the docstring and the options of its base, but its own module."""
    _, beta = versions
    assert beta.Part.__module__ == "tests.versions.v1beta1"
    assert beta.Part.__doc__ == "A part."
    assert beta.Whole.__doc__ == "A whole."
    assert not beta.Whole.listed


@pytest.mark.parametrize("options", [{"only": ("Prat",)}, {"without": ("Part", "Prat")}])
def test_inherit_types_rejects_unknown_names(
    versions: Any, options: dict[str, tuple[str, ...]]
) -> None:
    """A name that the other version does not declare is an error."""
    v1, beta = versions
    with pytest.raises(TypeError, match=r"tests\.versions\.v1 has no types Prat"):
        inherit_types(beta.__name__, v1, **options)


def test_inherit_types_takes_only_the_named_types(versions: Any) -> None:
    """`only` excludes all other types."""
    v1, beta = versions
    del beta.Part
    inherit_types(beta.__name__, v1, only=("Shared",))
    assert issubclass(beta.Shared, v1.Shared)
    assert beta.Shared is not v1.Shared
    assert not hasattr(beta, "Part")


@pytest.mark.parametrize("change", [override_field(required=True), remove_field()])
def test_change_of_an_unknown_field_is_an_error(change: Any) -> None:
    """A field that no base class declares can be neither changed nor removed."""
    options: Any = type("Wrong", (Part,), {"sise": change})
    with pytest.raises(TypeError, match=r"Wrong\.sise: no base class declares this field"):
        options.fields()


def test_new_field_before_an_unknown_one_is_an_error() -> None:
    """A field can be placed only before a field that a base class declares."""

    class Wrong(Part):
        """Wrong."""

        weight: int64 = field(2, before="sise")

    with pytest.raises(TypeError, match=r"Wrong\.weight: no base class declares sise"):
        Wrong.fields()


@pytest.mark.parametrize("type_", [Part, Whole], ids=lambda declared: declared.__name__)
def test_annotation_declares_the_same_shape(type_: Any) -> None:
    """An annotation made from a field has the field's shape."""
    names = {f.attribute: annotation(f) for f in type_.fields()}
    fields = {f.attribute: f.options for f in type_.fields()}
    copied_type: Any = type("Again", (Type,), {"__annotations__": names, **fields})
    assert copied_type.fields() == type_.fields()


def _types(type_: type[Type], visited: set[type[Type]]) -> set[type[Type]]:
    if type_ not in visited:
        visited.add(type_)
        for declared in type_.fields():
            shape: Any = declared.shape
            while isinstance(shape, ListOf | MapOf):
                shape = shape.item if isinstance(shape, ListOf) else shape.value
            if isinstance(shape, Message):
                _types(shape.type, visited)
    return visited


@pytest.mark.parametrize("group", Scheme().declared_groups, ids=lambda group: group.name or "core")
def test_every_declaration_is_sound(group: Group) -> None:
    """Each reachable type of a group has a docstring, unique names, and unique tags above zero."""
    types: set[type[Type]] = set()
    for version in group.declared_versions:
        for kind in Scheme().kinds(GroupVersion(group.name, version)):
            _types(kind, types)
    for type_ in types:
        assert (type_.__doc__ or "").strip().endswith("."), type_
        names = [declared.field.name for declared in type_.flat_fields()]
        assert len(names) == len(set(names)), type_
        numbers = [declared.number for declared in type_.fields() if declared.number is not None]
        assert len(numbers) == len(set(numbers)), type_
        assert 0 not in numbers, type_
        for declared in type_.fields():
            if declared.options.keys:
                assert isinstance(declared.shape, ListOf), type_
                assert isinstance(declared.shape.item, Message), type_
                keyed = {flat.field.name for flat in declared.shape.item.type.flat_fields()}
                assert set(declared.options.keys) <= keyed, type_


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


@pytest.mark.parametrize(("version", "name", "exists"), KINDS)
def test_scheme_finds_kinds(version: GroupVersion, name: str, exists: bool) -> None:
    """Kinds, list kinds and the kinds of meta/v1 are found by name; others raise NotRegistered."""
    kind = GroupVersionKind(*version, name)
    if exists:
        assert Scheme().type_of(kind).__name__ == name
    else:
        with pytest.raises(NotRegistered):
            Scheme().type_of(kind)


def test_list_kind_has_metadata_and_items() -> None:
    """A list kind has kind, apiVersion, metadata and items, even if there are no items."""
    pods = list_type(Scheme().type_of(CORE.with_kind("Pod")))
    assert issubclass(pods, Kind)
    assert [declared.name for declared in pods.fields()] == [
        "kind",
        "apiVersion",
        "metadata",
        "items",
    ]
    assert pods.fields()[-1].options.always


def test_scheme_loads_types_on_first_use() -> None:
    """Making a Scheme imports no group's package; a lookup imports only the packages that it
    needs."""
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
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "['meta'] ['meta', 'rbac']"
