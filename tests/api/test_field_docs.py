"""The `doc=` text of every field that users can read."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import FieldOptions, FieldOverride, Kind, Type, description

LEAST_WORDS = 4
MOST_USES = 3
ALLOWED = {
    "Standard object's metadata, such as its name, labels and owners.": (
        "every kind has it; conformance tests look for the first words"
    ),
    "Standard list metadata: the list's resourceVersion and the token for its next page.": (
        "every list has it, and it means the same in each"
    ),
}
"""Texts that may be used more often, and why."""
SHARED_MODULES = ("scalar_types", "quantity", "runtime")


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """The doc of a field; `source` is the folder of the group and the type that declares it."""

    place: str
    source: str
    text: str


def _modules() -> Iterator[Any]:
    groups = Scheme().declared_groups
    versions = [f"{group.package}.{v}" for group in groups for v in group.declared_versions]
    for name in (*SHARED_MODULES, *versions):
        yield importlib.import_module(f"kapiserver.api.{name}")


def _types() -> Iterator[type[Type]]:
    for module in _modules():
        for value in vars(module).values():
            is_type = isinstance(value, type) and issubclass(value, Type)
            if is_type and f"{value.__module__}.".startswith(f"{module.__name__}."):
                yield value


def _declaring_class(type_: type[Type], attribute: str) -> type[Type]:
    """The class that declares the doc: a base class if the field is inherited."""
    for base in type_.__mro__:
        value = vars(base).get(attribute)
        if isinstance(value, FieldOptions):
            return base
        if isinstance(value, FieldOverride) and "doc" in (value.options or {}):
            return base
    raise AssertionError(f"{type_.__name__}.{attribute} is declared nowhere")


def _field_docs() -> Iterator[FieldDoc]:
    for type_ in _types():
        for field in type_.fields():
            is_type_meta = issubclass(type_, Kind) and field.name in ("kind", "apiVersion")
            if is_type_meta or field.options.inline:  # an embedded struct has no name in JSON
                continue
            place = f"{type_.__module__.removeprefix('kapiserver.api.')}.{type_.__name__}"
            writer = _declaring_class(type_, field.attribute)
            folder = writer.__module__.split(".")[2]
            yield FieldDoc(
                place=f"{place}.{field.attribute}",
                source=f"{folder} {writer.__name__}.{field.attribute}",
                text=field.options.doc,
            )


@pytest.fixture(scope="module", name="docs")
def _docs() -> list[FieldDoc]:
    return list(_field_docs())


def test_every_field_has_a_doc(docs: list[FieldDoc]) -> None:
    """Each field of a served type has a doc, except embedded structs."""
    assert len(docs) > 2000
    assert [doc.place for doc in docs if not doc.text] == []


def test_metadata_docs_begin_as_conformance_tests_expect() -> None:
    """The doc of a kind's metadata begins with Kubernetes' own text, which conformance tests
    check."""
    texts = {
        f"{type_.__module__}.{type_.__name__}": field.options.doc
        for type_ in _types()
        for field in type_.fields()
        if issubclass(type_, Kind) and field.name == "metadata"
    }
    assert len(texts) > 50
    beginnings = ("Standard object's metadata", "Standard list metadata")
    assert [kind for kind, text in texts.items() if not text.startswith(beginnings)] == []
    (created,) = (field for field in ObjectMeta.fields() if field.name == "creationTimestamp")
    assert created.options.doc.startswith("CreationTimestamp is a timestamp")


def test_docs_are_sentences(docs: list[FieldDoc]) -> None:
    """Each text has at least four words, single spaces and a full stop at its end."""
    texts = {doc.text: doc.place for doc in docs if doc.text}
    short = {place: text for text, place in texts.items() if len(text.split()) < LEAST_WORDS}
    assert short == {}
    ragged = {place: text for text, place in texts.items() if " ".join(text.split()) != text}
    assert ragged == {}
    open_ended = {place: text for text, place in texts.items() if not text.endswith(".")}
    assert open_ended == {}


def test_types_have_docs() -> None:
    """The text of each type has at least four words and ends with a full stop."""
    texts = {f"{type_.__module__}.{type_.__name__}": description(type_) for type_ in _types()}
    assert len(texts) > 1000
    assert {name: text for name, text in texts.items() if len(text.split()) < LEAST_WORDS} == {}
    assert {name: text for name, text in texts.items() if not text.endswith(".")} == {}


def test_docs_are_written_for_their_field(docs: list[FieldDoc]) -> None:
    """At most three fields have the same text; versions of a group count once."""
    uses: dict[str, set[str]] = defaultdict(set)
    for doc in docs:
        uses[doc.text].add(doc.source)
    repeated = {
        text: sorted(sources)
        for text, sources in uses.items()
        if len(sources) > MOST_USES and text not in ALLOWED
    }
    assert repeated == {}


def test_allowed_texts_are_in_use(docs: list[FieldDoc]) -> None:
    """Every exception in the list is needed."""
    assert {doc.text for doc in docs} >= ALLOWED.keys()
